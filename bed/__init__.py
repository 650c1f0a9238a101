"""The bed: real servers for tests and for people who want to try, on a bare Debian machine.

Names of parts come in (`condor`, `condor@two`, `postgres`), running servers with their addresses and logs
go out. Only the standard library is used, because the bed runs before any virtual environment exists. It
knows nothing of glidepath itself.
"""
