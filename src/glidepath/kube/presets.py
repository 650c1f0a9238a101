"""What images of pilots expect to be told: one function for each preset, all of the same form.

A specification and the settings of its pod come in; arguments, variables, labels and files go out.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from glidepath.core.provision.pilot import PilotSpec
from glidepath.kube.settings import OURS, TOKEN_FOLDERS, PodSettings

WORK, TOLD = "/work", f"{OURS}/told"
MINUTE_S, HOUR_S, KIB_PER_MIB = 60, 3600, 1024
NODE = "spec.nodeName"
RETIREMENT_H = 1  # of those in which the OSG pilot container takes nothing new; it cannot do with less
# What jobs that ask for less are taken to want: the images then demand this very number, which is no whole
# number of MiB.
PRP_DISK_KIB = 8_000_000
# Where the OSG pilot container, and all that is built on it, reads what else its slots shall say.
OSG_ATTRIBUTES = "/etc/osg/extra-attributes.cfg"
OSG_TOKEN = "flock.opensciencegrid.org"
PRP_TOKEN = "prp-wn.token"


@dataclass(frozen=True, slots=True)
class Told:
    arguments: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)  # what the settings cannot change
    usual: Mapping[str, str] = field(default_factory=dict)  # what they can
    fields: Mapping[str, str] = field(default_factory=dict)  # variables that the cluster fills in
    labels: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)  # for our own pilot, as a file
    attributes: str = ""  # for the slots of other images, as a file at OSG_ATTRIBUTES
    scratch: tuple[tuple[str, str], ...] = (("tmp", "/tmp"),)
    token_file: str = ""  # name under which the image looks for its token; empty: any will do
    lives_s: int = 0  # where an image cannot keep to a shorter lifetime


def glidepath(spec: PilotSpec, settings: PodSettings, namespace: str) -> Told:
    """Our own image. Each argument is one word, so that no value can be taken for an option."""
    names = ("cpus-milli", "memory-mib", "disk-mib", "gpus")
    sizes = zip(names, spec.size.as_tuple(), strict=True)
    join = dict(spec.join)
    arguments = [
        *("--kind=condor", f"--settings={TOLD}/settings.json", f"--drain-file={TOLD}/drain"),
        *(f"--folder={WORK}", "--last-words=/dev/termination-log"),
        *(f"--name={spec.name}", f"--pool={join.get('GLIDEPATH_POOL', spec.pool)}"),
        *(f"--{name}={amount}" for name, amount in sizes),
        *(f"--trait={key}={value}" for key, value in spec.traits),
        *(f"--lifetime-s={spec.lifetime_s}", f"--idle-s={spec.idle_s}"),
    ]
    return Told(
        arguments=tuple(arguments),
        env={"K8S_NAMESPACE": namespace, "HOME": WORK, "TMPDIR": "/tmp"},
        fields={"K8S_POD_NAME": "metadata.name", "PHYSICAL_HOSTNAME": NODE},
        settings={
            **join,
            "GLIDEPATH_SITE": spec.site,
            "GLIDEPATH_OFFER": spec.offer,
            "GLIDEPATH_TOKENS": TOKEN_FOLDERS["glidepath"],
        },
        scratch=(("work", WORK), ("tmp", "/tmp")),
    )


def osg(spec: PilotSpec, settings: PodSettings, namespace: str) -> Told:
    """The OSG pilot container: it must not be told CONDOR_HOST, and finds its token by the file's name."""
    offer = spec.offer.partition("/")[2] or spec.offer
    collector = dict(spec.join).get("GLIDEPATH_COLLECTOR", "").partition(",")[0].strip()
    hours = _hours(spec)
    return Told(
        env={"NUM_CPUS": _cpus(spec), "MEMORY": str(spec.size.memory_mib), **hours},
        usual={
            "GLIDEIN_Site": spec.site,
            "GLIDEIN_ResourceName": f"{spec.site}-{offer}",
            # Untold, it would join the OSPool, whoever had asked for it.
            **({"POOL": collector} if collector else {}),
        },
        attributes=_attributes(spec),
        scratch=(("pilot", "/pilot"), ("tmp", "/tmp")),
        token_file=OSG_TOKEN,
        lives_s=_lives_s(hours),
    )


def prp(spec: PilotSpec, settings: PodSettings, namespace: str) -> Told:
    """The images of the PRP provisioner: everything in variables, sizes once more as labels.

    Its own provisioner tells them no lifetime; each of its two images knows other variables for that.
    """
    size, cpus = spec.size, _cpus(spec)
    least = size.disk_mib == -(-PRP_DISK_KIB // KIB_PER_MIB)
    disk_kib = str(PRP_DISK_KIB if least else size.disk_mib * KIB_PER_MIB)
    app = settings.labels.get("k8s-app", "prp-wn")
    hours = _hours(spec)
    return Told(
        env={
            "K8S_PROVISIONER_TYPE": "PRPHTCondorProvisioner",
            "K8S_PROVISIONER_NAME": app,
            "CONDOR_HOST": dict(spec.join).get("GLIDEPATH_COLLECTOR", ""),
            "STARTD_NOCLAIM_SHUTDOWN": str(spec.idle_s),
            "MASTER_PEACEFUL_SHUTDOWN": str(spec.lifetime_s),
            "K8S_NAMESPACE": namespace,
            "NUM_CPUS": cpus,
            "NUM_GPUS": str(size.gpus),
            "MEMORY": str(size.memory_mib),
            "DISK": disk_kib,
            **hours,
        },
        usual={
            "K8S_DOMAIN": "optiputer.net",
            "FORCE_K8SNAMESPACE_MATCHING": "yes",
            "ADDITIONAL_REQUIREMENTS": "",
        },
        fields={"PHYSICAL_HOSTNAME": NODE},
        labels={
            "prp-htcondor-portal": "wn",
            "k8s-app": app,
            "PodCPUs": cpus,
            "PodGPUs": str(size.gpus),
            "PodMemory": str(size.memory_mib),
            "PodDisk": disk_kib,
        },
        attributes=_attributes(spec),
        token_file=PRP_TOKEN,
        lives_s=_lives_s(hours),
    )


def _attributes(spec: PilotSpec) -> str:
    """By which the pool's slots are known as this pilot's; a text of ClassAds is quoted as one of JSON."""
    said = {"GlidepathPilot": spec.name, "GlidepathSite": spec.site, "GlidepathOffer": spec.offer}
    return "".join(f"{name} = {json.dumps(value)}\n" for name, value in said.items())


def _cpus(spec: PilotSpec) -> str:
    return str(max(1, spec.size.cpu_milli // 1000))


def _hours(spec: PilotSpec) -> dict[str, str]:
    """Whole hours, at least one: in the last one no new job begins, so that the lifetime is kept."""
    return {
        "ACCEPT_JOBS_FOR_HOURS": str(max(1, spec.lifetime_s // HOUR_S - RETIREMENT_H)),
        "RETIREMENT_HOURS": str(RETIREMENT_H),
        "ACCEPT_IDLE_MINUTES": str(max(1, spec.idle_s // MINUTE_S)),
    }


def _lives_s(hours: Mapping[str, str]) -> int:
    return (int(hours["ACCEPT_JOBS_FOR_HOURS"]) + int(hours["RETIREMENT_HOURS"])) * HOUR_S


PRESETS: dict[str, Callable[[PilotSpec, PodSettings, str], Told]] = {
    "glidepath": glidepath,
    "osg": osg,
    "prp": prp,
}
