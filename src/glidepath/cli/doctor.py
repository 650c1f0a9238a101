"""`glidepath doctor`: everything that glidepath depends on, one line each with a verdict and a fix.

Each check is a function from the place to a `Finding`; one that fails never stops the others. It changes
nothing: a home that is not there is reported, not made.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, ClassVar

from glidepath.cli.output import Reader
from glidepath.cli.session import Located, located
from glidepath.cli.verb import Answer, Column, Exit, Noun, Options, Stop
from glidepath.cli.where import where
from glidepath.ports import Finding

if TYPE_CHECKING:
    from pathlib import Path

    from glidepath.journal.entry import Entry
    from glidepath.ports import Place

PYTHON_MIN = (3, 11)
DISK_FREE_MIB_MIN = 512
CLOCK_DRIFT_S_MAX = 1.0
CLOCK_LOOK_S = 0.05


COLUMNS = (
    Column("CHECK", lambda item: item["name"]),
    Column("VERDICT", lambda item: item["verdict"]),
    Column("FOUND", lambda item: item["found"] + (f"; {item['fix']}" if item["fix"] else "")),
)


class Doctor(Reader):
    """Check everything that glidepath depends on; exits with 1 when something fails"""

    options: ClassVar[Options] = Reader.options

    def run(self) -> int:
        self.failed = False
        code = super().run()
        return Exit.FAILED if self.failed else code

    def answer(self) -> Answer:
        from glidepath.cli.doctor_clusters import clusters
        from glidepath.cli.doctor_people import provider
        from glidepath.cli.doctor_reach import unreached

        found = [python()]
        place = where(self.caller.environ, home=self.given["home"], config=self.given["config"])
        found += [home(place.home), disk(place.home), status_socket(place.home), clock()]
        try:
            settled = located(self)
            shown = str(place.config) if place.config else "none, the embedded default is used"
            found.append(Finding("configuration", "ok", shown))
            found += warnings(settled)
            found += [store(settled), plugins(), postgresql(settled), pilots(settled, self.caller.wall())]
            found += [*pools(settled), *sites(settled), *clusters(settled)]
            found += [*unreached(settled.settings, self.caller.environ), *offers(settled)]
            found += provider(settled.settings)
        except Stop as stop:
            found.append(
                Finding("configuration", "fail", str(stop), "`glidepath config check` names each problem")
            )
        self.failed = any(one.verdict == "fail" for one in found)
        return Answer("FindingList", tuple(asdict(one) for one in found), COLUMNS)


def python() -> Finding:
    version = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info < PYTHON_MIN:
        return Finding("python", "fail", version, "install Python 3.11 or later")
    return Finding("python", "ok", version)


def home(path: Path) -> Finding:
    """The home names users and their jobs: it must be ours, and others must not write there."""
    try:
        about = path.stat()
    except FileNotFoundError:
        near = next(parent for parent in path.parents if parent.exists())
        if os.access(near, os.W_OK):
            return Finding("home", "ok", f"`{path}` is not there yet; `glidepath up` makes it")
        return Finding("home", "fail", f"`{path}` cannot be made in `{near}`", "choose another with `--home`")
    except OSError as error:
        return Finding("home", "fail", f"`{path}`: {error.strerror}", "choose another with `--home`")
    if not stat.S_ISDIR(about.st_mode):
        return Finding("home", "fail", f"`{path}` is not a folder", "choose another with `--home`")
    if not os.access(path, os.W_OK | os.X_OK):
        return Finding(
            "home", "fail", f"`{path}` cannot be written", "mend its permissions or choose another"
        )
    if about.st_uid != os.getuid():
        return Finding("home", "warn", f"`{path}` belongs to uid {about.st_uid}", "use a home of your own")
    if about.st_mode & 0o022:
        return Finding("home", "warn", f"`{path}` can be written by others", f"chmod go-w {path}")
    return Finding("home", "ok", str(path))


def disk(path: Path) -> Finding:
    import shutil

    near = next(parent for parent in (path, *path.parents) if parent.exists())
    free_mib = shutil.disk_usage(near).free // 1024**2
    if free_mib < DISK_FREE_MIB_MIN:
        return Finding(
            "disk", "warn", f"{free_mib} MiB free at `{near}`", "a full disk stops all actions; make room"
        )
    return Finding("disk", "ok", f"{free_mib} MiB free")


def status_socket(home: Path) -> Finding:
    """The kernel bounds the address of a socket; a longer home costs only the status from memory."""
    from glidepath.status import PATH_BYTES_MAX, socket_path

    length = len(os.fsencode(socket_path(home)))
    if length > PATH_BYTES_MAX:
        fix = "with the store full there is then no status; choose a shorter home"
        return Finding("socket path", "warn", f"{length} bytes, {PATH_BYTES_MAX} are allowed", fix)
    return Finding("socket path", "ok", f"{length} of {PATH_BYTES_MAX} bytes")


def clock() -> Finding:
    """Wall and steady time must run alike; where they do not, somebody is stepping the clock."""
    import time

    before = time.time() - time.monotonic()
    time.sleep(CLOCK_LOOK_S)
    drift_s = abs(time.time() - time.monotonic() - before)
    if drift_s > CLOCK_DRIFT_S_MAX:
        return Finding(
            "clock", "warn", f"the wall clock jumped by {drift_s:.1f} s", "is time being set by hand?"
        )
    return Finding("clock", "ok", "wall and steady time agree")


def store(place: Located) -> Finding:
    from glidepath.store.engine import StoreError, open_store
    from glidepath.store.migrations import KNOWN, version

    file = place.store_file
    if file is not None and not file.exists():
        return Finding("store", "ok", f"`{file}` is not there yet; `glidepath up` makes it")
    try:
        with open_store(place.store_url, read_only=True) as opened:
            number = version(opened)
    except StoreError as error:
        return Finding("store", "fail", str(error), "")
    if number > KNOWN:
        return Finding("store", "fail", f"of version {number}, known is {KNOWN}", "upgrade glidepath")
    if number < KNOWN:
        return Finding(
            "store", "warn", f"of version {number}", f"`glidepath up` brings it to version {KNOWN}"
        )
    return Finding("store", "ok", f"opens, version {number}")


def plugins() -> Finding:
    from glidepath.plugins import GROUPS, Installed, PluginError

    catalog, broken, good = Installed(), [], 0
    for group in GROUPS:
        for name in catalog.names(group):
            try:
                catalog.load(group, name)
                good += 1
            except PluginError as error:
                broken.append(str(error))
    if broken:
        return Finding("plug-ins", "fail", "; ".join(broken), "mend or uninstall them")
    if not good:
        return Finding(
            "plug-ins", "fail", "none is installed", "install glidepath with pip, not by copying it"
        )
    return Finding("plug-ins", "ok", f"{good} load")


def postgresql(place: Located) -> Finding:
    from importlib.util import find_spec

    if place.store_file is not None:
        return Finding("postgresql", "ok", "not asked for")
    if find_spec("psycopg") is None:
        return Finding("postgresql", "fail", "`psycopg` is missing", "pip install 'glidepath[postgresql]'")
    return Finding("postgresql", "ok", "`psycopg` is there")


def last_cycle(place: Located) -> Entry | None:
    """None where there is none yet; raises StoreError where it cannot be read."""
    from glidepath.journal.journal import Journal
    from glidepath.store.engine import open_store
    from glidepath.store.migrations import migrate

    file = place.store_file
    if file is not None and not file.exists():
        return None
    with open_store(place.store_url, read_only=True) as opened:
        migrate(opened)
        return Journal(opened).latest()


def pilots(place: Located, wall: float) -> Finding:
    """Pilots that the journal still counts as alive although nobody has looked for a while."""
    from glidepath.cli.view import LATE_S_MAX, scene_of
    from glidepath.store.engine import StoreError

    try:
        entry = last_cycle(place)
    except StoreError as error:
        return Finding("pilots", "warn", str(error))
    if entry is None:
        return Finding("pilots", "ok", "none")
    scene = scene_of(entry, wall)
    late = scene.age_s > entry.plan.wake_after_s + LATE_S_MAX
    if scene.tracks and late:
        found = f"{len(scene.tracks)} may still be alive, nobody has looked for {scene.age_s} s"
        return Finding("pilots", "warn", found, "`glidepath up` finds them again by label")
    return Finding("pilots", "ok", f"{len(scene.tracks)} on the books")


def offers(place: Located) -> Iterator[Finding]:
    """Offers whose pilots fail, in the words of the last one: what a site cannot say before it has tried."""
    from glidepath.cli.view import scene_of
    from glidepath.store.engine import StoreError

    try:
        entry = last_cycle(place)
    except StoreError:
        return  # That is said of the pilots already.
    if entry is None:
        return
    known = entry.rules.offers()
    for health in scene_of(entry, entry.moment.wall_s).after.health:
        if health.failures and health.about in known:
            many = "pilot has" if health.failures == 1 else "pilots have"
            found = f"{health.failures} {many} failed since the last that joined: {health.why}"
            fix = f"`glidepath explain {health.about}` tells what is done about it"
            yield Finding(f"offer {health.about}", "warn", found, fix)


def warnings(place: Located) -> Iterator[Finding]:
    """What a good configuration says and hardly means."""
    from glidepath.config import warnings_of
    from glidepath.config.problems import shown_key

    for found in warnings_of(place.settings):
        yield Finding(f"configuration {shown_key(found.loc)}", "warn", found.message, found.hint)


def pools(place: Located) -> Iterator[Finding]:
    """What each pool that can be looked over finds; one that is stuck ends in its own deadline."""
    from glidepath.assembly import pools_of
    from glidepath.config import terms_of
    from glidepath.plugins import PluginError
    from glidepath.ports import WORLD_ERRORS, Checked, Place

    here = Place(place.where.home, place.store_url, terms=terms_of(place.settings))
    try:
        made = pools_of(place.settings, here)
    except PluginError as error:
        yield Finding("pools", "fail", str(error), "mend or uninstall it")
        return
    with_tokens = furnished_pools(place, here)
    for name, pool in made.items():
        if not isinstance(pool, Checked):
            continue
        others = [
            table.own.get("collector") for other, table in place.settings.pools.items() if other != name
        ]
        near = tuple(host.strip() for text in others if isinstance(text, str) for host in text.split(","))
        try:
            yield from pool.checkup(near, furnished=name in with_tokens)
        except WORLD_ERRORS as error:
            yield Finding(f"pool {name}", "fail", str(error))
        finally:
            pool.close()


def furnished_pools(place: Located, here: Place) -> set[str]:
    """Pools that need make no token: every offer that serves them is of a site that has one."""
    from glidepath.assembly import backends_of
    from glidepath.config import rules_of
    from glidepath.ports import Furnished

    backends = backends_of(place.settings, here)
    found: dict[str, bool] = {}
    for site in rules_of(place.settings).sites:
        backend = backends.get(site.name)
        for offer in site.offers:
            there = isinstance(backend, Furnished) and backend.furnished(offer.key)
            for pool in site.pools or place.settings.pools:
                found[pool] = found.get(pool, True) and there
    return {str(pool) for pool, there in found.items() if there}


def sites(place: Located) -> Iterator[Finding]:
    """The same for sites; one that could not be made says why."""
    from glidepath.assembly import Broken, backends_of
    from glidepath.config import rules_of, terms_of
    from glidepath.ports import WORLD_ERRORS, CheckedSite, Place

    here = Place(place.where.home, place.store_url, terms=terms_of(place.settings))
    rules = rules_of(place.settings)
    for name, backend in backends_of(place.settings, here).items():
        if isinstance(backend, Broken):
            yield Finding(f"site {name}", "fail", backend.why, "mend what it names; no pilot starts there")
        if not isinstance(backend, CheckedSite):
            continue
        of_it = tuple(offer for offer in rules.offers().values() if offer.site == name)
        try:
            yield from backend.checkup(of_it)
        except WORLD_ERRORS as error:
            yield Finding(f"site {name}", "fail", str(error))
        finally:
            backend.close()


NOUN = Noun("doctor", {"": Doctor})
