"""Where jobs are placed: a door for each kind of cluster. Sets of ranks come in, listings go out.

A door never decides where a rank goes. It refuses to know the scheduler, the store and other doors.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from glidepath.ports import ClusterKind

KINDS = {
    "local": "glidepath.cluster.local:door",
    "kubernetes": "glidepath.cluster.kubernetes.kind:cluster",
}


def kind_of(name: str) -> ClusterKind:
    """The maker of doors of this kind; imported only where one is asked for."""
    module, _, maker = KINDS[name].partition(":")
    return cast("ClusterKind", getattr(import_module(module), maker))
