"""The kind `cloud`: a queue of containers that the configuration describes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from glidepath.cloud.settings import CloudSettings
from glidepath.cloud.sizes import Boxes
from glidepath.config.tables import rebuilt
from glidepath.core.quantity import Resources, SiteName
from glidepath.ports import Backend, Place


class CloudKind:
    """What the entry point offers: makes a backend from a site's own settings."""

    Settings = CloudSettings

    def __call__(self, site: SiteName, settings: Mapping[str, object], place: Place) -> Backend:
        from glidepath.cloud.backend import CloudBackend

        # Checked when the file was read; what comes here are its values, not its texts.
        return CloudBackend(site, rebuilt(CloudSettings, settings), place)

    def unfit(
        self, settings: Mapping[str, object], sizes: Mapping[str, Resources]
    ) -> Iterator[tuple[str, str]]:
        """Offers of one size that the cloud does not have, each with the nearest that it has."""
        own = rebuilt(CloudSettings, settings)
        boxes = Boxes(own.memory_per_cpu, own.cpu_sizes)
        for name, size in sorted(sizes.items()):
            if why := boxes.refusal(size):
                yield name, why


backend = CloudKind()
