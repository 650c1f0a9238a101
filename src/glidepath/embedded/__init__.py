"""The embedded pool: jobs of the store come in, pilots of this machine take them, exit records come back.

For a laptop, a single server and for tests. It refuses to know how pilots are started; that is a backend's.
"""
