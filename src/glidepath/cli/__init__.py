"""The command line: words come in, verbs run, data goes to stdout and talk to stderr.

It refuses to decide anything about pilots; it reads the journal, the store and the configuration, and
leaves the rest to the controllers. Nothing heavy is imported before the verb that needs it runs.
"""
