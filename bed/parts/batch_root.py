"""Builds the root file system of the batch systems: pinned packages come in, a folder with `root` (Debian
with Slurm, Grid Engine, sshd and Python) and `database` (Slurm's accounting and its users) goes out.

Every chroot runs in private namespaces, so the machine sees no mount of it. The daemons that make the
database end with the build.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bed import versions
from bed.cache import Say, Steps, built
from bed.machine import Machine
from bed.packages import DOWNLOAD_S_MAX, LOCAL_S_MAX, fetch, install_tool
from bed.parts.condor_root import NOT_KEPT, POLICY, bootstrap, inside
from bed.place import Place
from bed.versions import Pin, compare_files, pins

# Raise it whenever this file builds something else from the same versions.
BUILD_FORMAT = 1
STEPS = 5
SECTION = "batch"
ARCHITECTURE = "x86_64"
# The numbers of HTCondor's root file system, where both have the name: a pilot's files are then its own
# in either. `factor` has a second factor at the login node; the shell of `noisy` speaks before each command.
USERS = {"ann": 20001, "ben": 20002, "pilot": 20010, "factor": 20011, "noisy": 20012}
SECOND_FACTOR = "246810"
ACCOUNT = "abc123"
CLUSTER = "bed"
# Grid Engine knows a machine by the first name of its address.
HOSTS = "127.0.0.1 login localhost node1 node2\n"
DATABASE = "var/lib/bed-database"

# Grid Engine's package makes a cell for the machine's own name, which the root file system does not know.
ANSWERS = "gridengine-common shared/gridengineconfig boolean false\n"
# The package's own wants what a container's kernel refuses, such as numbers for the audit.
PAM = """auth required pam_unix.so
account required pam_unix.so
session required pam_permit.so
"""
# Small files, for each instance has a copy of them.
DATABASE_WORDS = (
    "mariadbd --no-defaults --user=root --skip-networking --socket=/run/mysqld/mysqld.sock"
    " --innodb-log-file-size=8M --innodb-buffer-pool-size=64M --innodb-flush-log-at-trx-commit=0"
    " --innodb-lock-wait-timeout=900 --performance-schema=OFF --datadir="
)
SEED_CONF = f"""ClusterName={CLUSTER}
SlurmctldHost=login(127.0.0.1)
SlurmUser=root
AuthType=auth/munge
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=localhost
NodeName=login
PartitionName=any Nodes=login
"""
SEED_DBD_CONF = """AuthType=auth/munge
DbdHost=localhost
SlurmUser=root
PidFile=/run/slurmdbd.pid
StorageType=accounting_storage/mysql
StorageHost=localhost
StorageUser=root
StorageLoc=slurm_acct_db
"""
# Sixty tries of a quarter of a second for each daemon: five times what they take on two busy cores.
SEED = """
set -e
database=$1 cluster=$2 account=$3
shift 3
until_done() {
    for _ in $(seq 60); do "$@" > /dev/null 2>&1 && return; sleep 0.25; done
    "$@"
}
mkdir -p /run/munge /run/mysqld
chown munge /run/munge
setpriv --reuid=munge --regid=munge --clear-groups munged --force
mariadb-install-db --no-defaults --user=root --skip-test-db --datadir="$database" > /dev/null
WORDS"$database" > /run/mariadbd.log 2>&1 &
server=$!
until_done test -S /run/mysqld/mysqld.sock
slurmdbd -D > /run/slurmdbd.log 2>&1 &
keeper=$!
until_done sacctmgr -n show cluster
sacctmgr -i -Q add cluster "$cluster"
sacctmgr -i -Q add account "$account" cluster="$cluster" description=bed organization=bed
for user in root "$@"; do
    sacctmgr -i -Q add user "$user" account="$account" defaultaccount="$account" cluster="$cluster"
done
kill "$keeper"
wait "$keeper" || true
kill "$server"
wait "$server" || true
""".replace("WORDS", DATABASE_WORDS)


def build_folder(place: Place) -> Path:
    return place.cache / f"batch-{versions.key(versions.section(SECTION), BUILD_FORMAT)}"


def prepare(machine: Machine, place: Place, say: Say) -> None:
    table = versions.section(SECTION)
    built(place.cache, build_folder(place).name, lambda to: build(to, table, machine, say), say)


def obstacles(machine: Machine, place: Place) -> list[str]:
    """Why this machine can host none of the batch systems."""
    reasons = []
    if machine.uid != 0:
        reasons.append("not root, and only root may give it a root file system of its own")
    if machine.architecture != ARCHITECTURE:
        reasons.append(f"the pinned packages are for {ARCHITECTURE}, this is {machine.architecture}")
    missing = sorted({"unshare", "nsenter", "pivot_root", "setpriv"} - machine.tools)
    if missing:
        reasons.append(f"no {', '.join(f'`{tool}`' for tool in missing)} (package util-linux)")
    elif machine.uid == 0 and not machine.namespaces:
        reasons.append("the kernel or a container forbids private mount and PID namespaces")
    return reasons if build_folder(place).is_dir() else [*reasons, *obstacles_to_build(machine)]


def obstacles_to_build(machine: Machine) -> list[str]:
    if machine.system != "debian":
        return [
            f"not Debian but `{machine.system}`, and packages are taken from the machine's own apt sources"
        ]
    if "apt-get" not in machine.tools:
        return ["no `apt-get`, so that neither debootstrap nor packages can be had"]
    if not machine.mirror:
        return [f"no apt source of `{machine.codename}` names a mirror that debootstrap can read"]
    return []


def build(folder: Path, table: Mapping[str, Any], machine: Machine, say: Say) -> None:
    """Everything, into `folder`."""
    steps = Steps(SECTION, say, STEPS)
    pinned = pins(table)
    root, packages = folder / "root", folder / "packages"
    with steps.step(f"packages of {table['suite']}, versions and checksums compared"):
        if "debootstrap" not in machine.tools:
            install_tool("debootstrap")
        fetch(packages, table, machine)
    with steps.step("root file system by debootstrap"):
        bootstrap(root, table, machine)
    with steps.step(f"installing {', '.join(pinned)}"):
        install(root, packages, pinned)
        shutil.rmtree(packages)
    with steps.step("users, and what is not needed taken away"):
        furnish(root)
    with steps.step("accounts and users of Slurm"):
        seed(root)
        (root / DATABASE).rename(folder / "database")


def install(root: Path, packages: Path, pinned: Mapping[str, Pin]) -> None:
    policy = root / "usr/sbin/policy-rc.d"
    policy.write_text(POLICY, encoding="utf-8")
    policy.chmod(0o755)
    (root / "var/cache/answers").write_text(ANSWERS, encoding="utf-8")
    inside(root, "debconf-set-selections", "/var/cache/answers", limit_s=LOCAL_S_MAX).must(
        "Grid Engine's package could not be told to make no cell"
    )
    archives = root / "var/cache/apt/archives"
    for deb in packages.glob("*.deb"):
        shutil.copy(deb, archives)
    words = ["apt-get", "-q", "install", "-y", "--no-install-recommends", "-o", "Acquire::Retries=3"]
    asked = [f"{name}={pin.version}" for name, pin in pinned.items()]
    done = inside(root, *words, *asked, limit_s=DOWNLOAD_S_MAX)
    done.must("the batch systems could not be installed")
    # Apt takes the copied files where they are the archive's own; these are the ones that were installed.
    compare_files(pinned, archives)


def furnish(root: Path) -> None:
    for name, uid in USERS.items():
        words = ["useradd", "--no-create-home", "--uid", str(uid), "--user-group", "--shell", "/bin/bash"]
        inside(root, *words, name, limit_s=LOCAL_S_MAX).must(f"the user `{name}` could not be made")
    told = root / "var/cache/answers"
    told.write_text(f"factor:{SECOND_FACTOR}\n", encoding="utf-8")
    words = ["sh", "-c", "chpasswd < /var/cache/answers"]
    inside(root, *words, limit_s=LOCAL_S_MAX).must("the second factor could not be set")
    told.unlink()
    for name in NOT_KEPT:
        shutil.rmtree(root / name, ignore_errors=True)
        (root / name).mkdir(parents=True)
    # The machine's own names would make the sites behave differently from machine to machine.
    (root / "etc/hosts").write_text(HOSTS, encoding="utf-8")
    (root / "etc/resolv.conf").write_text("", encoding="utf-8")
    (root / "etc/pam.d/sshd").write_text(PAM, encoding="utf-8")
    (root / "root").chmod(0o711)  # The cache of the bed may be below, and pilots run programs of it.
    (root / "etc/slurm").mkdir(exist_ok=True)


def seed(root: Path) -> None:
    """Makes the database once: it takes longer than all the rest of a start."""
    for name, text, mode in (("slurm.conf", SEED_CONF, 0o644), ("slurmdbd.conf", SEED_DBD_CONF, 0o600)):
        path = root / "etc/slurm" / name
        path.write_text(text, encoding="utf-8")
        path.chmod(mode)
    words = ["sh", "-c", SEED, "bed", f"/{DATABASE}", CLUSTER, ACCOUNT, *USERS]
    done = inside(root, *words, limit_s=LOCAL_S_MAX)
    if done.code != 0:
        for log in sorted((root / "run").glob("*.log")):
            done = type(done)(
                done.words, done.code, done.out, f"{done.err}\n{log.read_text(errors='replace')}"
            )
    done.must("the accounts of Slurm could not be made")
    for name in ("slurm.conf", "slurmdbd.conf"):
        (root / "etc/slurm" / name).unlink()
    shutil.rmtree(root / "run")
    (root / "run").mkdir()
