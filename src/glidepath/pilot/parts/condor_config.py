"""The pilot's own HTCondor configuration: checked values come in, text goes out, nothing is read.

One partitionable slot, identity tokens only, no inbound port. What an offer adds stands before the terms of
admission and the security settings, so that it can add to them but not take away from them.
"""

import re
from typing import Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from glidepath.pilot.parts.terms import Settings, Terms, old_syntax, plain, quoted

Attributes = Dict[str, str]

# After a restart of the collector, it knows its pilots again within this.
UPDATE_S = 60
UPDATES_MISSED_MAX = 5
# The startd takes what the pilot found this often; a probe without an answer for long is a bad answer.
PROBE_S = 15
PROBE_AGE_S_MAX = 600
IDLE_SLACK_S = 120
VACATE_S = 10  # What a job is left after it was told to stop.
HISTORY_BYTES_MAX = 20000000
ADDRESS = re.compile(r"(?:[0-9.]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]+)?(?:\?.*)?")
# Names that an offer's attributes must not have: in the configuration they would be switches of HTCondor.
SWITCHES = re.compile(
    r"(?:SEC|ALLOW|DENY|STARTD|MASTER|STARTER|COLLECTOR|CONDOR|SLOT[0-9_]*|NUM|USE|LOCAL|TOOL|AUTH|SSL|CCB|CRED)_.*"
    r"|LOG|SPOOL|EXECUTE|LOCK|RUN|BIN|SBIN|LIB|LIBEXEC|ETC|START|RANK|REQUIREMENTS|PREEMPT|SUSPEND|CONTINUE|KILL"
    r"|MEMORY|DISK|DAEMON_LIST|COLLECTOR|STARTD|MASTER|STARTER|RELEASE_DIR|TRUST_DOMAIN|UID_DOMAIN"
    r"|GLIDEPATH.*|MYTYPE|NAME|MACHINE|STATE|ACTIVITY",
    re.IGNORECASE,
)
ARCHITECTURES = {
    "x86_64": "X86_64",
    "amd64": "X86_64",
    "arm64": "aarch64",
    "aarch64": "aarch64",
    "ppc64le": "ppc64le",
}
# What a Kubernetes site tells in the environment, and the attribute under which the PRP world looks for it.
KUBERNETES = (
    ("K8S_PROVISIONER_TYPE", "K8SProvisionerType"),
    ("K8S_PROVISIONER_NAME", "K8SProvisionerName"),
    ("K8S_NAMESPACE", "K8SNamespace"),
    ("K8S_DOMAIN", "K8SDomain"),
    ("K8S_POD_NAME", "K8SPodName"),
    ("PHYSICAL_HOSTNAME", "K8SPhysicalHostName"),
)


class Tree(NamedTuple):
    """Where HTCondor's programs are."""

    root: str
    bin: str
    sbin: str
    libexec: str
    lib: str


class Values(NamedTuple):
    """Everything that the configuration depends on."""

    name: str
    local: str  # the folder of this pilot's HTCondor
    execute: str
    tree: Tree
    cpus: int
    memory_mib: int
    disk_mib: int
    gpus: int
    gpus_numbered: bool
    stop_at: int  # wall time at which it takes no more jobs
    idle_s: int
    settings: Settings
    version: str
    home: str  # marks the processes of our jobs, so that they can be found after a crash
    condor_ids: str = ""  # as root: the user that HTCondor is where it need not be root
    environ: Mapping[str, str] = {}
    containers: str = ""  # the program that starts them, where there is one
    procd: bool = True  # whether there is HTCondor's program that knows which processes are a job's


def one_of(attribute: str, patterns: Sequence[str]) -> str:
    """Compared with `=?=` throughout: a job without the attribute must give false, never undefined."""
    tests = []
    for pattern in patterns:
        if "*" in pattern:
            whole = "^" + ".*".join(re.escape(part) for part in pattern.split("*")) + r"\z"
            tests.append("(regexp(%s, TARGET.%s) =?= true)" % (quoted(whole), attribute))
        else:
            tests.append("(TARGET.%s =?= %s)" % (attribute, quoted(pattern)))
    return " || ".join(tests)


def start_terms(terms: Terms, route: str) -> List[str]:
    """Whom the offer admits. The same table as that of the door, which asks for pilots by it."""
    found = []
    if terms.community:
        found.append("TARGET.%s =?= %s" % (route, quoted(terms.community)))
    for attribute, admitted, refused in (
        ("Owner", terms.owners, terms.owners_refused),
        ("AcctGroup", terms.groups, terms.groups_refused),
    ):
        if admitted:
            found.append(one_of(attribute, admitted))
        if refused:
            found.append("!(%s)" % one_of(attribute, refused))
    return found + list(terms.start)


def life_terms(run_time: Sequence[Tuple[str, int]]) -> List[str]:
    """A job that says how long it runs must end before we stop; one that says nothing is taken until then.

    Where it says so in several attributes the shortest counts: that is when it ends.
    """
    found = ["GlidepathDraining =!= true", "GlidepathHealthy =?= true", "time() < GlidepathStopTime"]
    found.append("time() - GlidepathProbedAt < %d" % PROBE_AGE_S_MAX)
    # Only its pool knows when it heard of us last: a pilot that was killed is given no more jobs.
    found.append("MY.LastHeardFrom =?= undefined || time() - MY.LastHeardFrom <= $(GLIDEPATH_SILENT_S)")
    fits, silent = [], []
    for attribute, unit_s in run_time:
        stated = "TARGET.%s" % attribute if unit_s == 1 else "TARGET.%s * %d" % (attribute, unit_s)
        fits.append("((time() + %s <= GlidepathStopTime) =?= true)" % stated)
        silent.append("TARGET.%s =?= undefined" % attribute)
    if fits:
        found.append(" || ".join([*fits, "(%s)" % " && ".join(silent)]))
    return found


def trait_mistake(traits: Sequence[Tuple[str, str]], arch: str, system: str) -> str:
    """Why this machine is not what the offer promises; empty when it is. Jobs would start here and fail."""
    named = dict(traits)
    wanted = named.get("arch", "")
    if wanted and ARCHITECTURES.get(wanted.lower(), wanted).lower() != arch.lower():
        return "the offer promises the architecture %s, this machine is %s" % (ascii(wanted), ascii(arch))
    wanted = named.get("os", "")
    alike = ("", "linux", system.lower(), system.lower().rstrip("0123456789"))
    if wanted.lower() not in alike:
        return "the offer promises the system %s, this machine is %s" % (ascii(wanted), ascii(system))
    return ""


def own_attributes(values: Values) -> Attributes:
    """Who we are and until when, in the words of all the worlds that look for it."""
    told, stop = values.settings, values.stop_at
    resource = values.environ.get("GLIDEIN_ResourceName") or told.offer or told.site
    found = {
        "GlidepathPilot": quoted(values.name),
        "GlidepathIntent": quoted(values.name),
        "GlidepathSite": quoted(told.site),
        "GlidepathOffer": quoted(told.offer),
        "GlidepathPool": quoted(told.pool),
        "GlidepathStopTime": str(stop),
        "GlidepathVersion": quoted(values.version),
        "IS_GLIDEIN": "true",
        "GLIDEIN_Site": quoted(values.environ.get("GLIDEIN_Site") or told.site),
        "GLIDEIN_ResourceName": quoted(resource),
        "GLIDEIN_ToRetire": str(stop),
        "GLIDEIN_ToDie": str(stop + told.grace_s),
        "DaemonStopTime": str(stop + told.grace_s),
        "PYGLIDEIN_TIME_TO_LIVE": "GlidepathStopTime - time()",
    }
    for variable, attribute in KUBERNETES:
        if values.environ.get(variable):
            found[attribute] = quoted(values.environ[variable])
    if told.terms.community and told.route.startswith("Request") and told.route != "Request":
        # `condor_submit` takes a `RequestX` for a resource and has the job ask for a slot with that `X`.
        found[told.route[len("Request") :]] = quoted(told.terms.community)
    for attribute, text in found.items():
        plain(text, "the attribute %s" % attribute)
    return found


def attributes(values: Values) -> Attributes:
    found = {}
    for name, text in values.settings.terms.attributes:
        if SWITCHES.fullmatch(name):
            raise ValueError("the offer's attribute %s has the name of a switch of HTCondor" % name)
        found[name] = text
    found.update(own_attributes(values))
    return found


def config_text(values: Values) -> str:
    """The whole file. What changes while the pilot lives stands in another: `state_text`."""
    parts = [
        ["# The configuration of the pilot %s, written anew at every start." % values.name],
        places(values),
        network(values),
        life(values),
        slot(values),
        probes(values),
        ["", "# What the offer adds."],
        list(values.settings.terms.lines),
        admission(values),
        security(values),
    ]
    return "\n".join(text for part in parts for text in part) + "\n"


def places(values: Values) -> List[str]:
    tree = values.tree
    for path in (values.local, values.execute, values.home, values.containers, *tree):
        plain(path, "a path")
        if re.search(r"[\s\"'#]", path):
            raise ValueError("the path %s has a letter that HTCondor would not take" % ascii(path)[:200])
    return [
        "RELEASE_DIR = %s" % tree.root,
        "BIN = %s" % tree.bin,
        "SBIN = %s" % tree.sbin,
        "LIBEXEC = %s" % tree.libexec,
        "LIB = %s" % tree.lib,
        "LOCAL_DIR = %s" % values.local,
        "LOG = $(LOCAL_DIR)/log",
        "SPOOL = $(LOCAL_DIR)/spool",
        "LOCK = $(LOCAL_DIR)/lock",
        "RUN = $(LOCAL_DIR)/run",
        "EXECUTE = %s" % values.execute,
        "LOCAL_CONFIG_DIR =",
        "LOCAL_CONFIG_FILE = $(LOCAL_DIR)/now.config",
        "MAX_DEFAULT_LOG = 10 Mb",
        "STARTD_HISTORY = $(LOG)/startd_history",
        "MAX_HISTORY_LOG = %d" % HISTORY_BYTES_MAX,
        "MAX_HISTORY_ROTATIONS = 2",
        "STARTER_LIST = STARTER",
        "CONDOR_ADMIN =",
        "PREEN =",
        # Looking for Java would leave files of it in the worker's common folders.
        "JAVA =",
    ]


def network(values: Values) -> List[str]:
    """Everything goes out from here: the pool reaches us through the collector's connection broker."""
    told = values.settings
    by_address = all(ADDRESS.fullmatch(one) for one in told.collectors)
    found = [
        "",
        "COLLECTOR_HOST = %s" % ", ".join(told.collectors),
        "CONDOR_HOST = %s" % told.collectors[0].partition("?")[0],
        "CCB_ADDRESS = $(COLLECTOR_HOST)",
        "USE_SHARED_PORT = False",
        "UPDATE_COLLECTOR_WITH_TCP = True",
        # A domain of its own: no job runs here as its owner, and no common file system is taken for granted.
        "UID_DOMAIN = %s.pilot.invalid" % values.name,
        "FILESYSTEM_DOMAIN = %s.pilot.invalid" % values.name,
        "DEFAULT_DOMAIN_NAME = pilot.invalid",
        "NO_DNS = %s" % by_address,
    ]
    if told.trust_domain:
        found.append("TRUST_DOMAIN = %s" % told.trust_domain)
    return found


def life(values: Values) -> List[str]:
    grace_s = values.settings.grace_s
    return [
        "",
        "DAEMON_LIST = MASTER, STARTD",
        # A user without a name, as in a restricted container, has no default for these.
        "MASTER_NAME = %s" % values.name,
        "STARTD_NAME = %s" % values.name,
        # The pilot itself looks more often; this is for the case that it does not.
        "STARTD_NOCLAIM_SHUTDOWN = %d" % (max(1, values.idle_s) + IDLE_SLACK_S),
        "SHUTDOWN_GRACEFUL_TIMEOUT = %d" % (grace_s + 60),
        "SHUTDOWN_FAST_TIMEOUT = 8",
        "MachineMaxVacateTime = %d" % VACATE_S,
        "UPDATE_INTERVAL = %d" % UPDATE_S,
        "MASTER_UPDATE_INTERVAL = %d" % UPDATE_S,
        # A pilot that is killed cannot say so. Jobs are matched with it for as long as its pool believes in
        # it, which is fifteen minutes where nothing is said.
        "GLIDEPATH_SILENT_S = %d * $(UPDATE_INTERVAL)" % UPDATES_MISSED_MAX,
        "ClassAdLifetime = $INT(GLIDEPATH_SILENT_S)",
        "MASTER_NEW_BINARY_RESTART = NEVER",
        "DISCARD_SESSION_KEYRING_ON_STARTUP = False",
        "WANT_SUSPEND = False",
        "SUSPEND = False",
        "CONTINUE = True",
        "PREEMPT = False",
        "WANT_VACATE = True",
        "KILL = False",
        "RANK = 0",
        "RunBenchmarks = False",
        "BENCHMARKS_JOBLIST =",
    ] + users(values)


def users(values: Values) -> List[str]:
    if not values.condor_ids:
        # A starter that has to find a job's processes by itself can crash over one that is just ending. The
        # pool then takes the job for running until its lease is over, which is forty minutes as a rule.
        return ["USE_PROCD = %s" % values.procd]
    return [
        "CONDOR_IDS = %s" % values.condor_ids,
        "USE_PROCD = True",
        # The worker's kernel is not ours to change.
        "ENABLE_KERNEL_TUNING = False",
        "STARTER_ALLOW_RUNAS_OWNER = False",
    ]


def slot(values: Values) -> List[str]:
    found = [
        "",
        "NUM_CPUS = %d" % values.cpus,
        "MEMORY = %d" % values.memory_mib,
        "DISK = %d" % (values.disk_mib * 1024),
        "RESERVED_MEMORY = 0",
        "RESERVED_DISK = 0",
        "NUM_SLOTS = 1",
        "NUM_SLOTS_TYPE_1 = 1",
        "SLOT_TYPE_1 = 100%",
        "SLOT_TYPE_1_PARTITIONABLE = True",
        # Rounding up would let fewer jobs in than fit, and than pilots were asked for.
        "MODIFY_REQUEST_EXPR_REQUESTCPUS = RequestCpus",
        "MODIFY_REQUEST_EXPR_REQUESTMEMORY = RequestMemory",
        "MODIFY_REQUEST_EXPR_REQUESTDISK = RequestDisk",
        'STARTER_JOB_ENVIRONMENT = "GLIDEPATH_PILOT=%s GLIDEPATH_HOME=%s"' % (values.name, values.home),
    ]
    if values.containers:
        # HTCondor looks for one name in one place; it tests by itself whether this one works.
        found.append("SINGULARITY = %s" % values.containers)
        # A scratch below /tmp could not be mounted in its own place: a container has another /tmp.
        found.append("SINGULARITY_TARGET_DIR = /srv")
    if values.gpus:
        found.append("MACHINE_RESOURCE_INVENTORY_GPUs = $(LOCAL_DIR)/gpus")
    if values.gpus_numbered:
        # Where a name has no pattern, HTCondor hands over the number alone; the first one must have one.
        found.append("ENVIRONMENT_FOR_AssignedGPUs = GPU_DEVICE_ORDINAL=/(CUDA|OCL)// CUDA_VISIBLE_DEVICES")
    return found


def probes(values: Values) -> List[str]:
    return [
        "",
        "STARTD_CRON_JOBLIST = GLIDEPATH",
        "STARTD_CRON_GLIDEPATH_EXECUTABLE = $(LOCAL_DIR)/probe",
        "STARTD_CRON_GLIDEPATH_MODE = Periodic",
        "STARTD_CRON_GLIDEPATH_PERIOD = %ds" % PROBE_S,
        "STARTD_CRON_GLIDEPATH_PREFIX =",
        "STARTD_CRON_GLIDEPATH_KILL = True",
        "STARTD_CRON_GLIDEPATH_RECONFIG_RERUN = True",
        "STARTD_CRON_GLIDEPATH_JOB_LOAD = 0.01",
    ]


def admission(values: Values) -> List[str]:
    told = values.settings
    found = ["", "# What stands below cannot be changed by an offer, only added to."]
    own = attributes(values)
    found += ["%s = %s" % (name, old_syntax(text)) for name, text in own.items()]
    names = ", ".join([*own, "GlidepathDraining"])
    found.append("STARTD_ATTRS = $(STARTD_ATTRS), ClassAdLifetime, %s" % names)
    found.append("MASTER_ATTRS = $(MASTER_ATTRS), %s" % names)
    terms = life_terms(told.run_time) + start_terms(told.terms, told.route)
    found.append("START = ($(START:true)) && %s" % " && ".join("(%s)" % old_syntax(term) for term in terms))
    found.append("IS_OWNER = False")
    return found


def security(values: Values) -> List[str]:
    """The two sides prove who they are by tokens, and by nothing else; all that is said is encrypted."""
    return [
        "",
        "use SECURITY : recommended_v9_0",
        "SEC_DEFAULT_AUTHENTICATION_METHODS = IDTOKENS",
        "SEC_CLIENT_AUTHENTICATION_METHODS = IDTOKENS",
        "SEC_DEFAULT_ENCRYPTION = REQUIRED",
        "SEC_DEFAULT_INTEGRITY = REQUIRED",
        "SEC_TOKEN_DIRECTORY = $(LOCAL_DIR)/tokens.d",
        "SEC_TOKEN_SYSTEM_DIRECTORY = $(LOCAL_DIR)/tokens.d",
        "SEC_PASSWORD_DIRECTORY = $(LOCAL_DIR)/passwords.d",
        "SEC_TOKEN_POOL_SIGNING_KEY_FILE = $(LOCAL_DIR)/passwords.d/POOL",
        # On the machine of its collector a pilot would take it for its own child, and be refused.
        "SEC_USE_FAMILY_SESSION = False",
        "ENABLE_RUNTIME_CONFIG = False",
        "ENABLE_PERSISTENT_CONFIG = False",
    ]


def state_text(*, draining: bool, retirement_s: Optional[int]) -> str:
    """What changes: whether jobs are taken, and how long a running one is left at the end."""
    return "GlidepathDraining = %s\nMAXJOBRETIREMENTTIME = %d\n" % (
        str(draining).lower(),
        retirement_s or 0,
    )
