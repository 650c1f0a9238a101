"""Every test of people runs on a real SQLite file and on a real PostgreSQL."""

from store.conftest import store, store_url

__all__ = ["store", "store_url"]
