"""The right to run, looked at again while a job runs: who it belongs to, what it draws from, what it mounts.

A job and what is known of rights come in; why it may not go on, and when it ends, goes out. Rights that could
not be looked at bar nobody: there is no action on doubt.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from glidepath.core.account.wallet import Purse, Tree, credits, dry_above
from glidepath.core.quantity import Instant


class Lost(StrEnum):
    """Which right is gone. `DRY` alone leaves time: the project may be given more."""

    CLOSED = "closed"
    MEMBER = "member"
    VOLUME = "volume"
    DRY = "dry"


@dataclass(frozen=True, slots=True)
class VolumeRule:
    """Who may mount a volume; nobody named means everybody."""

    owners: frozenset[str] = frozenset()
    projects: frozenset[str] = frozenset()
    read_only: bool = False  # for all

    def lets(self, owner: str, project: str) -> bool:
        if not self.owners and not self.projects:
            return True
        return owner in self.owners or (bool(project) and project in self.projects)


@dataclass(frozen=True, slots=True)
class Mount:
    name: str
    read_only: bool = False


@dataclass(frozen=True, slots=True)
class Claim:
    """What a job lives on."""

    owner: str
    project: str
    mounts: tuple[Mount, ...] = ()


@dataclass(frozen=True, slots=True)
class Rights:
    """What is known of who may do what. None of something: it could not be, or is not, looked at."""

    tree: Tree = field(default_factory=Tree)
    purses: Mapping[str, Purse] = field(default_factory=dict)
    dry_since: Mapping[str, Instant] = field(default_factory=dict)  # by project, of those that are dry
    closed: frozenset[str] = frozenset()  # projects
    members: Mapping[str, frozenset[str]] | None = None  # by project; None where nobody keeps such a list
    volumes: Mapping[str, VolumeRule] | None = None
    dry_grace_s: int = 3600
    dry_stops: bool = True  # whether what runs of a dry project is ended after that


@dataclass(frozen=True, slots=True)
class Bar:
    """Why a job may not begin, and from when on it may not go on."""

    lost: Lost
    why: str
    ends_at: Instant | None = None  # none: not at all, or nobody has said yet from when on it counts


def shut_out(projects: Iterable[str], rights: Rights, now: Instant) -> dict[str, Bar]:
    """Those of the projects whose jobs may not begin, whoever they are of. Of no project is everybody."""
    if not rights.closed and not any(purse.dry for purse in rights.purses.values()):
        return {}
    found = {name: closed_bar(name, rights, now) or dry_bar(name, rights) for name in set(projects) if name}
    return {name: each for name, each in found.items() if each is not None}


def closed_bar(project: str, rights: Rights, now: Instant) -> Bar | None:
    return Bar(Lost.CLOSED, f"the project `{project}` is closed", now) if project in rights.closed else None


def bar(claim: Claim, rights: Rights, now: Instant) -> Bar | None:
    """The first right that is missing; those that leave no time come first."""
    project = claim.project
    if closed := closed_bar(project, rights, now):
        return closed
    if project and rights.members is not None:
        found = rights.members.get(project)
        if found is not None and claim.owner not in found:
            return Bar(
                Lost.MEMBER, f"`{claim.owner}` does not belong to the project `{project}` any more", now
            )
    withheld = None if rights.volumes is None else volume_bar(claim, rights.volumes, now)
    return withheld or dry_bar(project, rights)


def volume_bar(claim: Claim, volumes: Mapping[str, VolumeRule], now: Instant) -> Bar | None:
    """The first of its volumes that it may not mount any more."""
    found = (_withheld(mount, claim, volumes) for mount in claim.mounts)
    return next((Bar(Lost.VOLUME, why, now) for why in found if why), None)


def dry_bar(project: str, rights: Rights) -> Bar | None:
    """Whether the project, or one that it draws from, has nothing left, with the figures."""
    dry = dry_above(rights.tree, rights.purses, project)
    if dry is None:
        return None
    above = "" if dry.project == project else f", which `{project}` draws from,"
    spent = f"{credits(dry.granted - dry.left)} of {credits(dry.granted)} credits are spent"
    why = f"the project `{dry.project}`{above} has nothing left to spend: {spent}"
    since = rights.dry_since.get(dry.project)
    ends_at = None if since is None or not rights.dry_stops else Instant(since + rights.dry_grace_s)
    return Bar(Lost.DRY, why, ends_at)


def _withheld(mount: Mount, claim: Claim, volumes: Mapping[str, VolumeRule]) -> str:
    rule = volumes.get(mount.name)
    if rule is None:
        return f"there is no volume `{mount.name}` any more"
    if not rule.lets(claim.owner, claim.project):
        return f"the volume `{mount.name}` is not for `{claim.owner}` any more"
    if rule.read_only and not mount.read_only:
        return f"the volume `{mount.name}` can only be read by now, and the job may write to it"
    return ""
