"""A whole glidepath on a real cluster: its pilots are pods, its jobs those of a real schedd beside them."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bed.leaks import every_pid, read
from bed.parts.condor import Pool
from bed.parts.kubernetes import Cluster
from tests.bed_pool import MEANT, pool

from glidepath.pilot import pilot_file
from grid.grid_world import RIGHTS, Grid
from kube.real import rules
from whole.running import until

IMAGE = "bed.invalid/pilot:1"
NAMESPACE = "pilots"
ENTRY = ("python3", "-I", "/usr/local/lib/glidepath-pilot.pyz")
IDENTITY = "glidepath-bed@bed.example"
TAR_S_MAX = 120
LEFT_S_MAX = 60
KILLED = 'MyType = "Query"\nTargetType = "Machine"\nRequirements = GlidepathPilot isnt undefined\n'
CONFIG = """
[cycle]
min = "1s"
max = "3s"
deadline = "20s"

[pilots]
withdraw_after = "1m"
left_min = "10s"
join_slack = "10s"
useful_min = "30s"

{more}
[pools.bed]
collector = "{address}"
stale_after = "30s"

[pools.bed.condor]
trust_domain = "bed.example"
grace = "{grace}"

[pools.bed.condor.tokens]
file = "{token}"

[sites.pods]
kind = "kubernetes"
failures_max = 2
refused_wait = "5s"
repeat_within = "5s"
{site}

[sites.pods.kubernetes]
kubeconfig = "{kubeconfig}"
image = "{image}"
pull_policy = "Never"
{kubernetes}

[sites.pods.offers.small]
cpus = 1
memory = "600MiB"
disk = "1GiB"
lifetime = "1h"
idle = "{idle}"
limits = {{ live_max = {live_max} }}

[sites.pods.offers.small.condor]
lines = ["UPDATE_INTERVAL = 5"]
"""


class Pods(Grid):
    """A glidepath of this machine whose pilots are pods of one namespace."""

    def __init__(self, home: Path, daemons: Pool, cluster: Cluster, namespace: str = NAMESPACE) -> None:
        self.cluster = cluster
        self.namespace = namespace
        self.kubeconfig = cluster.service_account("glidepath", namespace=namespace, rules=rules())
        super().__init__(home, daemons)

    def configure(
        self,
        *pools: Pool,
        live_max: int = 1,
        idle: str = "30s",  # Less, and on a busy machine pilots leave before they are matched.
        deadline: str = "30s",
        image: str = IMAGE,
        site: str = "",
        kubernetes: str = "",
        more: str = "",
    ) -> None:
        """`deadline` is how long a job that runs may take to finish when its pilot has to leave.

        `site` and `kubernetes` are further lines of the site's tables, `more` further tables.
        """
        self.renew_token()
        told = {"address": self.pool.address, "token": self.token, "kubeconfig": self.kubeconfig}
        told |= {"image": image, "idle": idle, "live_max": live_max, "grace": deadline}
        self.config.write_text(CONFIG.format(**told, site=site, kubernetes=kubernetes, more=more))

    @property
    def token(self) -> Path:
        return self.home / "pool.token"

    def renew_token(self, identity: str = IDENTITY) -> None:
        """A new token of the pool in the file that glidepath reads."""
        fresh = self.token.with_suffix(".new")
        fresh.write_text(self.pool.token(identity, RIGHTS) + "\n")
        fresh.chmod(0o600)
        fresh.rename(self.token)

    def kubectl(self, *words: str) -> str:
        return self.cluster.kubectl(*words, "--namespace", self.namespace).must("kubectl").out

    def said(self) -> str:
        """What glidepath said, and why the cluster's pods are where they are: a failure must tell both."""
        shown = [super().said()]
        for words in (("get", "pods", "-o", "wide"), ("get", "events", "--sort-by=.lastTimestamp")):
            shown.append(self.cluster.kubectl(*words, "--namespace", self.namespace).out[-4000:])
        return "\n".join(shown)

    def folders(self) -> list[str]:
        """Pods of which the cluster has a trace."""
        return sorted(self.kubectl("get", "pods", "-o", "name").split())

    def pilots_at_work(self) -> list[int]:
        """Programs of pilots in containers of the cluster, whether it knows of their pods or not."""
        group = self.cluster.layout.group.encode()
        found = [pid for pid in every_pid() if ENTRY[-1].encode() in read(pid, "cmdline").split(b"\0")]
        return [pid for pid in found if group in read(pid, "cgroup")]

    def close(self) -> None:
        """A pilot that outlived its test, or was only believed to, would be given jobs of the next one."""
        super().close()
        self.kubectl("delete", "pods", "--all", "--grace-period=0", "--force")
        until(lambda: not self.pilots_at_work(), "pilots are killed with their pods", within_s=LEFT_S_MAX)
        self.pool.run("condor_advertise", "INVALIDATE_STARTD_ADS", given=KILLED).must("slots of the dead")


@contextmanager
def pool_of(cluster: Cluster, name: str = "condor@pods") -> Iterator[Pool]:
    """A pool on the end of the cluster's cable, where pods reach it."""
    with pool(name) as found:
        found.up(tied=True, address=cluster.host_address)
        MEANT.add(found.folder)
        yield found
        MEANT.discard(found.folder)


def bring_pilot(cluster: Cluster, daemons: Pool, folder: Path) -> str:
    """The image of pods: the bed's HTCondor with the pilot's file in it, and nothing of a pool."""
    place = folder / "more/usr/local/lib"
    place.mkdir(parents=True)
    pilot_file(folder).rename(place / "glidepath-pilot.pyz")
    (folder / "more/work").mkdir()
    left_out = ("./proc/*", "./sys/*", "./dev/*", "./var/cache/*", "./etc/condor/passwords.d/*")
    left_out += ("./etc/condor/config.d/*", "./var/lib/condor/*", "./run/*", "./tmp/*")
    archive, root = folder / "root.tar", daemons.build / "root"
    words = ["tar", "--numeric-owner", *(f"--exclude={each}" for each in left_out), "-cf", str(archive)]
    words += ["-C", str(root), ".", "-C", str(folder / "more"), "."]
    subprocess.run(words, check=True, timeout=TAR_S_MAX)
    cluster.import_image(archive, IMAGE, entry=ENTRY)
    return IMAGE
