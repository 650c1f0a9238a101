"""What a pilot was asked for, folded into the name of its job: for clouds that know nothing but names.

A specification comes in, a name of small letters, digits, `-` and `_` goes out, and comes back as the same
intent, or as ValueError: a checksum over all of it tells a name that was cut or made up.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from glidepath.core.provision.pilot import PilotSpec
from glidepath.core.quantity import Instant, OfferKey, Owner, PilotName, PoolName, Resources, SiteName, Traits
from glidepath.core.text import one_line

MARK = "_g1"  # between the pilot's name and the rest; the digit is the version of this form
NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
_FOLDED = re.compile(rf"(?P<pilot>{NAME.pattern}){MARK}(?P<label>[a-z2-7]{{16,4000}})")
DIGEST_BYTES, OWNER_BYTES, CHECK_BYTES = 6, 5, 4
NUMBER_BYTES_MAX = 9  # of seven bits each: as much as a column of a database holds
TRAITS_MAX = 100


@dataclass(frozen=True, slots=True)
class Intent:
    """What a job was asked for, read back. Of the owner only a hash is there: names are seen by others."""

    pilot: PilotName
    site: SiteName
    offer: OfferKey
    pool: PoolName
    size: Resources
    traits: Traits
    owner_hash: str
    lifetime_s: int
    asked_at: Instant
    digest: str


def digest(spec: PilotSpec) -> str:
    """Equal for a repeated request, whenever it is made; other for anything else under the same name."""
    facts: list[Any] = [spec.name, spec.site, spec.offer, spec.pool, spec.size.as_tuple(), spec.traits]
    facts += [spec.lifetime_s, spec.idle_s, spec.owner]
    return hashlib.sha256(json.dumps(facts).encode()).digest()[:DIGEST_BYTES].hex()


def owner_hash(owner: Owner) -> str:
    """Empty for nobody."""
    return hashlib.sha256(owner.encode("utf-8", "replace")).digest()[:OWNER_BYTES].hex() if owner else ""


def usable(name: str) -> bool:
    return NAME.fullmatch(name) is not None


def label_of(spec: PilotSpec) -> str:
    """The intent as one word; the pilot's name is in its checksum only."""
    offer = spec.offer.partition("/")[2]
    packed = b"".join(_text(part) for part in (spec.site, offer, spec.pool))
    packed += b"".join(_number(amount) for amount in spec.size.as_tuple())
    packed += _number(len(spec.traits))
    packed += b"".join(_text(part) for trait in spec.traits for part in trait)
    packed += _bytes(bytes.fromhex(owner_hash(spec.owner)))
    packed += _number(spec.lifetime_s) + _number(max(0, spec.asked_at)) + bytes.fromhex(digest(spec))
    whole = packed + _check(spec.name, packed)
    return base64.b32encode(whole).decode().rstrip("=").lower()


def folded(spec: PilotSpec, *, letters_max: int) -> str:
    """The name of the job. Raises ValueError where there is no room for it."""
    found = f"{spec.name}{MARK}{label_of(spec)}"
    if len(found) > letters_max:
        raise ValueError(
            f"`{spec.name}` with what it was asked for has {len(found)} letters, and `name_letters_max` is "
            f"{letters_max}; shorten the names of site, offer, pool and traits, or use labels"
        )
    return found


def label_looks_ours(label: str, site: SiteName) -> bool:
    """Whether it begins as labels of this site do, be it broken. Others may write what they like."""
    return label.startswith(_beginning(site))


def name_looks_ours(name: str, site: SiteName) -> bool:
    """The same of a name that we folded; one that was cut right behind its mark is counted as well."""
    pilot, mark, label = name.rpartition(MARK)
    begins = _beginning(site)
    return bool(mark) and usable(pilot) and (label.startswith(begins) or begins.startswith(label))


def _beginning(site: SiteName) -> str:
    packed = _text(site)
    # Five bits to a letter: the last letter of these bytes may hold bits of the next one.
    return base64.b32encode(packed).decode().lower()[: len(packed) * 8 // 5]


def unfolded(name: str) -> Intent:
    """Raises ValueError where this is not what we wrote, every letter of it."""
    found = _FOLDED.fullmatch(name)
    if not found:
        raise ValueError(f"the name `{one_line(name)}` was cut or is not ours")
    return intent_of(found["pilot"], found["label"])


def intent_of(pilot: str, label: str) -> Intent:
    """The same where the label stands beside the name."""
    if not usable(pilot):
        raise ValueError(f"`{one_line(pilot)}` is no name of a pilot")
    try:
        # The decoder takes whole groups only, and checks neither letters nor what is left over strictly.
        whole = base64.b32decode(label.upper() + "=" * (-len(label) % 8))
        if base64.b32encode(whole).decode().rstrip("=").lower() != label:
            raise ValueError("it is not written as we write it")
        packed, check = whole[:-CHECK_BYTES], whole[-CHECK_BYTES:]
        if check != _check(pilot, packed):
            raise ValueError("the checksum is wrong")
        return _read(pilot, packed)
    except (ValueError, IndexError) as error:
        raise ValueError(f"the label of `{pilot}` was cut or is not ours: {error}") from None


def _read(pilot: str, packed: bytes) -> Intent:
    rest = _Rest(packed)
    site, offer, pool = rest.text(), rest.text(), rest.text()
    size = Resources(*(rest.number() for _ in range(4)))
    count = rest.number()
    if count > TRAITS_MAX:
        raise ValueError("it has too many traits")
    traits = tuple((rest.text(), rest.text()) for _ in range(count))
    owner = rest.bytes().hex()
    lifetime_s, asked_at = rest.number(), rest.number()
    told = rest.taken(DIGEST_BYTES).hex()
    if rest.left:
        raise ValueError("something stands behind it")
    return Intent(
        PilotName(pilot),
        SiteName(site),
        OfferKey(f"{site}/{offer}"),
        PoolName(pool),
        size,
        traits,
        owner,
        lifetime_s,
        Instant(asked_at),
        told,
    )


class _Rest:
    """What is still to be read."""

    def __init__(self, packed: bytes) -> None:
        self._packed, self._at = packed, 0

    @property
    def left(self) -> int:
        return len(self._packed) - self._at

    def taken(self, count: int) -> bytes:
        if count > self.left:
            raise ValueError("it ends too early")
        self._at += count
        return self._packed[self._at - count : self._at]

    def number(self) -> int:
        found = 0
        for place in range(NUMBER_BYTES_MAX):
            (byte,) = self.taken(1)
            found |= (byte & 0x7F) << (7 * place)
            if byte < 0x80:
                return found
        raise ValueError("it has a number without an end")

    def bytes(self) -> bytes:
        return self.taken(self.number())

    def text(self) -> str:
        return self.bytes().decode()


def _number(amount: int) -> bytes:
    made: list[int] = []
    for _ in range(NUMBER_BYTES_MAX):
        amount, low = amount >> 7, amount & 0x7F
        made.append(low | (0x80 if amount else 0))
        if not amount:
            return bytes(made)
    raise ValueError("a number is too large to be kept in a name")


def _bytes(content: bytes | Sequence[int]) -> bytes:
    return _number(len(content)) + bytes(content)


def _text(text: str) -> bytes:
    return _bytes(text.encode())


def _check(name: str, packed: bytes) -> bytes:
    return hashlib.sha256(name.encode() + b"\0" + packed).digest()[:CHECK_BYTES]
