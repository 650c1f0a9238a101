"""The tables, in one place for one `MetaData`, so that a migration sees the whole store at once."""

from __future__ import annotations

from sqlalchemy import MetaData

metadata = MetaData()
