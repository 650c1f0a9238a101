"""HTCondor pools: what their schedds hold and what their collectors list comes in, demand and slots go out.

All calls into HTCondor run in child processes with deadlines, because the binding holds Python's lock while
it waits for the network. Nothing outside of the children imports the binding, and nothing here decides.
"""
