"""Why ssh did not get through: its own words come in, one sentence with what to do comes out, and how bad it
would be to try again soon.

It touches nothing. Words that it does not know are shown as they are.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

from glidepath.core.text import one_line
from glidepath.remote.settings import SshSettings


class Kind(Enum):
    """What the next attempt may cost."""

    DENIED = "denied"  # a failed login, of which a server allows only so many
    STRANGE = "strange"  # the host's key is not the one that is known; nobody logged in
    UNREACHED = "unreached"  # nothing but time


@dataclass(frozen=True, slots=True)
class Trouble:
    kind: Kind
    why: str  # with what to do about it


# ssh says it in brackets after the methods that are left; a file that may not be read is another matter.
_DENIED = re.compile(
    r"Permission denied \(|Too many authentication failures|Authentication failed|No more auth"
)
_UNKNOWN_KEY = re.compile(r"No (?:\S+ )?host key is known for (\S+)")
_CHANGED_KEY = re.compile(r"[Hh]ost key for (\S+) has changed")
_OFFENDING = re.compile(r"Offending .* in (\S+):\d+")
_REVOKED = re.compile(r"[Hh]ost key .*revoked")
# Said besides the reason, or around it.
_ASIDE = re.compile(r"^(?:Warning:|@{3,}|debug\d:|\*\*)|^\s*$|^Host key verification failed")


def trouble(err: str, settings: SshSettings, *, site: str, waited_s: float | None = None) -> Trouble:
    """`waited_s`: ssh was ended because it gave no answer for so long."""
    host = settings.host
    if found := _CHANGED_KEY.search(err):
        return Trouble(Kind.STRANGE, _changed(host, found[1], err))
    if _REVOKED.search(err):
        return Trouble(Kind.STRANGE, f"the key of the host `{host}` is revoked; ask the people who run it")
    if found := _UNKNOWN_KEY.search(err):
        return Trouble(
            Kind.STRANGE,
            f"the host `{host}` is not known here yet, so nobody logged in; compare its fingerprint with "
            f"what the site publishes, and accept it once with `glidepath site login {site}`",
        )
    if "Host key verification failed" in err:
        return Trouble(
            Kind.STRANGE, f"the key of the host `{host}` could not be verified; try `{by_hand(settings)}`"
        )
    if _DENIED.search(err):
        return Trouble(Kind.DENIED, f"`{host}` refused the login: {last_line(err)}; {_for_login(site)}")
    if waited_s is not None:
        return Trouble(
            Kind.UNREACHED, f"`{host}` let nobody in within {waited_s:.0f} s; try `{by_hand(settings)}`"
        )
    return Trouble(
        Kind.UNREACHED, f"no connection to `{host}`: {last_line(err)}; try `{by_hand(settings)}` by hand"
    )


def last_line(err: str) -> str:
    """What ssh said last that is no ornament."""
    lines = [line for line in err.replace("\r", "\n").splitlines() if not _ASIDE.match(line)]
    return one_line(lines[-1].strip().rstrip(".")) if lines else "ssh says nothing"


def by_hand(settings: SshSettings) -> str:
    """The command that a person would type to get there as glidepath does."""
    words = ["ssh"]
    words += ["-F", settings.config] if settings.config else []
    words += ["-i", settings.identity] if settings.identity else []
    words += ["-J", settings.jump] if settings.jump else []
    words += ["-p", str(settings.port)] if settings.port else []
    words += ["-l", settings.user] if settings.user else []
    return " ".join([*words, settings.host])


def _changed(host: str, name: str, err: str) -> str:
    file = _OFFENDING.search(err)
    where = f" -f {one_line(file[1])}" if file else ""
    return (
        f"the host `{host}` shows another key than the one that is known; it was set up anew, or somebody "
        f"stands between. Nobody logged in. Ask the people who run it, and if it is right forget the old one "
        f"with `ssh-keygen{where} -R '{one_line(name)}'`"
    )


def _for_login(site: str) -> str:
    return (
        f"check `user` and `identity`, then `glidepath site login {site}`; a site that asks for a password "
        'or a second factor needs `login = "person"`'
    )
