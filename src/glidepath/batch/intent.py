"""What a job was asked for, as a line of text that is kept beside it: a specification comes in and out again.

The name of a job is that of its first pilot with a mark of ours, so that it is found again in a queue that
holds jobs of many. It refuses to know batch systems.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from dataclasses import dataclass
from typing import Any

from glidepath.core.provision.pilot import PilotSpec
from glidepath.core.quantity import Instant, OfferKey, Owner, PilotName, PoolName, Resources, SiteName, Traits
from glidepath.core.text import one_line
from glidepath.remote.words import SafeWord

NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
MARK_LETTERS = 6
DIGEST_LETTERS = 16
INTENT_BYTES_MAX = 1 << 16


@dataclass(frozen=True, slots=True)
class Intent:
    """What a job was asked for, read back. All its pilots are alike."""

    pilots: tuple[PilotName, ...]
    offer: OfferKey
    pool: PoolName
    size: Resources
    traits: Traits
    owner: Owner
    lifetime_s: int
    walltime_s: int
    asked_at: Instant
    digest: str

    @property
    def first(self) -> PilotName:
        return self.pilots[0]


def usable(name: str) -> bool:
    return NAME.fullmatch(name) is not None


def mark_of(folder: str, site: SiteName) -> str:
    """Tells our jobs in a queue from those of another glidepath, or of another site of this one."""
    found = hashlib.sha256(f"{folder}\0{site}".encode()).digest()
    return base64.b32encode(found).decode()[:MARK_LETTERS].lower()


def key_of(name: PilotName, mark: str) -> SafeWord:
    """The name of the job of this first pilot, and of its mates."""
    return SafeWord(f"{name}.{mark}")


def named_by(key: str, mark: str) -> PilotName | None:
    """The first pilot of a job of ours; None for any other job."""
    name, dot, found = key.rpartition(".")
    return PilotName(name) if dot and found == mark and usable(name) else None


def digest(spec: PilotSpec) -> str:
    """Equal for a repeated request, whenever it is made; other for anything else under the same name."""
    facts: list[Any] = [spec.name, spec.site, spec.offer, spec.pool, spec.size.as_tuple(), spec.traits]
    facts += [spec.lifetime_s, spec.idle_s, spec.owner, spec.mates]
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:DIGEST_LETTERS]


def written(spec: PilotSpec, *, walltime_s: int) -> str:
    """One line, in ASCII."""
    facts = {
        "pilots": [spec.name, *spec.mates],
        "offer": spec.offer,
        "pool": spec.pool,
        "size": spec.size.as_tuple(),
        "traits": spec.traits,
        "owner": spec.owner,
        "lifetime_s": spec.lifetime_s,
        "walltime_s": walltime_s,
        "asked_at": spec.asked_at,
        "digest": digest(spec),
    }
    return json.dumps(facts, sort_keys=True)


def intent_of(text: str) -> Intent:
    """Raises ValueError where this is not what we wrote."""
    try:
        found = json.loads(text[:INTENT_BYTES_MAX])
        return Intent(
            pilots=(
                PilotName(_named(found["pilots"][0])),
                *(PilotName(_named(p)) for p in found["pilots"][1:]),
            ),
            offer=OfferKey(_text(found["offer"])),
            pool=PoolName(_text(found["pool"])),
            size=Resources(*(_amount(each) for each in found["size"])),
            traits=tuple((_text(key), _text(value)) for key, value in found["traits"]),
            owner=Owner(_text(found["owner"])),
            lifetime_s=_amount(found["lifetime_s"]),
            walltime_s=_amount(found["walltime_s"]),
            asked_at=Instant(_whole(found["asked_at"])),
            digest=_text(found["digest"]),
        )
    except (ValueError, TypeError, LookupError, RecursionError) as error:
        raise ValueError(f"it is not ours: {one_line(str(error)) or type(error).__name__}") from None


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError("a text is something else")
    return value


def _named(value: object) -> str:
    name = _text(value)
    if not usable(name):
        raise ValueError(f"`{one_line(name)}` is no name of a pilot")
    return name


def _whole(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError("a number is something else")
    return value


def _amount(value: object) -> int:
    amount = _whole(value)
    if amount < 0:
        raise ValueError("an amount is below zero")
    return amount
