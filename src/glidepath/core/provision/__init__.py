"""The provisioner's decisions: what waits and what exists come in, a plan of pilots goes out.

`look` turns a snapshot and the memory into a picture, `decide` turns the picture into a plan, `remember`
folds what came of it into the next memory. It refuses to know what a schedd, a pod or a socket is.
"""
