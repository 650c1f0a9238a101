"""The tables of notices: where people want them, how far each was told, and how many each had in an hour."""

from __future__ import annotations

from sqlalchemy import Column, Double, Index, Table, Text

from glidepath.store.schema import Whole, metadata

SINCE = {"since": 13}

notice_ways = Table(
    "notice_ways",
    metadata,
    Column("id", Text, primary_key=True),  # another one whenever its target is
    Column("person", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("target", Text, nullable=False),
    Column("secret", Text, nullable=False),  # that webhooks are signed with; empty for mail
    Column("wanted", Text, nullable=False),  # kinds of notices, with commas in between
    Column("made_wall_s", Double, nullable=False),
    Column("event", Whole, nullable=False),  # all up to this one was told, or is not to be
    Column("sending", Whole),  # the last event of the letter under way
    Column("tries", Whole, nullable=False),  # that it had
    Column("failing_wall_s", Double),  # since when nothing is taken
    Column("next_wall_s", Double, nullable=False),  # not tried before
    Column("off_wall_s", Double),  # since when it is switched off
    Column("why", Text, nullable=False),  # what was wrong the last time
    Column("sent_wall_s", Double),  # when something was taken last
    Column("test", Whole, nullable=False),  # 1 while a test is wanted
    Column("tested", Text, nullable=False),  # what became of the last one
    info=SINCE,
)
Index("notice_ways_of", notice_ways.c.person, notice_ways.c.name, unique=True)

notice_hours = Table(
    "notice_hours",
    metadata,
    Column("person", Text, primary_key=True),
    Column("began_wall_s", Double, nullable=False),
    Column("letters", Whole, nullable=False),
    info=SINCE,
)
