"""What glidepath writes on a pod to know it again: an intent goes in, labels and annotations come out.

Labels are for selecting and for people with `kubectl`; one annotation holds the whole intent, and is
believed only as far as it checks.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from typing import Any

import msgspec

from glidepath.core.provision.pilot import PilotSpec
from glidepath.core.quantity import Instant, OfferKey, Owner, PilotName, PoolName, Resources, Traits
from glidepath.core.text import one_line
from glidepath.kube.settings import PREFIX

SITE, PILOT, POOL, OFFER = f"{PREFIX}site", f"{PREFIX}pilot", f"{PREFIX}pool", f"{PREFIX}offer"
COMMUNITY, SHAPE = f"{PREFIX}community", f"{PREFIX}shape"
ATTRIBUTES = f"{PREFIX}attributes"
INTENT, OWNER, DRAIN, SETTINGS = f"{PREFIX}intent", f"{PREFIX}owner", f"{PREFIX}drain", f"{PREFIX}settings"

# A name of a pod becomes the name of its host, which may have no more letters.
NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
_NODE = re.compile(
    r"(?=.{1,253}\Z)[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?)*"
)
_ODD = re.compile(r"[^A-Za-z0-9_.-]")
_LABEL_LETTERS = 63
_EDGES = "_.-"
DIGEST_LETTERS = 16


class _Written(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The annotation, as it stands there."""

    offer: str
    pool: str
    size: tuple[int, int, int, int]
    traits: tuple[tuple[str, str], ...]
    owner: str
    lifetime_s: int
    asked_at: int
    digest: str


@dataclass(frozen=True, slots=True)
class Intent:
    """What a pod was asked for, read back."""

    offer: OfferKey
    pool: PoolName
    size: Resources
    traits: Traits
    owner: Owner
    lifetime_s: int
    asked_at: Instant
    digest: str


_WRITTEN = msgspec.json.Decoder(_Written)


def digest(spec: PilotSpec) -> str:
    """Equal for a repeated request, whenever it is made; other for anything else under the same name."""
    facts: list[Any] = [spec.name, spec.site, spec.offer, spec.pool, spec.size.as_tuple(), spec.traits]
    facts += [spec.lifetime_s, spec.idle_s, spec.owner]
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:DIGEST_LETTERS]


def label(text: str) -> str:
    """A text as the value of a label: what has no place there becomes `_`, what is too long is cut."""
    return _ODD.sub("_", text)[:_LABEL_LETTERS].strip(_EDGES)


def shape_of(size: Resources) -> str:
    """`4c-8192m-1g`, for people who select by it."""
    parts = [f"{size.cpu_milli / 1000:g}c", f"{size.memory_mib}m"]
    parts += [f"{size.disk_mib}d"] if size.disk_mib else []
    parts += [f"{size.gpus}g"] if size.gpus else []
    return "-".join(parts)


def labels_of(spec: PilotSpec, community: str) -> dict[str, str]:
    found = {
        "app.kubernetes.io/name": "glidepath-pilot",
        "app.kubernetes.io/managed-by": "glidepath",
        SITE: spec.site,
        PILOT: spec.name,
        POOL: label(spec.pool),
        OFFER: label(spec.offer.partition("/")[2] or spec.offer),
        SHAPE: label(shape_of(spec.size)),
    }
    return found | ({COMMUNITY: label(community)} if community else {})


def annotations_of(spec: PilotSpec) -> dict[str, str]:
    written = _Written(
        offer=spec.offer,
        pool=spec.pool,
        size=spec.size.as_tuple(),
        traits=spec.traits,
        owner=spec.owner,
        lifetime_s=spec.lifetime_s,
        asked_at=spec.asked_at,
        digest=digest(spec),
    )
    # In ASCII: an owner's name may have letters that no encoder lets through.
    found = {INTENT: json.dumps(msgspec.structs.asdict(written))}
    return found | ({OWNER: one_line(spec.owner)} if spec.owner else {})


def intent_of(text: str) -> Intent:
    """Raises ValueError where this is not what we wrote."""
    try:
        written = _decoded(text)
        size = Resources(*written.size)
    except (msgspec.DecodeError, RecursionError, ValueError) as error:
        said = one_line(str(error)) or type(error).__name__
        raise ValueError(f"the annotation `{INTENT}` is not ours: {said}") from None
    if written.lifetime_s < 0:
        raise ValueError(f"the annotation `{INTENT}` has an amount below zero")
    return Intent(
        OfferKey(written.offer),
        PoolName(written.pool),
        size,
        written.traits,
        Owner(written.owner),
        written.lifetime_s,
        Instant(written.asked_at),
        written.digest,
    )


def _decoded(text: str) -> _Written:
    try:
        return _WRITTEN.decode(text)
    except (msgspec.DecodeError, UnicodeError):
        if "\\ud" not in text.lower():
            raise
    # Halves of surrogates, which the fast way does not read.
    return msgspec.convert(json.loads(text), _Written)


def usable(name: PilotName) -> bool:
    return NAME.fullmatch(name) is not None


def node_named(name: str) -> bool:
    """Whether a node can be called so."""
    return _NODE.fullmatch(name) is not None
