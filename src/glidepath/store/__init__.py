"""The one store: SQLite by default, PostgreSQL by address. Values come in, rows go out, and back.

It refuses to know what a decision is; the journal and the job store put meaning on top of it.
`engine` opens it, `migrations` brings it up to date, `lease` says whose it is.
"""
