"""The kind `kubernetes`: settings are known without its libraries, which are loaded when a site is made."""

from __future__ import annotations

from collections.abc import Mapping

from glidepath.config.tables import rebuilt
from glidepath.core.quantity import SiteName
from glidepath.kube.settings import KubernetesSettings
from glidepath.ports import Backend, Place


class KubernetesKind:
    """What the entry point offers: makes a backend from a site's own settings."""

    Settings = KubernetesSettings

    def __call__(self, site: SiteName, settings: Mapping[str, object], place: Place) -> Backend:
        try:
            from glidepath.kube.backend import KubernetesBackend
        except ImportError as error:
            raise ValueError(f"{error}; install `glidepath[kubernetes]`") from None
        # Checked when the file was read; what comes here are its values, not its texts.
        return KubernetesBackend(site, rebuilt(KubernetesSettings, settings), place)


backend = KubernetesKind()
