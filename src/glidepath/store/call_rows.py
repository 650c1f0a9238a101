"""The tables of sites that call: what is kept for each until its agent calls, and the tokens they call with.

What a site says and what it is to do are texts of JSON; `glidepath.called` knows what they mean.
"""

from __future__ import annotations

from sqlalchemy import Column, Double, Index, Table, Text

from glidepath.store.schema import Whole, metadata

call_sites = Table(
    "call_sites",
    metadata,
    Column("site", Text, primary_key=True),
    Column("ticket", Text, nullable=False),  # what the next call must carry; drawn anew at every one
    Column("heard_at", Whole),  # absent before the first call
    Column("heard_wall_s", Double),
    Column("said", Text, nullable=False),  # the last report
    Column("calls", Whole, nullable=False),
    Column("given", Whole, nullable=False),  # pilots handed to the agent,
    Column("refused", Whole, nullable=False),  # and those that it did not start
    Column("last_refusal", Text, nullable=False),
    info={"since": 4},
)

call_requests = Table(
    "call_requests",
    metadata,
    Column("site", Text, primary_key=True),
    Column("name", Text, primary_key=True),
    Column("body", Text, nullable=False),  # everything but the secrets
    info={"since": 4},
)

# Apart, and gone as soon as the agent has said that it took the request: nobody lists them by accident.
call_secrets = Table(
    "call_secrets",
    metadata,
    Column("site", Text, primary_key=True),
    Column("name", Text, primary_key=True),
    Column("body", Text, nullable=False),
    info={"since": 4},
)

# Clients that name no pilots, as they call themselves, for people: `*` is the address that is open to all.
call_clients = Table(
    "call_clients",
    metadata,
    Column("site", Text, primary_key=True),
    Column("client", Text, primary_key=True),
    Column("wall_s", Double, nullable=False),
    Column("body", Text, nullable=False),
    info={"since": 5},
)

site_tokens = Table(
    "site_tokens",
    metadata,
    Column("id", Text, primary_key=True),
    Column("site", Text, nullable=False),
    Column("use", Text, nullable=False),  # `agent`, or `address` for a client that has no token
    Column("digest", Text, nullable=False),  # of the secret, which is shown once and kept nowhere
    Column("note", Text, nullable=False),
    Column("by", Text, nullable=False),
    Column("issued_wall_s", Double, nullable=False),
    Column("used_wall_s", Double),
    Column("revoked_wall_s", Double),
    info={"since": 4},
)
Index("site_tokens_of", site_tokens.c.site)
