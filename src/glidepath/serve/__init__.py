"""The demand server: calls of agents come in over HTTP or as files, what their trays hold for them goes out.

It reads the configuration, the store and the journal, writes only the trays and the use of tokens, and never
talks to a site or a pool. A process of its own, so that nothing that calls can hold up the loop.
"""
