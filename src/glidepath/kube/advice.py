"""What a check-up says of what it met: names, amounts and refusals come in, verdicts with what to do go out.

Nothing is asked here. The words are those of a person who runs the site and has no right beyond it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

from glidepath.core.provision.pilot import SiteState
from glidepath.core.text import one_line
from glidepath.kube.api import NotSentError
from glidepath.kube.errors import AccessError, KubeError
from glidepath.kube.settings import PodSettings
from glidepath.kube.states import PodStory, Told

# Above this share of a quota, pods will soon be refused.
FULL_PERCENT = 90
# Of a quota, what pods and their tokens count against.
COUNTED = re.compile(r"(count/)?(pods|secrets)|cpu|memory|(requests|limits)\..{1,200}")
_AMOUNT = re.compile(
    r"(?P<number>[0-9]{1,20}(?:\.[0-9]{1,12})?)(?:(?P<unit>[numkMGTPE]|[KMGTPE]i)|[eE](?P<power>[0-9]{1,2}))?"
)
_UNITS = {
    **{unit: Fraction(1, 1000 ** (power + 1)) for power, unit in enumerate("mun")},
    **{unit: Fraction(1000 ** (power + 1)) for power, unit in enumerate("kMGTPE")},
    **{f"{unit}i": Fraction(1024 ** (power + 1)) for power, unit in enumerate("KMGTPE")},
}
# As registries have them: a host where it has a dot or a port, a path in small letters, a tag, a digest.
_HOST = r"(?:[A-Za-z0-9](?:[A-Za-z0-9.-]{0,252}[A-Za-z0-9])?|\[[0-9a-fA-F:]{2,39}\])(?::[0-9]{1,5})?"
_PART = r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
_IMAGE = re.compile(
    rf"(?:{_HOST}/)?{_PART}(?:/{_PART})*"
    r"(?::(?P<tag>[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}))?(?P<digest>@[a-z0-9+._-]{1,40}:[0-9a-fA-F]{32,128})?"
)
NO_DRY_RUN, EXCEEDED = "does not support dry run", "exceeded quota"
# By the words of a refusal, what to do about it. The first that fits counts.
REFUSALS: tuple[tuple[str, str], ...] = (
    (NO_DRY_RUN, "start one pilot and look at `glidepath site status`"),
    (
        EXCEEDED,
        "ask for a larger quota, or make the offer smaller; glidepath waits until there is room",
    ),
    (
        "failed quota",
        "a quota asks for an amount that the offer does not say; give the offer all of its size",
    ),
    (
        "violates PodSecurity",
        'write `level = "restricted"` for the offer, or have the label '
        "`pod-security.kubernetes.io/enforce` of the namespace changed",
    ),
    ("PriorityClass", "mend `priority_class`; `kubectl get priorityclass` lists what there is"),
    ("RuntimeClass", "mend `runtime_class`, or `level`; `kubectl get runtimeclass` lists what there is"),
    ("usage per", "a LimitRange of the namespace bounds pods; make the offer fit it"),
    ("serviceaccount", "the namespace is being made or removed; ask again in a minute"),
    (
        "admission webhook",
        "a rule of the cluster refuses it; mend what it names, or ask who runs the cluster",
    ),
    ("ValidatingAdmissionPolicy", "a rule of the cluster refuses it; mend what it names, or ask who runs it"),
    ("cannot create resource", "bind the Role of `deploy/` to this identity in the namespace"),
)
NOT_KUBERNETES = "no answer of Kubernetes"  # as `api` says it
NO_NAMESPACE = "mend `namespace`, or have it created: `kubectl get namespace` lists what there is"
OTHER_REFUSAL = "mend what it names, in the settings of the offer or with those who run the cluster"

Said = tuple[str, str, str]  # verdict, what was found, what to do


class Seen(NamedTuple):
    """A pod of ours that is there."""

    name: str
    offer: str  # as its label has it
    image: str
    story: PodStory


def counted(pods: Sequence[Seen]) -> str:
    return f"{len(pods)} pod{'s' * (len(pods) > 1)}"


def mended(error: Exception) -> str:
    """What to do about a server that does not answer as it should."""
    if isinstance(error, KubeError):
        if error.status == 0 or NOT_KUBERNETES in str(error):
            return (
                "something else answers there; look at `server` in the kubeconfig and at proxies on the way"
            )
        if error.status == 401:
            return (
                "the token or certificate is not accepted, or no longer: renew it where the kubeconfig has it"
            )
        if error.status == 403:
            return "ask those who run the cluster for the right"
        return "the server is busy or broken; ask again in a minute, then those who run it"
    if isinstance(error, AccessError):
        return "mend it where the kubeconfig names it"
    if isinstance(error, NotSentError):
        return (
            "can its address be reached from here? a firewall, a NetworkPolicy or a proxy may stand between"
        )
    return "does `kubectl get pods` work with this access? ask again in a minute"


def refused(error: KubeError, *, ours_alive: bool) -> Said:
    """What a pod that was only tried was answered with."""
    words = str(error)
    if error.status in (0, 401) or error.busy:
        return "warn", f"not known whether it would be taken: {error}", mended(error)
    fix = next((fix for needle, fix in REFUSALS if needle in words), OTHER_REFUSAL)
    if NO_DRY_RUN in words:
        return "warn", f"it cannot be tried: {error}", fix
    # A quota that our own pods fill is doing what it is for.
    verdict = "warn" if EXCEEDED in words and ours_alive else "fail"
    return verdict, f"it would be refused: {error}", NO_NAMESPACE if error.status == 404 else fix


def image_said(settings: PodSettings, ours: Sequence[Seen]) -> Said:
    """No namespace lets us fetch it, so its name is looked at, and what pods that have it say."""
    image, shown = settings.image, f"`{one_line(settings.image)}`"
    if not image:
        return "fail", "there is none", "set `image`"
    found = _IMAGE.fullmatch(image)
    if found is None:
        fix = "write it as `HOST/PATH:TAG`, with small letters in the path"
        return "fail", f"{shown} is no name of an image", fix
    with_it = [each for each in ours if each.image == image]
    failed = [each for each in with_it if _unfetched(each.story)]
    if failed:
        fix = "is it there under this name, and may the nodes fetch it? a private one needs `pull_secrets`"
        if settings.pull_policy == "Never":
            fix = 'with `pull_policy = "Never"` it must be on the nodes already'
        return "fail", f"{counted(failed)} cannot have {shown}: {failed[0].story.words}", fix
    if found["digest"] is None and found["tag"] in (None, "latest"):
        fix = "write a tag of its own or a digest, so that all pilots are the same"
        return "warn", f"{shown} is whatever is called `latest` when a node fetches it", fix
    if any(each.story.state in (SiteState.RUNNING, SiteState.ENDED) for each in with_it):
        return "ok", f"{shown} runs in pods of ours", ""
    if settings.pull_policy == "Never":
        return "ok", f"{shown} is never fetched; that nodes have it shows with the first pod", ""
    return "ok", f"{shown} is a whole name; that nodes can fetch it shows with the first pod", ""


def _unfetched(told: PodStory) -> bool:
    reason = told.words.rpartition("`: ")[2].partition(":")[0]
    return told.told is Told.PULL_FAILED or (told.told is Told.PULLING and reason == "ErrImagePull")


def full(quota: Mapping[str, Any]) -> Iterator[str]:
    """What is used up or nearly so, of what pods count against."""
    meta, status = quota.get("metadata"), quota.get("status")
    name = one_line(str(meta.get("name", "?") if isinstance(meta, dict) else "?"))
    hard, used = ((status or {}).get(key) if isinstance(status, dict) else None for key in ("hard", "used"))
    if not isinstance(hard, dict) or not isinstance(used, dict):
        return
    for key in sorted(key for key in hard if isinstance(key, str) and COUNTED.fullmatch(key)):
        have, most = amount(used.get(key)), amount(hard[key])
        if have is None or most is None or have * 100 < most * FULL_PERCENT:
            continue
        how = "all" if have >= most else f"{used[key]} of"
        yield f"quota `{name}`: {how} {hard[key]} {one_line(key)}"


def amount(said: object) -> Fraction | None:
    """A quantity of Kubernetes, such as `1500m`, `16Gi` or `2e3`; None where it is none."""
    found = _AMOUNT.fullmatch(said) if isinstance(said, str) else None
    if found is None:
        return None
    unit = _UNITS[found["unit"]] if found["unit"] else Fraction(10) ** int(found["power"] or 0)
    return Fraction(found["number"]) * unit
