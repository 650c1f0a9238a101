"""The bed with real servers: up, down, status, leaks; a pool that runs jobs, and a pool that is hurt."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from bed.parts import postgres
from bed.parts.condor import Pool
from bed.parts.condor_root import USERS
from bed.trouble import Trouble
from bed.versions import sha256_of
from tests.bed_pool import condor_pool, needs, place, pool

from bed import leaks

pytestmark = pytest.mark.real

ROOT = Path(__file__).parent.parent.parent
CTL_S_MAX = 120
JOB_S_MAX = 120
END_S_MAX = 30
POLL_S = 0.25
# What HTCondor's master would raise on the machine if it could.
KERNEL = ("fs/pipe-user-pages-soft", "net/core/rmem_max", "net/ipv4/ip_local_port_range", "vm/dirty_bytes")


def ctl(*words: str) -> subprocess.CompletedProcess[str]:
    place()
    command = [sys.executable, "bed/ctl", *words]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=CTL_S_MAX, check=False)


def rows() -> list[dict[str, object]]:
    found: list[dict[str, object]] = json.loads(ctl("status", "-o", "json").stdout)["instances"]
    return found


def kernel() -> list[str]:
    return [Path("/proc/sys", name).read_text() for name in KERNEL]


@pytest.fixture
def fresh() -> Iterator[Pool]:
    """A pool of this test's own, which goes with it."""
    with pool("condor@fresh") as found:
        yield found


@pytest.fixture
def shared(request: pytest.FixtureRequest) -> Pool:
    return condor_pool(request.config)


# The command.


def test_condor_goes_up_once_and_down_without_a_trace() -> None:
    pool()
    mounts, kernel_before = Path("/proc/self/mountinfo").read_text(), kernel()
    first = ctl("up", "condor")
    try:
        assert first.returncode == 0, first.stderr
        [row] = [row for row in rows() if row["name"] == "condor"]
        assert (row["state"], row["address"]) == ("up", f"127.0.0.1:{row['port']}")
        assert f"listens on {row['address']}; logs in {row['logs']}" in first.stdout
        assert (Path(str(row["logs"])) / "SchedLog").is_file()
        second = ctl("up", "condor")
        assert "was up already" in second.stdout
        assert [one["pid"] for one in rows() if one["name"] == "condor"] == [row["pid"]]
        told = ctl("leaks")
        assert told.returncode == 1
        assert f"process {row['pid']}: " in told.stdout
        assert f"run folder: {place().run}/condor\n" in told.stdout
        assert "mount" not in {line.split(":")[0] for line in told.stdout.splitlines()}
        assert Path("/proc/self/mountinfo").read_text() == mounts
        assert kernel() == kernel_before
    finally:
        down = ctl("down", "condor")
    assert (down.returncode, down.stderr) == (0, "")
    assert ctl("down", "condor").stdout == "condor: was not up\n"
    assert not (place().run / "condor").exists()
    assert [row for row in rows() if row["name"] == "condor"] == []


def test_postgres_goes_up_once_and_down_without_a_trace() -> None:
    needs(postgres.Postgres())
    try:
        assert "up in" in ctl("up", "postgres").stdout
        assert "was up already" in ctl("up", "postgres").stdout
        server = postgres.Server(place=place())
        with psycopg.connect(server.url("postgres")) as connection:
            assert connection.execute("SELECT 1").fetchall() == [(1,)]
    finally:
        assert ctl("down", "postgres").returncode == 0
    assert ctl("down", "postgres").stdout == "postgres: was not up\n"


def test_a_stranger_in_the_folder_is_told_and_not_ended() -> None:
    pool()
    assert ctl("up", "condor").returncode == 0
    stranger = subprocess.Popen(["sleep", str(CTL_S_MAX)], cwd=place().run / "condor")
    try:
        down = ctl("down", "condor")
        assert down.returncode == 1
        assert "is down, but something still uses it" in down.stderr
        assert f"process {stranger.pid}: sleep" in down.stderr
        assert stranger.poll() is None
        assert not (place().run / "condor").exists()
    finally:
        stranger.kill()
        stranger.wait()
        ctl("down", "condor")


def test_a_port_that_is_taken_is_refused_and_leaves_nothing(shared: Pool, fresh: Pool) -> None:
    with pytest.raises(Trouble, match="none is free"):
        fresh.up(port=shared.state.port, tied=True)
    assert not fresh.folder.exists()


def test_a_pool_that_does_not_start_shows_its_logs_and_leaves_nothing(fresh: Pool) -> None:
    with pytest.raises(Trouble) as raised:
        fresh.up(extra_config="use ROLE : nothing", tied=True)
    assert "its first program has ended" in str(raised.value)
    assert "nothing" in str(raised.value).partition("--- end of output")[2]
    assert not fresh.folder.exists()


# The part `tied`: a test run that is killed leaves a folder, and no process.

OWNER = """
import os, signal, sys
from bed.parts.condor import Pool
print(Pool(sys.argv[1]).up(tied=True).pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_tied_pool_ends_with_its_owner_and_can_be_started_over_the_remains(fresh: Pool) -> None:
    words = [sys.executable, "-c", OWNER, fresh.instance.name]
    owner = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=CTL_S_MAX, check=False)
    assert owner.returncode == -signal.SIGKILL, owner.stderr
    until = time.monotonic() + END_S_MAX
    while leaks.marked(fresh.folder):
        assert time.monotonic() < until, "the pool outlived its owner"
        time.sleep(POLL_S)
    assert [row["state"] for row in rows() if row["name"] == fresh.instance.name] == ["dead"]
    assert str(fresh.up(tied=True).pid) != owner.stdout.strip()


# Inside.


def test_nobody_inside_changes_the_root_file_system_or_the_kernel(shared: Pool) -> None:
    assert "Read-only file system" in shared.run("touch", "/etc/new").err
    # The same value again, so that nothing would happen if it went through.
    again = 'cat "$0" | tee "$0"'
    for name in KERNEL:
        assert "Read-only file system" in shared.run("sh", "-c", again, f"/proc/sys/{name}").err


def test_nothing_of_the_machine_is_below_the_root_inside(shared: Pool) -> None:
    points = [line.split()[4] for line in shared.run("cat", "/proc/self/mountinfo").out.splitlines()]
    assert points.count("/") == 1
    assert points[0] == "/"


def test_ordinary_users_inside_start_containers_where_there_is_apptainer(shared: Pool) -> None:
    image = "/usr/libexec/condor/singularity_test_sandbox"
    done = shared.run("sh", "-c", f"apptainer exec --containall {image} /exit_37", user="ann")
    assert (done.code == 127) == bool(shared.without_containers), done.err
    assert done.code in (37, 127), done.err


def test_two_pools_beside_each_other_know_only_themselves(shared: Pool, fresh: Pool) -> None:
    fresh.up(tied=True)
    assert fresh.address != shared.address
    for one in (shared, fresh):
        assert one.run("condor_status", "-schedd", "-af", "Name").out.split() == [one.schedd_name]


def test_a_schedd_joins_the_collector_of_another_pool(fresh: Pool) -> None:
    fresh.up(tied=True)
    with pool("condor@joined") as joined:
        joined.up(daemons=("schedd",), collector=fresh, tied=True)
        names = fresh.run("condor_status", "-schedd", "-af", "Name").out.split()
        assert sorted(names) == sorted([fresh.schedd_name, joined.schedd_name])
        assert joined.processes("collector") == []
        asked = fresh.run("condor_q", "-name", joined.schedd_name, "-totals", user="ann")
        assert asked.code == 0, asked.err


def test_lines_of_a_test_are_read_by_reconfig(shared: Pool) -> None:
    mine = shared.folder / "conf.d/95-mine.config"
    mine.write_text("MY_OWN_WORD = heard\n")
    try:
        shared.reconfig()
        until = time.monotonic() + END_S_MAX
        while shared.run("condor_config_val", "-schedd", "MY_OWN_WORD").out != "heard\n":
            assert time.monotonic() < until, "the schedd did not read the new line"
            time.sleep(POLL_S)
    finally:
        mine.unlink()


def test_a_program_inside_that_does_not_end_is_killed(shared: Pool) -> None:
    with pytest.raises(Trouble, match=r"did not end in 0\.5 s and was killed"):
        shared.run("sleep", "1234", user="ann", timeout_s=0.5)
    until = time.monotonic() + END_S_MAX
    while any(one.what == "sleep 1234" for one in leaks.naming(str(shared.folder))):
        assert time.monotonic() < until
        time.sleep(POLL_S)


# The tarball.


def test_the_tarball_runs_wherever_it_is_unpacked_and_under_any_name(shared: Pool, tmp_path: Path) -> None:
    assert sha256_of(shared.tarball) == shared.tarball_sha256
    anywhere = tmp_path / "a folder"
    with tarfile.open(shared.tarball) as archive:
        archive.extractall(anywhere, filter="data")
    tree = anywhere / "condor"
    (tmp_path / "link").symlink_to(tree / "bin/condor_version")
    assert not (tree / "libexec/linux_kernel_tuning").exists()
    for program in (tree / "bin/condor_version", tmp_path / "link"):
        done = subprocess.run([program], capture_output=True, text=True, timeout=CTL_S_MAX, check=False)
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.startswith("$CondorVersion: 23.9.6 ")
    # One program under several names: it must hear under which one it was called.
    words, environ = [tree / "bin/condor_hold"], shared.host_environment()
    held = subprocess.run(words, env=environ, capture_output=True, text=True, timeout=CTL_S_MAX, check=False)
    assert "condor_hold" in held.stderr


# Jobs.


class Pilot:
    """A master and a startd of this machine, from the tree of the tarball, as a user without a name here."""

    def __init__(self, owner: Pool, identity: str) -> None:
        self.folder = owner.home("pilot") / identity.partition("@")[0].replace("/", "-")
        names = ("log", "spool", "execute", "lock", "tokens.d")
        for folder in (self.folder, *(self.folder / name for name in names)):
            folder.mkdir()
        token = self.folder / "tokens.d/pool"
        token.write_text(owner.token(identity, ["ADVERTISE_STARTD", "ADVERTISE_MASTER"], 3600))
        token.chmod(0o600)
        (self.folder / "condor_config").write_text(self.config(owner))
        for path in (self.folder, *self.folder.rglob("*")):
            os.chown(path, USERS["pilot"], USERS["pilot"])
        environ = {**owner.host_environment(), "CONDOR_CONFIG": f"{self.folder}/condor_config"}
        words = [*becoming("pilot"), "condor_master", "-f"]
        self.master = subprocess.Popen(words, env=environ, cwd=self.folder, start_new_session=True)

    def config(self, owner: Pool) -> str:
        mine = {name.upper(): f"{self.folder}/{name}" for name in ("log", "spool", "execute", "lock")}
        settings = {
            **mine,
            "LOCAL_DIR": self.folder,
            "RUN": self.folder,
            "DAEMON_SOCKET_DIR": self.folder / "lock",
            "SEC_TOKEN_DIRECTORY": self.folder / "tokens.d",
            "SEC_CLIENT_AUTHENTICATION_METHODS": "IDTOKENS",
            "DAEMON_LIST": "MASTER, STARTD",
            "MASTER_NAME": self.folder.name,
            "STARTD_NAME": self.folder.name,
            "CCB_ADDRESS": "$(COLLECTOR_HOST)",
            "SHARED_PORT_PORT": 0,
            "USE_PROCD": False,
            "DISCARD_SESSION_KEYRING_ON_STARTUP": False,
            "NUM_CPUS": 2,
            "MEMORY": 512,
            "START": True,
            "UPDATE_INTERVAL": 5,
        }
        lines = [f"include : {owner.folder}/client/condor_config", "use FEATURE : PartitionableSlot"]
        return "\n".join([*lines, *(f"{name} = {value}" for name, value in settings.items())]) + "\n"

    def __enter__(self) -> Pilot:
        return self

    def __exit__(self, *_: object) -> None:
        self.master.send_signal(signal.SIGQUIT)
        try:
            self.master.wait(END_S_MAX)
        finally:
            self.master.kill()

    def log(self, name: str) -> str:
        path = self.folder / "log" / name
        return path.read_text(errors="replace") if path.exists() else ""


def becoming(user: str) -> list[str]:
    return ["setpriv", f"--reuid={USERS[user]}", f"--regid={USERS[user]}", "--clear-groups", "--"]


JOB = """executable = /bin/sh
arguments = "-c 'id -u; . /etc/os-release; echo $VERSION_CODENAME; echo $LD_LIBRARY_PATH'"
transfer_executable = false
should_transfer_files = yes
output = {name}.out
error = {name}.err
log = {name}.log
request_cpus = 1
request_memory = 64
queue
"""


def test_a_job_of_an_ordinary_user_runs_on_a_startd_that_joined_with_a_token(shared: Pool) -> None:
    home = shared.home("ann")
    for name in ("inside", "machine"):
        (home / f"{name}.sub").write_text(JOB.format(name=name))
    environ = {**shared.host_environment(), "HOME": str(home)}

    def tool(*words: str) -> str:
        command = [*becoming("ann"), *words]
        done = subprocess.run(
            command, cwd=home, env=environ, capture_output=True, text=True, timeout=CTL_S_MAX, check=False
        )
        assert done.returncode == 0, (words, done.stdout, done.stderr)
        return done.stdout

    # A pool keeps the slots of those that were killed before for a while.
    before = set(tool("condor_status", "-af", "AuthenticatedIdentity").split())
    with Pilot(shared, "glidepath/gp-1@bed.example") as pilot:
        assert shared.run("condor_submit", "inside.sub", user="ann").code == 0
        tool("condor_submit", "machine.sub")
        assert set(tool("condor_q", "-af", "Owner", "User").split()) == {"ann", "ann@bed.example"}
        until = time.monotonic() + JOB_S_MAX
        while tool("condor_q", "-af", "JobStatus").strip():
            assert time.monotonic() < until, pilot.log("StartLog")[-2000:]
            time.sleep(POLL_S)
        slots = tool("condor_status", "-af", "AuthenticatedIdentity").split()
        assert set(slots) - before == {"glidepath/gp-1@bed.example"}
    codename = next(
        line.partition("=")[2]
        for line in Path("/etc/os-release").read_text().splitlines()
        if line.startswith("VERSION_CODENAME=")
    )
    for name in ("inside", "machine"):
        assert (home / f"{name}.err").read_text() == ""
        assert (home / f"{name}.out").read_text().splitlines() == [str(USERS["pilot"]), codename, ""]


def test_a_token_of_another_identity_brings_no_slots(shared: Pool) -> None:
    with Pilot(shared, "mallory@bed.example") as pilot:
        until = time.monotonic() + JOB_S_MAX
        while not refused("mallory@bed.example", shared.folder / "log/CollectorLog"):
            assert time.monotonic() < until, pilot.log("StartLog")[-2000:]
            time.sleep(POLL_S)
        names = shared.run("condor_status", "-af", "Name").out
    assert "mallory" not in names


def refused(identity: str, log: Path) -> bool:
    lines = log.read_text(errors="replace").splitlines()
    return any("DENIED" in line and identity in line for line in lines)


# Hurt.


@pytest.mark.parametrize("daemon", ["collector", "negotiator", "schedd"])
def test_a_killed_daemon_stays_dead_until_it_is_restarted(fresh: Pool, daemon: str) -> None:
    fresh.up(tied=True)
    before = fresh.processes(daemon)
    fresh.kill(daemon)
    assert fresh.processes(daemon) == []
    # The master itself would start it again, but not before any test has ended.
    until = time.monotonic() + END_S_MAX
    while (
        f"restarting /usr/sbin/condor_{daemon} in 3600 s" not in (fresh.folder / "log/MasterLog").read_text()
    ):
        assert time.monotonic() < until, "the master does not say when it would start it again"
        time.sleep(POLL_S)
    with pytest.raises(Trouble, match=f"has no {daemon} that runs"):
        fresh.pause(daemon)
    fresh.restart(daemon)
    assert set(fresh.processes(daemon)).isdisjoint(before)
    assert fresh.run("condor_q", "-totals", user="ann").code == 0


def test_a_paused_schedd_accepts_and_answers_only_when_it_goes_on(fresh: Pool) -> None:
    fresh.up(tied=True)
    fresh.pause("schedd")
    with pytest.raises(Trouble, match="did not end"):
        fresh.run("condor_q", "-totals", user="ann", timeout_s=2)
    fresh.resume("schedd")
    assert fresh.run("condor_q", "-totals", user="ann").code == 0
    fresh.pause("schedd")  # A stopped daemon must not stop the pool from going down.
    fresh.down()
    with pytest.raises(Trouble, match="is not up"):
        _ = fresh.address
