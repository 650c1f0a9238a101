"""What a site of pyglidein has: the client's configuration, and the tarball that its own script of glideins
unpacks, with an HTCondor that joins the pool of the bed under a name of its own.

The script is the client's, unmodified. It wants CVMFS or parrot, so the tarball has a parrot that says yes.
It also starts a program that ships logs for ever, to nowhere here, so that there is one that ends at once.
"""

from __future__ import annotations

import io
import os
import shlex
import shutil
import tarfile
from pathlib import Path

from bed.parts.batch_root import USERS
from bed.parts.batch_site import Site
from bed.parts.condor import TOOL_PATH, Pool
from tests.bed_site import CondorSite

from calls.pyglidein_client import package
from grid.grid_world import RIGHTS

IDENTITY = "pilot-glidein@bed.example"
SHIPPER = "log_shipper.sh"
SCRIPTS = ("glidein_start.sh", "os_arch.sh", SHIPPER)
CONDOR_TOOLS = ("condor_submit", "condor_q")
# The script sets these for its authors' pool, and says options that masters of today do not have.
MASTER = """#!/bin/sh
unset _condor_COLLECTOR_HOST _condor_CCB_ADDRESS _condor_CONDOR_HOST _condor_SBIN _condor_LIB
export _condor_STARTD_NOCLAIM_SHUTDOWN=60
for name in log spool lock run execute; do mkdir "$_condor_LOCAL_DIR/$name"; done
exec {sbin}/condor_master -f
"""
PARROT = "#!/bin/sh\nexit 0\n"
WRAPPER = '#!/bin/sh\nexec "$@"\n'
# Where the machine's own HTCondor is, in the root file system of a pool.
INSTALLED = "RELEASE_DIR = /usr\nSBIN = /usr/sbin\nLIB = /usr/lib/condor\nLIBEXEC = /usr/libexec/condor"
JOINS = """
LOG = $(LOCAL_DIR)/log
SPOOL = $(LOCAL_DIR)/spool
LOCK = $(LOCAL_DIR)/lock
RUN = $(LOCAL_DIR)/run
EXECUTE = $(LOCAL_DIR)/execute
LOCAL_CONFIG_FILE =
LOCAL_CONFIG_DIR =
DAEMON_LIST = MASTER, STARTD
{network}
SEC_DEFAULT_AUTHENTICATION_METHODS = IDTOKENS
SEC_CLIENT_AUTHENTICATION_METHODS = IDTOKENS
SEC_TOKEN_DIRECTORY = $(LOCAL_DIR)/tokens.d
SEC_USE_FAMILY_SESSION = False
FILESYSTEM_DOMAIN = glidein.invalid
USE_PROCD = False
DISCARD_SESSION_KEYRING_ON_STARTUP = False
RESERVED_MEMORY = 0
BENCHMARKS_JOBLIST =
JAVA =
UPDATE_INTERVAL = 5
"""
CONFIG = """
[Glidein]
address = {address}/jsonrpc
site = west
cluster = 127.0.0.1
tarball = {work}/glidein.tar.gz
glidein_script = {work}/glidein_start.sh

[Cluster]
user = pilot
os = linux
max_total_jobs = 4
limit_per_submit = 2
walltime_hrs = 1
prioritize_jobs = ["gpus", "memory"]
{cluster}

[Mode]
debug = True

[StartdChecks]
enable_startd_checks = False

[SubmitFile]
local_dir = {work}/$SLURM_JOB_ID
{submit}
"""
SLURM = """scheduler = slurm
partition = long
submit_command = sbatch
running_cmd = squeue --noheader --user=pilot --states=RUNNING | wc -l
idle_cmd = squeue --noheader --user=pilot --states=PENDING | wc -l"""
SLURM_SUBMIT = """filename = {work}/submit.slurm
custom_header = #SBATCH --account=abc123
custom_middle = DISABLE_STARTD_CHECKS=1"""
CONDOR = """scheduler = htcondor
submit_command = condor_submit
running_cmd = condor_q -constraint 'JobStatus == 2' -af ClusterId | wc -l
idle_cmd = condor_q -constraint 'JobStatus == 1' -af ClusterId | wc -l"""
CONDOR_SUBMIT = """filename = {work}/submit.condor
env_wrapper_name = {work}/env_wrapper.sh
executable = ./glidein_start.sh
log = {work}/log"""


class Client:
    """A client of pyglidein at the login node of a site, in the home of the user `pilot` there."""

    def __init__(self, site: Site, pool: Pool, work: Path) -> None:
        self.site, self.work = site, work
        condor = isinstance(site, CondorSite)
        self.told = (CONDOR, CONDOR_SUBMIT) if condor else (SLURM, SLURM_SUBMIT)
        tree = pool.host_tree()
        shown = f"RELEASE_DIR = {tree}\ninclude : {tree}/etc/condor_config.tree"
        installed, sbin = (INSTALLED, "/usr/sbin") if condor else (shown, f"{tree}/sbin")
        network = (pool.folder / "client/network").read_text()
        self._pack(installed + JOINS.format(network=network), sbin, pool.token(IDENTITY, RIGHTS))
        for name in SCRIPTS:
            shutil.copy2(package() / name, work / name)
            (work / name).chmod(0o755)
        (work / SHIPPER).write_text("#!/bin/sh\n")
        (work / "out").mkdir()  # Of each glidein: the client itself runs as somebody else here.
        for path in (work, *work.iterdir()):
            os.chown(path, USERS["pilot"], USERS["pilot"])

    def _pack(self, config: str, sbin: str, token: str) -> None:
        files = {
            "glidein_condor_config": (config, 0o644),
            "glideinExec/sbin/condor_master": (MASTER.format(sbin=sbin), 0o755),
            "GLIDEIN_PARROT/run_parrot": (PARROT, 0o755),
            "user_job_wrapper.sh": (WRAPPER, 0o755),
            "tokens.d/pool": (f"{token}\n", 0o600),
        }
        with tarfile.open(self.work / "glidein.tar.gz", "w:gz") as archive:
            for name, (text, mode) in files.items():
                entry = tarfile.TarInfo(name)
                entry.size, entry.mode = len(text.encode()), mode
                archive.addfile(entry, io.BytesIO(text.encode()))

    @property
    def commands(self) -> Path:
        """The tools of the batch system, as its user has them."""
        if not isinstance(self.site, CondorSite):
            return self.site.commands("pilot")
        folder = self.work / "commands"
        folder.mkdir(exist_ok=True)
        told = {"PATH": TOOL_PATH, "CONDOR_CONFIG": self.site.pool.folder / "condor_config"}
        environ = " ".join(f"{name}={value}" for name, value in told.items())
        for tool in CONDOR_TOOLS:
            words = shlex.join(self.site.pool.beside(tool, user="pilot"))
            (folder / tool).write_text(f'#!/bin/sh\nexport {environ}\nexec {words} "$@"\n')
            (folder / tool).chmod(0o755)
        return folder

    def config(self, address: str) -> str:
        cluster, submit = self.told
        return CONFIG.format(
            address=address, work=self.work, cluster=cluster, submit=submit.format(work=self.work)
        )

    def submitted(self) -> list[str]:
        """What was ever submitted for the user of this client since it is there."""
        if isinstance(self.site, CondorSite):
            log = (self.work / "log").read_text()
            return [line for line in log.splitlines() if "Job submitted from host" in line]
        return sorted(path.name for path in self.work.iterdir() if path.name.isdigit())

    def end_glideins(self) -> None:
        """Each takes its slot out of the pool; otherwise they wait for work some more."""
        there = self.site.pool if isinstance(self.site, CondorSite) else self.site
        there.run("pkill", "-TERM", "-u", "pilot", "-f", "condor_master")

    def told_by_glideins(self) -> str:
        """The last words of the newest, and of their HTCondor where it wrote into the home of the user."""
        told = [*(self.work / "out").iterdir(), *self.work.rglob("*Log")]
        newest = sorted(told, key=lambda path: path.stat().st_mtime)[-4:]
        return "\n".join(path.read_text(errors="replace")[-2000:] for path in newest)
