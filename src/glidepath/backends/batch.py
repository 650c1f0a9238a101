"""The kinds `slurm`, `pbs`, `sge`, `lsf` and `htcondor`: batch systems as sites, each by its own dialect."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from glidepath.batch.settings import SETTINGS, BatchSettings, walltime_refusal
from glidepath.config.tables import rebuilt
from glidepath.core.quantity import SiteName
from glidepath.ports import Backend, Place, SiteFound


class BatchKind:
    """What the entry point offers: makes a backend from a site's own settings."""

    def __init__(self, dialect: str) -> None:
        self.dialect = dialect
        self.Settings: type[BatchSettings] = SETTINGS[dialect]

    def __call__(self, site: SiteName, settings: Mapping[str, object], place: Place) -> Backend:
        from glidepath.batch.backend import BatchBackend
        from glidepath.batch.dialects import DIALECTS

        # Checked when the file was read; what comes here are its values, not its texts.
        own = rebuilt(self.Settings, settings)
        return BatchBackend(site, own, place, dialect=DIALECTS[self.dialect])

    def probe(self, site: SiteName, where: Mapping[str, object], place: Place) -> SiteFound:
        """What a site to be says of its queues, and the tables that follow from it."""
        import os

        from glidepath.batch.dialects import DIALECTS
        from glidepath.batch.probe import probed, ssh_of

        dialect, ssh = DIALECTS[self.dialect], ssh_of(where)
        return probed(site, dialect, ssh, environ=os.environ, folder=place.home)

    def together(self, settings: Mapping[str, object], offers: tuple[str, ...]) -> dict[str, int]:
        """Pilots that one request starts, by offer."""
        own = rebuilt(self.Settings, settings)
        jobs = {name: own.job(name) for name in offers}
        return {name: job.nodes * job.per_node for name, job in jobs.items()}

    def outlived(
        self, settings: Mapping[str, object], lifetimes_s: Mapping[str, int]
    ) -> Iterator[tuple[str, str]]:
        """Offers whose pilots would be ended by the site before their time."""
        own = rebuilt(self.Settings, settings)
        for name, lifetime_s in sorted(lifetimes_s.items()):
            if why := walltime_refusal(own.job(name), lifetime_s):
                yield name, why


slurm = BatchKind("slurm")
pbs = BatchKind("pbs")
sge = BatchKind("sge")
lsf = BatchKind("lsf")
htcondor = BatchKind("htcondor")
