"""The kind `kubernetes` of clusters: settings are known without its libraries, loaded when a door is made."""

from __future__ import annotations

from collections.abc import Mapping

from glidepath.cluster.kubernetes.settings import KubernetesClusterSettings
from glidepath.config.tables import rebuilt
from glidepath.core.place.rank import ClusterName
from glidepath.ports import Cluster, Place


class KubernetesClusterKind:
    """Makes the door of a cluster from its own settings."""

    Settings = KubernetesClusterSettings

    def __call__(self, name: ClusterName, settings: Mapping[str, object], place: Place) -> Cluster:
        try:
            from glidepath.cluster.kubernetes.door import KubernetesCluster
        except ImportError as error:
            raise ValueError(f"{error}; install `glidepath[kubernetes]`") from None
        # Checked when the file was read; what comes here are its values, not its texts.
        return KubernetesCluster(name, rebuilt(KubernetesClusterSettings, settings), place)


cluster = KubernetesClusterKind()
