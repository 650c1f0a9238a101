"""The parts of the bed: what a part must be able to do, and the table of those that there are.

One file per part. A part decides from the facts of a machine whether it can be hosted, builds what it needs
into the cache, and starts and stops instances. Parts do not know each other.
"""

from __future__ import annotations

from typing import Protocol

from bed.cache import Say
from bed.machine import Machine
from bed.place import Instance, Place
from bed.running import State


class Part(Protocol):
    """One kind of server."""

    @property
    def name(self) -> str: ...

    def obstacles(self, machine: Machine, place: Place) -> list[str]:
        """Why this machine cannot host it, one reason each; nothing where it can."""

    def prepared(self, place: Place) -> bool:
        """Whether everything that it needs is in the cache."""

    def lacking(self, place: Place) -> list[str]:
        """What could not be had when it was prepared, one sentence each; it works without."""

    def prepare(self, machine: Machine, place: Place, say: Say) -> None:
        """Puts what it needs into the cache; nothing to do where it is there."""

    def up(self, instance: Instance, say: Say, port: int) -> State:
        """Starts an instance that is prepared and not up; 0 is any free port."""

    def down(self, instance: Instance) -> None:
        """Ends what runs of an instance. Its folder and what is left are looked after by the caller."""
