"""The kind `called`: a site that cannot be reached, whose agent calls the demand server."""

from __future__ import annotations

from collections.abc import Mapping

from glidepath.called.settings import CalledSettings
from glidepath.config.tables import rebuilt
from glidepath.core.quantity import SiteName
from glidepath.ports import Backend, Place


class CalledKind:
    """What the entry point offers: makes a backend from a site's own settings."""

    Settings = CalledSettings

    def __call__(self, site: SiteName, settings: Mapping[str, object], place: Place) -> Backend:
        from glidepath.called.backend import CalledBackend

        # Checked when the file was read; what comes here are its values, not its texts.
        return CalledBackend(site, rebuilt(CalledSettings, settings), place)


backend = CalledKind()
