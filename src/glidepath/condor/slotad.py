"""How HTCondor will see a pilot's slot: an offer's size, traits and terms come in, ClassAd text goes out.

The one table of what our pilots advertise and by which terms they admit jobs. A pilot writes the same into
its own configuration; a test compares the two, because a pilot that is started for a job it then refuses
is worse than none. Pure text: nothing here parses or evaluates.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from glidepath.core.quantity import Resources, Traits
from glidepath.terms import NO_TERMS, OfferTerms

ROUTE_DEFAULT = "RequestK8SNamespace"
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
KIB_PER_MIB = 1024

# What every slot of ours has, whatever its site. Jobs get terms on these from `condor_submit` unasked, so one
# that is missing here would make most jobs fit nowhere.
COMMON: Mapping[str, str] = {
    "MyType": '"Machine"',
    "OpSys": '"LINUX"',
    "OpSysLegacy": '"LINUX"',
    "HasFileTransfer": "true",
    "HasTransferInputRemaps": "true",
    "HasReconnect": "true",
    "HasJobDeferral": "true",
    "HasPerFileEncryption": "true",
    "HasSelfCheckpointTransfers": "true",
    "HasEncryptExecuteDirectory": "false",
    "HasVM": "false",
    # What HTCondor's own transfer plug-ins speak; a site with more says so in its offer's attributes.
    "HasFileTransferPluginMethods": '"data,dav,davs,ftp,http,https"',
    "IS_GLIDEIN": "true",
    "PartitionableSlot": "true",
    "SlotType": '"Partitionable"',
    "SlotTypeID": "1",
    "State": '"Unclaimed"',
    "Activity": '"Idle"',
    "LoadAvg": "0.0",
    "KeyboardIdle": "86400",
    # The oldest that a pilot may be; jobs compare with it, never the other way round.
    "CondorVersion": '"$CondorVersion: 23.0.0 2023-09-29 $"',
}
# An offer that names no architecture is of the common one.
ARCH_DEFAULT = "x86_64"
ARCHITECTURES: Mapping[str, str] = {
    "x86_64": "X86_64",
    "amd64": "X86_64",
    "arm64": "aarch64",
    "aarch64": "aarch64",
    "ppc64le": "ppc64le",
}
_SYSTEM = re.compile(r"([A-Za-z_]+?)([0-9]{1,4})?")


def quoted(text: str) -> str:
    """A ClassAd string that reads back as exactly this text."""
    shown = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "\\r")
    return f'"{shown}"'


def trait_attributes(traits: Traits) -> dict[str, str]:
    """The traits that HTCondor knows under names of its own."""
    named = dict(traits)
    arch = named.get("arch", ARCH_DEFAULT)
    found = {"Arch": quoted(ARCHITECTURES.get(arch.lower(), arch))}
    if "os" in named:
        found |= _system(named["os"])
    if "gpu_type" in named:
        found["GPUs_DeviceName"] = quoted(named["gpu_type"])
    return found


def _system(name: str) -> dict[str, str]:
    """`Rocky9` in all the forms in which jobs ask for it."""
    found = {"OpSysAndVer": quoted(name)}
    parts = _SYSTEM.fullmatch(name)
    if parts:
        found |= {"OpSysName": quoted(parts[1]), "OpSysShortName": quoted(parts[1])}
        if parts[2]:
            found |= {"OpSysMajorVer": parts[2], "OpSysVer": str(int(parts[2]) * 100)}
    return found


def amount_attributes(size: Resources) -> dict[str, str]:
    """The size of one partitionable slot that nothing has been taken from."""
    cpus = size.cpu_milli // 1000
    disk_kib = size.disk_mib * KIB_PER_MIB
    amounts = {"Cpus": cpus, "Memory": size.memory_mib, "Disk": disk_kib, "GPUs": size.gpus}
    return {
        **{name: str(amount) for name, amount in amounts.items()},
        **{f"TotalSlot{name}": str(amount) for name, amount in amounts.items()},
        **{f"Total{name}": str(amount) for name, amount in amounts.items()},
        **{f"Detected{name}": str(amounts[name]) for name in ("Cpus", "Memory")},
    }


def gpu_attributes(size: Resources, known: Mapping[str, str]) -> dict[str, str]:
    """Each GPU as a nested ad, which is where `require_gpus` of a job looks."""
    if not size.gpus:
        return {}
    properties = {
        name.removeprefix("GPUs_"): text for name, text in known.items() if name.startswith("GPUs_") and text
    }
    found = {}
    for number in range(size.gpus):
        inside = {"Id": quoted(f"GPU-{number}"), **properties}
        found[f"GPUs_GPU_{number}"] = f"[ {'; '.join(f'{key} = {text}' for key, text in inside.items())} ]"
    found["AvailableGPUs"] = "{ " + ", ".join(found) + " }"
    found["AssignedGPUs"] = quoted(",".join(f"GPU-{number}" for number in range(size.gpus)))
    return found


def start_terms(terms: OfferTerms, *, route: str = ROUTE_DEFAULT) -> tuple[str, ...]:
    """What must hold before a pilot of this offer takes a job; all of them. None means every job."""
    found = []
    if terms.community:
        # `=?=` compares letters as they are: by `==`, another community's name in capitals would be ours.
        found.append(f"TARGET.{route} =?= {quoted(terms.community)}")
    for attribute, admitted, refused in (
        ("Owner", terms.owners, terms.owners_refused),
        ("AcctGroup", terms.groups, terms.groups_refused),
    ):
        if admitted:
            found.append(_one_of(attribute, admitted))
        if refused:
            found.append(f"!({_one_of(attribute, refused)})")
    return (*found, *terms.admitting)


def _one_of(attribute: str, patterns: Iterable[str]) -> str:
    """Compared with `=?=` throughout: a job without the attribute must give false, never undefined."""
    tests = []
    for pattern in patterns:
        if "*" in pattern:
            tests.append(f"(regexp({quoted(expression(pattern))}, TARGET.{attribute}) =?= true)")
        else:
            tests.append(f"(TARGET.{attribute} =?= {quoted(pattern)})")
    return " || ".join(tests)


def expression(pattern: str) -> str:
    """The regular expression of a pattern in which `*` stands for any letters, from end to end."""
    # `$` would also be content with a line break at the end, so the very end is asked for.
    return "^" + ".*".join(re.escape(part) for part in pattern.split("*")) + r"\z"


def start_text(terms: OfferTerms, *, route: str = ROUTE_DEFAULT) -> str:
    return " && ".join(f"({term})" for term in start_terms(terms, route=route)) or "true"


def slot_attributes(
    size: Resources, traits: Traits = (), terms: OfferTerms = NO_TERMS, *, route: str = ROUTE_DEFAULT
) -> dict[str, str]:
    """Every attribute of the slot as ClassAd text. What the offer says itself comes last and wins."""
    found = {**COMMON, **amount_attributes(size), **trait_attributes(traits)}
    if terms.community and route.startswith("Request") and route != "Request":
        # `condor_submit` takes such an attribute for a resource, and asks for what stands behind "Request".
        found[route.removeprefix("Request")] = quoted(terms.community)
    found |= {name: text for name, text in terms.attributes if NAME.fullmatch(name)}
    found |= gpu_attributes(size, found)
    found["START"] = start_text(terms, route=route)
    # As the startd writes it for a partitionable slot; the request is what the job's expressions amount to.
    found["WithinResourceLimits"] = (
        "MY.Cpus >= TARGET.RequestCpus && MY.Memory >= TARGET.RequestMemory && "
        "MY.Disk >= TARGET.RequestDisk && (TARGET.RequestGPUs ?: 0) <= MY.GPUs"
    )
    found["Requirements"] = "START && WithinResourceLimits"
    return found


def ad_text(attributes: Mapping[str, str]) -> str:
    return "[ " + "; ".join(f"{name} = {text}" for name, text in attributes.items()) + " ]"
