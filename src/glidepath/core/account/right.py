"""The right to run, looked at again while a job runs: who it belongs to, what it draws from, what it mounts.

A job and what is known of rights come in; why it may not go on, and when it ends, goes out. Rights that could
not be looked at bar nobody: there is no action on doubt.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from glidepath.core.account.wallet import Purse, Tree, dry_above
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


@dataclass(frozen=True, slots=True)
class Bar:
    """Why a job may not begin, and from when on it may not go on."""

    lost: Lost
    why: str
    ends_at: Instant


def bar(claim: Claim, rights: Rights, now: Instant) -> Bar | None:
    """The first right that is missing; those that leave no time come first."""
    project = claim.project
    if project in rights.closed:
        return Bar(Lost.CLOSED, f"the project `{project}` is closed", now)
    if project and rights.members is not None:
        found = rights.members.get(project)
        if found is not None and claim.owner not in found:
            return Bar(
                Lost.MEMBER, f"`{claim.owner}` does not belong to the project `{project}` any more", now
            )
    for mount in claim.mounts:
        if why := _withheld(mount, claim, rights):
            return Bar(Lost.VOLUME, why, now)
    dry = dry_above(rights.tree, rights.purses, project)
    if dry is None:
        return None
    since = rights.dry_since.get(dry.project, now)
    who = f"the project `{dry.project}`"
    above = "" if dry.project == project else f", which `{project}` draws from,"
    return Bar(Lost.DRY, f"{who}{above} has nothing left to spend", Instant(since + rights.dry_grace_s))


def _withheld(mount: Mount, claim: Claim, rights: Rights) -> str:
    if rights.volumes is None:
        return ""
    rule = rights.volumes.get(mount.name)
    if rule is None:
        return f"there is no volume `{mount.name}` any more"
    if not rule.lets(claim.owner, claim.project):
        return f"the volume `{mount.name}` is not for `{claim.owner}` any more"
    if rule.read_only and not mount.read_only:
        return f"the volume `{mount.name}` can only be read by now, and the job may write to it"
    return ""
