"""What `glidepath doctor` finds between here and a pool of HTCondor, one sentence each and what to do.

The settings and a way to ask children come in, findings go out. Every question has a deadline, one bad answer
never hides the others, and nothing is changed: a token that is minted to be tried is thrown away.
"""

from __future__ import annotations

import hashlib
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Protocol

from glidepath.condor.client import environment
from glidepath.condor.reach import known_names, shown, told
from glidepath.condor.settings import CondorSettings
from glidepath.condor.tokens import RIGHTS, WARN_S, Supplied, claims_of, files_in, lapsed, looked_at
from glidepath.condor.trust import Rule, Schedd, fits, judged
from glidepath.condor.worker import Workers
from glidepath.core.quantity import PoolName
from glidepath.core.text import nearest, one_line
from glidepath.core.units import shown_duration
from glidepath.ports import WORLD_ERRORS, Finding

COLLECTOR = "collector"
CLOCK_S_MAX = 60
# Each has a child of its own while it is asked; more than this would be a load that nobody asked for.
SCHEDDS_ASKED_MAX = 32
AT_ONCE_MAX = 8
NAMES_SHOWN_MAX = 5
FILES_SHOWN_MAX = 20
TAR_BYTES_MAX = 2 << 30
PIECE = 1 << 20
NOT_NAMED = "no entry of `schedds` fits its name"  # as `trust` says it
MISSING = "binding is not installed"  # as the child says it

Ask = Callable[[str, Mapping[str, Any]], dict[str, Any]]
# The address of the collector and a folder with one token come in; whom it takes its bearer for goes out.
Rights = Callable[[str, Path], Mapping[str, str]]


class Trial(Protocol):
    """What is asked about the tokens of pilots."""

    @property
    def identity(self) -> str: ...

    @property
    def minted(self) -> bool: ...

    @property
    def mint(self) -> str: ...

    def supplied(self) -> tuple[Supplied, ...]: ...

    def trial(self) -> str: ...


class Checkup:
    """One look at one pool."""

    def __init__(
        self,
        pool: PoolName,
        settings: CondorSettings,
        ask: Ask,
        tokens: Trial,
        *,
        rights: Rights | None = None,
        neighbours: Sequence[str] = (),
        furnished: bool = False,
        known: Callable[[], Iterable[str]] = known_names,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self.pool, self.settings, self._ask, self._tokens = pool, settings, ask, tokens
        self._rights = rights or (lambda address, folder: rights_with(settings, address, folder))
        self._neighbours, self._known, self._wall = neighbours, known, wall
        self._furnished = furnished

    def findings(self) -> tuple[Finding, ...]:
        found = list(self._binding())
        located: dict[str, Any] = {}
        if found[0].verdict == "ok":
            found += self._collector(located)
        if located:
            found += [*self._schedds(), *self._domain(located)]
        found += self._own_tokens()
        if self._furnished and self._minted():
            said = "every site has it already, so none is made here; whether it is good cannot be seen"
            found.append(self._one("pilot token", "ok", said))
        else:
            found += [*self._pilot_tokens(), *self._advertise(located)]
        return (*found, *self._sources())

    def _one(self, check: str, verdict: str, found: str, fix: str = "") -> Finding:
        return Finding(f"pool {self.pool}: {check}", verdict, found, fix)

    def _binding(self) -> Iterator[Finding]:
        try:
            version = self._ask(COLLECTOR, {"ask": "binding"})["version"]
        except WORLD_ERRORS as error:
            fix = "pip install 'glidepath[htcondor]'" if MISSING in str(error) else ""
            yield self._one("binding", "fail", str(error), fix)
            return
        yield self._one("binding", "ok", f"HTCondor's own, version {one_line(version)}")

    def _collector(self, located: dict[str, Any]) -> Iterator[Finding]:
        """What it says goes into `located`; nothing does where it does not answer."""
        question = {"ask": "located", "collector": self.settings.collector}
        try:
            located.update(self._ask(COLLECTOR, question))
        except WORLD_ERRORS as error:
            found, fix = self.unreached(error)
            yield self._one("collector", "fail", found, fix)
            return
        took = f"{located['took_s'] * 1000:.0f} ms"
        version = one_line(located["version"]) or "an unknown version"
        at = shown(self.settings.collector)
        yield self._one("collector", "ok", f"{at} answers in {took}, HTCondor {version}")

    def unreached(self, error: Exception) -> tuple[str, str]:
        """What is wrong between here and the collector, and what to do."""
        try:
            answer = self._ask(COLLECTOR, {"ask": "reach", "collector": self.settings.collector})
        except WORLD_ERRORS:
            fix = "a name service or a machine on the way does not answer; try `getent hosts` and `telnet`"
            return f"{shown(self.settings.collector)} cannot be reached: {error}", fix
        return told(answer["tried"], (*self._neighbours, *self._known()))

    # Schedds.

    def _schedds(self) -> Iterator[Finding]:
        try:
            answer = self._ask(COLLECTOR, {"ask": "schedds", "collector": self.settings.collector})
        except WORLD_ERRORS as error:
            yield self._one("schedds", "fail", str(error), "the collector answers other questions; ask again")
            return
        listed = [Schedd(*row) for row in answer["schedds"]]
        rules = tuple(Rule(each.name, each.identity) for each in self.settings.schedds)
        trusted, refused = judged(listed, rules)
        yield self._listed(listed, trusted)
        yield from self._misnamed(rules, [schedd.name for schedd in listed])
        left_out = sorted({schedd.name for schedd in listed} - {schedd.name for schedd in trusted})
        fix = "admit it by name and identity in `schedds`, if it is one of the pool's own"
        for name in left_out[:FILES_SHOWN_MAX]:
            whose = f"schedd `{one_line(name)}` "
            why = next((text for text in refused if text.startswith(whose) and NOT_NAMED not in text), "")
            if why:  # One that is not named is left out on purpose.
                yield self._one(f"schedd {one_line(name)}", "warn", why.removeprefix(whose), fix)
        yield from self._each(trusted)

    def _listed(self, listed: Sequence[Schedd], trusted: Sequence[Schedd]) -> Finding:
        if not listed:
            fix = "is one up, and does the collector admit it (`ALLOW_ADVERTISE_SCHEDD`)?"
            return self._one("schedds", "fail", "the collector lists no schedd, so no job is seen", fix)
        counted = f"{len(listed)} listed, {len(trusted)} asked"
        if not trusted:
            fix = "mend `schedds`, see `glidepath pool status` for why each is left out"
            return self._one("schedds", "fail", f"{counted}, so no job is seen", fix)
        return self._one("schedds", "ok", counted)

    def _misnamed(self, rules: Iterable[Rule], names: Sequence[str]) -> Iterator[Finding]:
        for rule in rules:
            if not names or any(fits(rule.name, name, ignore_case=True) for name in names):
                continue
            near = nearest(rule.name, names)
            some = ", ".join(f"`{one_line(name)}`" for name in sorted(names)[:NAMES_SHOWN_MAX])
            fix = f"did you mean `{one_line(near)}`?" if near else f"listed are: {some}"
            found = f"`schedds` names `{one_line(rule.name)}`, and the collector lists no such"
            yield self._one(f"schedd {one_line(rule.name)}", "fail", found, fix)

    def _each(self, trusted: Sequence[Schedd]) -> Iterator[Finding]:
        asked = trusted[:SCHEDDS_ASKED_MAX]
        with ThreadPoolExecutor(AT_ONCE_MAX) as threads:
            for schedd, answer in zip(asked, threads.map(self._asked, asked), strict=True):
                yield from self._answered(schedd, answer)
        if len(trusted) > len(asked):
            yield self._one("schedds", "ok", f"{len(trusted) - len(asked)} more were not asked now")

    def _asked(self, schedd: Schedd) -> dict[str, Any] | str:
        try:
            return self._ask(f"schedd {schedd.name}", {"ask": "clock", "address": schedd.address})
        except WORLD_ERRORS as error:
            return str(error)

    def _answered(self, schedd: Schedd, answer: dict[str, Any] | str) -> Iterator[Finding]:
        name = f"schedd {one_line(schedd.name)}"
        if isinstance(answer, str):
            fix = f"is it up, and can {one_line(schedd.address)} be reached from here and read by us?"
            yield self._one(name, "fail", answer, fix)
            return
        took, ahead_s = f"answers in {answer['took_s'] * 1000:.0f} ms", answer["ahead_s"]
        if ahead_s is None:
            yield self._one(name, "ok", f"{took}; it does not tell its time")
            return
        which = "ahead of" if ahead_s > 0 else "behind"
        if abs(ahead_s) > CLOCK_S_MAX:
            fix = "set both clocks by NTP; tokens and the ends of pilots go by them"
            yield self._one(
                name, "warn", f"{took}, and its clock is {abs(ahead_s)} s {which} this machine's", fix
            )
            return
        yield self._one(name, "ok", f"{took}; its clock agrees with ours within {CLOCK_S_MAX} s")

    # Tokens.

    def _domain(self, located: Mapping[str, Any]) -> Iterator[Finding]:
        ours, theirs = self.settings.trust_domain, one_line(located["trust_domain"])
        if ours and theirs and ours != theirs:
            found = f"the pool says `{theirs}`, the settings say `{one_line(ours)}`"
            yield self._one("trust domain", "fail", found, f'write `trust_domain = "{theirs}"`')
        elif theirs and not ours:
            found = "not set, so pilots of every domain are believed and none can be minted"
            yield self._one("trust domain", "warn", found, f'write `trust_domain = "{theirs}"`')
        elif ours:
            yield self._one("trust domain", "ok", one_line(ours))

    def _own_tokens(self) -> Iterator[Finding]:
        folder = self.settings.token_folder
        if not folder:
            return
        try:
            paths = files_in(folder)
        except RuntimeError as error:
            yield self._one("own token", "fail", str(error), "mend `token_folder` or its permissions")
            return
        if not paths:
            yield self._one("own token", "fail", f"`{folder}` is empty", "put the token for reading there")
        files = [looked_at(path, lambda token: lapsed(token, self._wall())) for path in paths]
        yield from self._files("own token", files)

    def _pilot_tokens(self) -> Iterator[Finding]:
        if self._minted():
            return  # Whether one can be made shows when it is tried.
        try:
            files = self._tokens.supplied()
        except RuntimeError as error:
            yield self._one("pilot token", "fail", str(error), "mend `tokens` or its permissions")
            return
        yield from self._files("pilot token", files)

    def _minted(self) -> bool:
        try:
            return self._tokens.minted
        except RuntimeError:
            return False

    def _files(self, kind: str, files: Sequence[Supplied]) -> Iterator[Finding]:
        good = [file for file in files if not file.trouble]
        for file in files[:FILES_SHOWN_MAX]:
            check = f"{kind} {one_line(file.path.name)}"
            left_s = None if file.ends_at is None else int(file.ends_at - self._wall())
            if file.trouble:
                yield self._one(
                    check, "warn" if good else "fail", file.trouble, "put a good one in its place"
                )
            elif file.exposed:
                yield self._one(check, "warn", f"`{file.path}` is open to others", f"chmod 600 {file.path}")
            elif left_s is not None and left_s < WARN_S:
                yield self._one(
                    check, "warn", f"`{file.path}` expires in {shown_duration(left_s)}", "renew it"
                )
            else:
                lasts = "without end" if left_s is None else f"for {shown_duration(left_s)}"
                yield self._one(check, "ok", f"`{file.path}` is good {lasts}")

    def _advertise(self, located: Mapping[str, Any]) -> Iterator[Finding]:
        """A token such as a pilot gets is shown to the collector: nothing else tells what it would say."""
        try:
            token = self._tokens.trial()
            claims = claims_of(token)
        except (RuntimeError, ValueError) as error:
            fix = "pilots could not join; see `tokens` and `trust_domain`"
            if not self.settings.trust_domain:
                fix = "write the pool's TRUST_DOMAIN as `trust_domain`"
            elif self._minted():
                fix += f", and run `{one_line(self._tokens.mint)}` here as the user of glidepath"
            yield self._one("pilot token", "fail", str(error), fix)
            return
        who = one_line(claims.identity)
        if self._minted():
            yield self._one("pilot token", "ok", f"`{one_line(self._tokens.mint)}` mints for `{who}`")
        if not located:
            found = f"not known whether `{who}` may advertise: the collector does not answer"
            yield self._one("advertise", "warn", found, "mend that first")
            return
        try:
            granted = self._granted(located["address"], token)
        except WORLD_ERRORS as error:
            yield self._one(
                "advertise", "warn", f"not known whether `{who}` may advertise: {error}", _BY_HAND
            )
            return
        yield self._admitted(who, granted)

    def _granted(self, address: str, token: str) -> Mapping[str, str]:
        with tempfile.TemporaryDirectory(prefix="glidepath-doctor-") as folder:
            path = Path(folder) / "token"
            path.touch(mode=0o600)
            path.write_text(token + "\n", encoding="ascii")
            return self._rights(address, Path(folder))

    def _admitted(self, who: str, granted: Mapping[str, str]) -> Finding:
        refused = [right for right in RIGHTS if not granted.get(right)]
        others = sorted({one_line(name) for name in granted.values() if name} - {who})
        if not refused and others:
            found = f"the collector takes a bearer of the token of `{who}` for {', '.join(others)}"
            return self._one("advertise", "warn", found, "pilots would be ignored; look at its maps of names")
        if not refused:
            return self._one("advertise", "ok", f"`{who}` may use {' and '.join(RIGHTS)}")
        if not granted.get("READ"):
            found = f"the collector does not accept the token of `{who}`"
            fix = (
                "is it signed with a key that the collector has, and not withdrawn? its CollectorLog says why"
            )
            return self._one("advertise", "fail", found, fix)
        lines = " and ".join(f"`ALLOW_{right}`" for right in refused)
        found = f"the collector accepts `{who}` and does not let it use {' and '.join(refused)}"
        fix = f"add `{one_line(self._tokens.identity)}` to {lines} there, then `condor_reconfig`"
        return self._one("advertise", "fail", found, fix)

    # HTCondor for pilots.

    def _sources(self) -> Iterator[Finding]:
        settings = self.settings
        if settings.tarballs:
            for system, each in sorted(settings.tarballs.items()):
                yield self._source(f"HTCondor for {one_line(system)}", each.source, each.sha256)
        elif settings.htcondor in ("machine", "container"):
            found = "pilots use what their machine or container has; that cannot be seen from here"
            yield self._one("HTCondor of pilots", "ok", found)
        else:
            yield self._source("HTCondor of pilots", settings.htcondor, "")

    def _source(self, check: str, source: str, sha256: str) -> Finding:
        at = f"`{one_line(source)}`"
        if source.startswith(("http://", "https://")):
            try:
                trouble = self._ask(COLLECTOR, {"ask": "address", "address": source})["trouble"]
            except WORLD_ERRORS as error:
                trouble = str(error)
            if trouble:
                found = f"{at} cannot be fetched from here: {one_line(trouble)}"
                return self._one(
                    check, "fail", found, "pilots fetch it from their own machines; is it there?"
                )
            return self._one(check, "ok", f"{at} is there")
        return self._local(check, Path(source), sha256)

    def _local(self, check: str, path: Path, sha256: str) -> Finding:
        at = f"`{one_line(str(path))}`"
        try:
            if path.is_dir() or (path.is_file() and not sha256):
                return self._one(check, "ok", f"{at} is here; pilots need it on their own machine too")
            if not path.is_file():
                found = f"{at} is not on this machine; pilots look for it on theirs"
                return self._one(check, "warn", found, "look on a worker, or give an address")
            digest = _sum_of(path)
        except OSError as error:
            return self._one(check, "fail", f"{at} cannot be read: {error.strerror}", "mend its permissions")
        if digest != sha256:
            fix = "write the checksum that `sha256sum` prints, or put the right tarball there"
            return self._one(check, "fail", f"{at} has another checksum, so no pilot would unpack it", fix)
        return self._one(check, "ok", f"{at} is here, with its checksum; pilots need it on their machine too")


_BY_HAND = (
    "with that token in a folder, `_CONDOR_SEC_TOKEN_DIRECTORY=FOLDER condor_ping -type collector "
    "ADVERTISE_STARTD ADVERTISE_MASTER` tells"
)


def _sum_of(path: Path) -> str:
    """Of what a pilot would take at most; a larger one has another sum."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        for _ in range(TAR_BYTES_MAX // PIECE):
            piece = file.read(PIECE)
            if not piece:
                break
            digest.update(piece)
    return digest.hexdigest()


def rights_with(settings: CondorSettings, address: str, folder: Path) -> Mapping[str, str]:
    """Asks in a child of its own that knows this token and no other."""
    told_to = environment(settings.collector, token_folder=str(folder), methods="IDTOKENS")
    nowhere = folder / "none"
    alone = {
        "SEC_CLIENT_AUTHENTICATION": "REQUIRED",
        # What root could use besides: tokens of daemons, and the pool's own key.
        "SEC_TOKEN_SYSTEM_DIRECTORY": str(nowhere),
        "SEC_PASSWORD_DIRECTORY": str(nowhere),
        "SEC_TOKEN_POOL_SIGNING_KEY_FILE": str(nowhere / "POOL"),
    }
    workers = Workers({**told_to, **{f"_CONDOR_{name}": value for name, value in alone.items()}})
    question = {"ask": "rights", "address": address, "rights": ["READ", *RIGHTS]}
    try:
        answer = workers.ask(COLLECTOR, question, limit_s=float(settings.deadline))
    finally:
        workers.close()
    granted: Mapping[str, str] = answer["granted"]
    return granted
