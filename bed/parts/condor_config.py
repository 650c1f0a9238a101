"""The configuration texts of a pool and of its clients: names, folders and a port come in, text goes out.

They work without any name server: everything is known by address, and the domain is one that nobody has.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

# Reserved for examples by RFC 2606, so that it can belong to nobody.
DOMAIN = "bed.example"
# Who may bring slots: each pilot may have an identity of its own.
PILOTS = f"pilot*@{DOMAIN}, glidepath*@{DOMAIN}"

# A daemon that a test kills stays dead until the test starts it again: the master's own delay is an hour.
RESTART_DELAY_S = 3600

# A master that runs as root would otherwise raise limits of the machine's kernel, for everybody and for good.
QUIET = "ENABLE_KERNEL_TUNING = False"

NETWORK = """
TRUST_DOMAIN = {domain}
UID_DOMAIN = {domain}
FILESYSTEM_DOMAIN = {domain}
DEFAULT_DOMAIN_NAME = {domain}
NO_DNS = True
NETWORK_INTERFACE = {address}
BIND_ALL_INTERFACES = False
ENABLE_IPV6 = False
COLLECTOR_HOST = {collector}
SCHEDD_HOST = {schedd}
use SECURITY : recommended_v9_0
SEC_DEFAULT_AUTHENTICATION_METHODS = FS, IDTOKENS
"""

POOL = """# Written by the bed at the start of this instance. Lines of your own belong into {folder}/conf.d
LOCAL_DIR = {folder}
RELEASE_DIR = /usr
BIN = /usr/bin
SBIN = /usr/sbin
LIB = /usr/lib/condor
LIBEXEC = /usr/libexec/condor
LOG = {folder}/log
SPOOL = {folder}/spool
LOCK = {folder}/lock
RUN = {folder}/run
EXECUTE = {folder}/execute
LOCAL_CONFIG_FILE =
LOCAL_CONFIG_DIR = {folder}/conf.d
DAEMON_SOCKET_DIR = {folder}/s
SEC_PASSWORD_DIRECTORY = {folder}/passwords.d
SEC_TOKEN_SYSTEM_DIRECTORY = {folder}/tokens.d
SEC_TOKEN_POOL_SIGNING_KEY_FILE = {folder}/passwords.d/POOL
CONDOR_ADMIN = nobody@{domain}
MAIL = /bin/true
{network}
SHARED_PORT_PORT = {port}
DAEMON_LIST = {daemons}
MASTER_NAME = {schedd}
SCHEDD_NAME = {schedd}
COLLECTOR_NAME = {label}
ALLOW_ADVERTISE_STARTD = condor@*, condor_pool@*, {pilots}
ALLOW_ADVERTISE_MASTER = condor@*, condor_pool@*, {pilots}
NEGOTIATOR_CYCLE_DELAY = 2
NEGOTIATOR_INTERVAL = 5
SCHEDD_INTERVAL = 5
MASTER_BACKOFF_CONSTANT = {delay_s}
MASTER_BACKOFF_CEILING = {delay_s}
DISCARD_SESSION_KEYRING_ON_STARTUP = False
{quiet}
"""

CLIENT = """# Written by the bed: tools of this machine as clients of the pool.
RELEASE_DIR = {tree}
include : {tree}/etc/condor_config.tree
LOCAL_DIR = {folder}
LOG = {folder}
LOCAL_CONFIG_FILE =
SEC_TOKEN_DIRECTORY = {folder}/tokens.d
{quiet}
{network}
"""


def network(*, address: str, collector: str, schedd: str) -> str:
    return NETWORK.format(domain=DOMAIN, address=address, collector=collector, schedd=schedd).strip()


def pool_text(folder: Path, *, port: int, daemons: Sequence[str], schedd: str, network: str) -> str:
    return POOL.format(
        folder=folder,
        domain=DOMAIN,
        network=network,
        port=port,
        daemons=", ".join(("MASTER", *(name.upper() for name in daemons))),
        schedd=schedd,
        label=folder.name,
        pilots=PILOTS,
        delay_s=RESTART_DELAY_S,
        quiet=QUIET,
    )


def client_text(folder: Path, *, tree: Path, network: str) -> str:
    return CLIENT.format(folder=folder, tree=tree, network=network, quiet=QUIET)
