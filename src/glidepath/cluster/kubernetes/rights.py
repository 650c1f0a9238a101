"""What the door asks of a cluster, as rows of resource, part and verb: the shipped roles grant just these."""

from __future__ import annotations

# In the namespace of the jobs.
IN_NAMESPACE: tuple[tuple[str, str, str], ...] = (
    *(("pods", "", verb) for verb in ("get", "list", "watch", "create", "delete", "patch")),
    ("pods", "log", "get"),
    *(("services", "", verb) for verb in ("get", "list", "watch", "create", "delete", "patch")),
    # Made and never read: the files of jobs may be private.
    ("secrets", "", "create"),
)
# In the namespace, in the group of APIs that policies are in; only where jobs are kept apart by them.
APART_GROUP = "networking.k8s.io"
APART: tuple[tuple[str, str, str], ...] = tuple(
    ("networkpolicies", "", verb) for verb in ("list", "watch", "create", "delete", "patch")
)
# In the whole cluster, and only where nodes are not stated.
IN_CLUSTER: tuple[tuple[str, str, str], ...] = (
    *(("nodes", "", verb) for verb in ("list", "watch")),
    *(("pods", "", verb) for verb in ("list", "watch")),
)
