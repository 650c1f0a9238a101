"""The tables of people: who there is, which projects they belong to, and the tokens they show.

Nothing is ever taken out but a membership: jobs go on naming people who left and projects that closed.
"""

from __future__ import annotations

from sqlalchemy import Column, Double, Index, Table, Text

from glidepath.store.schema import Whole, metadata

people = Table(
    "people",
    metadata,
    Column("name", Text, primary_key=True),
    Column("role", Text, nullable=False),
    Column("by", Text, nullable=False),
    Column("made_wall_s", Double, nullable=False),
    Column("left_wall_s", Double),  # absent while they may come in
    info={"since": 7},
)

projects = Table(
    "projects",
    metadata,
    Column("name", Text, primary_key=True),
    Column("by", Text, nullable=False),
    Column("made_wall_s", Double, nullable=False),
    Column("gone_wall_s", Double),  # absent while it is open
    Column("parent", Text, nullable=False, server_default=""),  # since 8
    Column("weight", Whole, nullable=False, server_default="1"),  # since 8: its part beside its siblings
    Column("dry_at", Whole),  # since 8: when it was first seen to have nothing left
    info={"since": 7},
)

memberships = Table(
    "memberships",
    metadata,
    Column("person", Text, primary_key=True),
    Column("project", Text, primary_key=True),
    Column("by", Text, nullable=False),
    Column("made_wall_s", Double, nullable=False),
    info={"since": 7},
)
Index("memberships_of", memberships.c.project)

person_tokens = Table(
    "person_tokens",
    metadata,
    Column("id", Text, primary_key=True),
    Column("person", Text, nullable=False),
    Column("digest", Text, nullable=False),  # of the secret, which is shown once and kept nowhere
    Column("note", Text, nullable=False),
    Column("by", Text, nullable=False),
    Column("issued_wall_s", Double, nullable=False),
    Column("ends_wall_s", Double, nullable=False),
    Column("used_wall_s", Double),
    Column("revoked_wall_s", Double),
    info={"since": 7},
)
Index("person_tokens_of", person_tokens.c.person)
