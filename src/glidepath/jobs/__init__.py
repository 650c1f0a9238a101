"""Jobs as people ask for them: a caller and a wish come in, plain items or a named refusal go out.

The command line and the HTTP API are two ways to the same desk. It reads and writes the store and reads the
journal; it refuses to know HTTP, terminals and clusters, and starts nothing itself.
"""
