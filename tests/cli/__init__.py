"""The command line, run in-process with its own streams, homes and clocks."""
