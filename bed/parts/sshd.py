"""A login node and nothing else: for those who come in by ssh, with a key or with a second factor."""

from __future__ import annotations

from typing import ClassVar

from bed.parts.batch_site import BatchPart, Daemon, Site
from bed.trouble import Trouble


class Login(Site):
    """One login node without a batch system."""

    def daemon(self, name: str) -> Daemon:
        raise Trouble(f"a login node has no `{name}`")

    def answers(self, daemon: str) -> bool:
        return True


class Sshd(BatchPart):
    """The part of the bed; `Login` is one instance of it."""

    name: ClassVar[str] = "sshd"
    site: ClassVar[type[Site]] = Login


Login.part = Sshd()
