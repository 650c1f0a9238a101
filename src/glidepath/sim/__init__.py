"""The simulator: made-up pools and sites in virtual time behind the same doors, under the unchanged loop.

Workloads, worlds and faults come in, scores, plots and broken promises go out. It never imports a backend.
"""
