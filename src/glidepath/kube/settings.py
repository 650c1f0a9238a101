"""The table `[sites.NAME.kubernetes]` as a strict, frozen model: the cluster, and what pods look like.

Every field says its meaning and why its default is what it is: the reference page is made from that.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, field_serializer, model_validator

from glidepath.config.fields import Count, Duration, Name, Positive, Size, Text
from glidepath.config.tables import Table

# As Kubernetes has them: a prefix that is a host name, and a name of at most 63 letters.
_HOST = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?){0,20}"
_WORD = r"[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?"
_KEY = re.compile(rf"(?:(?=[^/]{{1,253}}/){_HOST}/)?{_WORD}")
_LABEL = re.compile(rf"(?:{_WORD})?")
_OBJECT = re.compile(rf"(?=.{{1,253}}\Z){_HOST}")
_OBJECT_OR_NONE = re.compile(rf"(?:{_OBJECT.pattern})?")
_FILE = re.compile(r"(?!\.\.)(?!\.\Z)[A-Za-z0-9_.-]{1,253}")
_FILE_OR_NONE = re.compile(rf"(?:{_FILE.pattern})?")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_QUANTITY = re.compile(r"[0-9]{1,15}(?:\.[0-9]{1,3})?(?:m|k|M|G|T|Ki|Mi|Gi|Ti)?")
_WHOLE = re.compile(r"[0-9]{1,15}")
VALUE_LETTERS_MAX = 4000  # A requirement of jobs that an image is told can be long.
PREFIX = "glidepath/"  # of the labels and annotations that are ours
OURS = "/etc/glidepath"  # the folder in a container that is ours
SHM = "/dev/shm"
LAST_WORDS = "/dev/termination-log"
APPARMOR = "container.apparmor.security.beta.kubernetes.io/"
FROM_OFFER = frozenset({"cpu", "memory", "ephemeral-storage"})

# Variables that a preset sets from the pilot's own size, time and pool: nobody else may. The rest of what a
# preset sets is only the usual, and `env` goes before it.
SET_BY_PRESET: dict[str, frozenset[str]] = {
    "glidepath": frozenset({"HOME", "K8S_NAMESPACE", "K8S_POD_NAME", "PHYSICAL_HOSTNAME", "TMPDIR"}),
    "osg": frozenset(
        {"ACCEPT_IDLE_MINUTES", "ACCEPT_JOBS_FOR_HOURS", "MEMORY", "NUM_CPUS", "RETIREMENT_HOURS"}
    ),
    "prp": frozenset(
        {
            *("ACCEPT_IDLE_MINUTES", "ACCEPT_JOBS_FOR_HOURS", "CONDOR_HOST", "DISK", "K8S_NAMESPACE"),
            *("K8S_PROVISIONER_NAME", "K8S_PROVISIONER_TYPE", "MASTER_PEACEFUL_SHUTDOWN", "MEMORY"),
            *("NUM_CPUS", "NUM_GPUS", "PHYSICAL_HOSTNAME", "RETIREMENT_HOURS", "STARTD_NOCLAIM_SHUTDOWN"),
        }
    ),
}
# Variables with which an image would not do what it was started for, and what to write instead.
NEVER_SET: dict[str, dict[str, str]] = {
    "osg": {
        "CONDOR_HOST": "the image then forgets its pool; write `POOL`",
        "TOKEN": "everybody who sees the pod would see it; name its Secret in `token_secret`",
    }
}
TOKEN_FOLDERS = {
    "glidepath": f"{OURS}/tokens.d",
    "osg": "/etc/condor/tokens-orig.d",
    "prp": "/etc/condor/tokens.d",
}
# The user that an image has for this; in that of the OSG, HTCondor needs one who has a name.
USERS = {"glidepath": 20000, "osg": 1000, "prp": 20000}


def _fits(form: re.Pattern[str], what: str) -> AfterValidator:
    def check(value: str) -> str:
        if not form.fullmatch(value):
            raise ValueError(f"is {what}")
        return value

    return AfterValidator(check)


def _not_ours(value: str) -> str:
    if value.startswith(PREFIX):
        raise ValueError(f"begins with `{PREFIX}`, which glidepath writes itself")
    if value.startswith(APPARMOR):
        raise ValueError('names a container that is not there; write `level = "apptainer"` for the same')
    return value


def _one_line(value: str) -> str:
    if not value.isprintable() or len(value) > VALUE_LETTERS_MAX:
        raise ValueError(f"must be one line of printable text of at most {VALUE_LETTERS_MAX} letters")
    return value


def _absolute(value: str) -> str:
    parts = value.split("/")
    if not value.startswith("/") or ".." in parts or ":" in value or not value.isprintable():
        raise ValueError("must be a path that begins with `/` and has no `..` and no `:`")
    if posixpath.normpath(value).strip("/") == "":
        raise ValueError("would hide all of the image; write a folder or a file")
    return value


def _resource(value: str) -> str:
    if value in FROM_OFFER:
        raise ValueError("is asked for by the size of the offer; write it there")
    if "/" not in value and not value.startswith("hugepages-"):
        raise ValueError("is no resource that nodes can have; write it with its prefix, `example.org/fuse`")
    return value


Key = Annotated[str, _fits(_KEY, "no key of a label, such as `example.org/zone`")]
OwnKey = Annotated[Key, AfterValidator(_not_ours)]
Label = Annotated[str, _fits(_LABEL, "no value of a label: at most 63 letters, digits, `-`, `_` and `.`")]
_NO_NAME = "no name of an object: small letters, digits, `-` and `.`"
ObjectName = Annotated[str, _fits(_OBJECT, _NO_NAME)]
MaybeName = Annotated[str, _fits(_OBJECT_OR_NONE, _NO_NAME)]
MaybeFile = Annotated[str, _fits(_FILE_OR_NONE, "no key of a Secret or ConfigMap: no `/` belongs there")]
Variable = Annotated[str, _fits(_VARIABLE, "no name of a variable")]
Quantity = Annotated[str, _fits(_QUANTITY, "no amount, such as `1` or `500Mi`")]
ResourceName = Annotated[Key, AfterValidator(_resource)]
Value = Annotated[str, AfterValidator(_one_line)]
InPod = Annotated[str, AfterValidator(_absolute)]


class TolerationSettings(Table):
    """A taint of nodes that pods put up with."""

    key: Key = Field(description="Key of the taint.")
    value: Label | None = Field(default=None, description="Its value. Unset: any.")
    effect: Literal["", "NoSchedule", "PreferNoSchedule", "NoExecute"] = Field(
        default="", description="Its effect. Empty: every one."
    )
    within: Duration = Field(
        default=0,
        description="How long a pod stays once a node has a taint of effect `NoExecute`. Zero: to its end.",
    )

    @model_validator(mode="after")
    def _only_where_it_counts(self) -> TolerationSettings:
        if self.within and self.effect != "NoExecute":
            raise ValueError('`within` is only for `effect = "NoExecute"`')
        return self


class NodeTermSettings(Table):
    """What a label of a node must be, or must not be."""

    key: Key = Field(description="Key of the label.")
    any_of: Annotated[tuple[Label, ...], Field(strict=False)] = Field(
        default=(), description="The node must have one of these."
    )
    none_of: Annotated[tuple[Label, ...], Field(strict=False)] = Field(
        default=(), description="The node must have none of these; it need not have the label."
    )
    exists: bool | None = Field(
        default=None, description="Whether the node must have the label, or must not, whatever its value."
    )

    @model_validator(mode="after")
    def _says_something(self) -> NodeTermSettings:
        if (bool(self.any_of), bool(self.none_of), self.exists is not None).count(True) != 1:
            raise ValueError("needs one of `any_of`, `none_of` and `exists`")
        return self


class ClaimSettings(Table):
    """A volume claim of the namespace that pods mount."""

    claim: ObjectName = Field(description="Name of the PersistentVolumeClaim.")
    path: InPod = Field(description="Where it is in the container.")
    read_only: bool = Field(default=True, description="Whether jobs may not write there.")
    shares_mounts: bool = Field(
        default=False,
        description="Whether mounts that the node makes below it later are seen, as CVMFS needs.",
    )


class FileSettings(Table):
    """A ConfigMap or a Secret of the namespace that pods see as files."""

    name: ObjectName = Field(description="Name of the object.")
    path: InPod = Field(description="Folder in the container, or the file itself where `key` is set.")
    key: MaybeFile = Field(
        default="",
        description="Only this key, as the file `path`; such a file does not change while a pod lives. "
        "Empty: all of them.",
    )


class GpuSettings(Table):
    """How GPUs of one type are asked for."""

    resource: ResourceName = Field(default="nvidia.com/gpu", description="Resource that counts them.")
    nodes: Annotated[tuple[NodeTermSettings, ...], Field(strict=False)] = Field(
        default=(), description="Labels of the nodes that have them."
    )


class PodSettings(Table):
    """What a pod looks like; an offer says only what is different from its site.

    What it says goes before: a list or a single value instead of the site's, a table key by key.
    """

    image: Text = Field(default="", description="Image of the pilot. It must be set for site or offer.")
    pull_policy: Literal["IfNotPresent", "Always", "Never"] = Field(
        default="IfNotPresent", description="When the image is fetched."
    )
    pull_secrets: Annotated[tuple[ObjectName, ...], Field(strict=False)] = Field(
        default=(), description="Secrets with which the image is fetched. By default none."
    )
    preset: Literal["glidepath", "osg", "prp"] = Field(
        default="glidepath",
        description="What the image expects to be told: our own pilot, the OSG pilot container, or those of "
        "the PRP.",
    )
    level: Literal["restricted", "apptainer", "kata", "image"] = Field(
        default="restricted",
        description="What pods may do. `restricted` is what Pod Security calls so. `apptainer` lifts the "
        "filters of system calls and AppArmor, which containers inside the pod need; `kata` is `restricted` "
        "in a virtual machine. `image` is `apptainer` with user and capabilities as the image has them, "
        "root included, which the images of the PRP need; a namespace must allow the last three.",
    )
    user_namespace: bool = Field(
        default=False,
        description="Gives each pod users of its own, where the nodes can do it; with `apptainer` or `image` "
        "also an unmasked /proc, so that jobs in containers can have a PID namespace.",
    )
    runtime_class: MaybeName = Field(
        default="", description="RuntimeClass of pods. By default that of the cluster, and `kata` for `kata`."
    )
    user: Annotated[int, Field(ge=1, le=2**31 - 1)] | None = Field(
        default=None,
        description="Number of the user that pods run as; any but root. Unset: 1000 for preset `osg`, where "
        "that user has a name, the image's own for level `image`, else 20000.",
    )
    priority_class: MaybeName = Field(default="", description="PriorityClass of pods. By default none.")
    priority_class_gpu: MaybeName = Field(
        default="", description="The same for pods with GPUs. Empty: as above."
    )
    nodes: Annotated[tuple[NodeTermSettings, ...], Field(strict=False)] = Field(
        default=(), description="What labels of nodes must be or must not be. By default any node will do."
    )
    tolerations: Annotated[tuple[TolerationSettings, ...], Field(strict=False)] = Field(
        default=(), description="Taints that pods put up with. By default none."
    )
    resources: Mapping[ResourceName, Quantity] = Field(
        default_factory=dict,
        description='Further resources of a pod, such as `{ "example.org/fuse" = "1" }`.',
    )
    overhead: Literal["none", "prp", "prp-even"] = Field(
        default="none",
        description="What is asked for besides the pilot's size. `prp`: requests of 0.75 of the CPUs and 0.8 "
        "of the memory, limits of a quarter CPU and 1000 MiB more, as the PRP provisioner has them; "
        "`prp-even`: 1000 MiB more in both, as it has them with `use_large_limit=no`.",
    )
    gpus: GpuSettings = Field(default_factory=GpuSettings, description="How GPUs are asked for.")
    gpu_types: Mapping[Label, GpuSettings] = Field(
        default_factory=dict, description="The same by the pilot's trait `gpu_type`. By default as `gpus`."
    )
    labels: Mapping[OwnKey, Label] = Field(default_factory=dict, description="Further labels of pods.")
    annotations: Mapping[OwnKey, Value] = Field(default_factory=dict, description="Further annotations.")
    env: Mapping[Variable, Value] = Field(
        default_factory=dict,
        description="Further variables of pods, as written: `$(NAME)` stays what it is. They go before what "
        "is only usual for a preset (such as `GLIDEIN_Site`); what it makes of size, time and pool of the "
        "pilot (such as `NUM_CPUS`) cannot be set here.",
    )
    claims: Annotated[tuple[ClaimSettings, ...], Field(strict=False)] = Field(
        default=(),
        description="Volume claims that pods mount; one at the place of scratch takes its place. By default "
        "none.",
    )
    configs: Annotated[tuple[FileSettings, ...], Field(strict=False)] = Field(
        default=(), description="ConfigMaps that pods see as files. By default none."
    )
    secrets: Annotated[tuple[FileSettings, ...], Field(strict=False)] = Field(
        default=(), description="Secrets that pods see as files. By default none."
    )
    token_secret: MaybeName = Field(
        default="",
        description="Secret of the namespace with the token for the pool; all pilots use it. Empty: each "
        "pod gets a Secret of its own with the token that the pool's settings make.",
    )
    token_key: MaybeFile = Field(
        default="",
        description="Key of `token_secret` that is the token, as the file that the image looks for. Empty: "
        "all keys are files under their own names; for preset `osg` one must then be "
        "`flock.opensciencegrid.org`.",
    )
    storage: Size = Field(
        default=0,
        description="Ephemeral storage of a pod. By default the pilot's disk, and a little for its logs.",
    )
    shm: Size = Field(
        default=0,
        description="Size of /dev/shm, which counts as memory. By default the 64 MiB of the runtime.",
    )

    @model_validator(mode="after")
    def _whole_devices(self) -> PodSettings:
        for name, amount in self.resources.items():
            if "/" in name and not _WHOLE.fullmatch(amount):
                raise ValueError(f"`resources`: `{name}` is counted; write a whole number without a unit")
        return self


def contradictions(pod: PodSettings) -> Iterator[str]:
    """What the settings of one pod cannot be together, site and offer put over each other."""
    for name in sorted(set(pod.env) & SET_BY_PRESET[pod.preset]):
        yield f"`env`: `{name}` is set by the preset `{pod.preset}`; remove it"
    never = NEVER_SET.get(pod.preset, {})
    for name in sorted(set(pod.env) & set(never)):
        yield f"`env`: `{name}` must not be set for the preset `{pod.preset}`: {never[name]}"
    if (pod.preset, pod.level, pod.user) == ("osg", "image", None):
        yield "`level`: the OSG pilot container does not run as root; set `user`, or another level"
    if pod.token_key and not pod.token_secret:
        yield "`token_key`: names a key of `token_secret`, which is not set"
    taken = {TOKEN_FOLDERS[pod.preset], LAST_WORDS, *((SHM,) if pod.shm else ())}
    mounted: tuple[ClaimSettings | FileSettings, ...] = (*pod.claims, *pod.configs, *pod.secrets)
    for each in mounted:
        path = posixpath.normpath(each.path)
        if path in taken or path == OURS or path.startswith(f"{OURS}/"):
            yield f"`{path}` is used twice; mount one thing in one place"
        taken.add(path)


class KubernetesSettings(PodSettings):
    """A namespace of a Kubernetes cluster as a site."""

    kubeconfig: Text = Field(
        default="",
        description="File that says where the cluster is. Empty: in a pod its own service account, "
        "elsewhere what `kubectl` uses.",
    )
    context: Text = Field(default="", description="Context of that file. Empty: its current one.")
    namespace: MaybeName = Field(default="", description="Namespace. Empty: that of the context or the pod.")
    tls_unverified: bool = Field(
        default=False,
        description="Accepts a kubeconfig that does not check who the server is; said in every status.",
    )
    changes_per_second: Count = Field(
        default=20, description="Pods created and deleted in a second, at most. Zero: no limit."
    )
    pods_max: Positive = Field(
        default=3000,
        description="Our pods in the namespace, at most, ended ones included: clusters slow down beyond.",
    )
    offers: Mapping[Name, PodSettings] = Field(
        default_factory=dict, description="What pods of one offer have otherwise, by name of the offer."
    )

    @model_validator(mode="after")
    def _agrees(self) -> KubernetesSettings:
        for sentence in contradictions(self):
            raise ValueError(sentence)
        for offer in self.offers:
            for sentence in contradictions(self.pod(offer)):
                raise ValueError(f"the offer `{offer}`: {sentence}")
        return self

    @field_serializer("offers")
    def _only_what_was_said(self, offers: Mapping[str, PodSettings]) -> dict[str, dict[str, Any]]:
        """What an offer does not say is the site's, and must not come back as a default of its own."""
        return {name: table.model_dump(exclude_unset=True) for name, table in offers.items()}

    def pod(self, offer: str) -> PodSettings:
        """What is written for the offer goes before what is written for the site."""
        own = self.offers.get(offer)
        said = {name: getattr(self, name) for name in PodSettings.model_fields}
        for name in own.model_fields_set if own is not None else ():
            value = getattr(own, name)
            said[name] = {**said[name], **value} if isinstance(value, Mapping) else value
        return PodSettings.model_construct(**said)
