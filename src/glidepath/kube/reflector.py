"""Follows one list of a cluster: pages and streams come in, what is there goes out, with an age.

One thread lists, watches, and lists again when the server asks for it, when a stream breaks in a way that
could lose something, and now and then to compare. It never asks more than twice a second, whatever the
server does, and invents nothing: what it could not read is named.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Generic

from glidepath.core.text import one_line
from glidepath.kube.api import Api, SilentError
from glidepath.kube.errors import AccessError, KubeError
from glidepath.kube.shapes import Decoder, Item, Named, Odd, Page

PAGE = 500
PAGES_MAX = 2_000
# A server sends a bookmark about every minute; one that says nothing for longer than this is not there.
SILENT_S_MAX = 75.0
# How long one stream may last, by the server's own clock.
WATCH_S = (240, 300)
# All is listed and compared this often: a stream that lost an event would never tell.
RELIST_S = 600.0
# Between two requests, whatever happens, and the longest rest after failures.
REST_S_MIN, REST_S_MAX = 0.5, 30.0
# A stream that lived this long was a good one.
GOOD_S = 5.0
# While streams fail, everything is listed this often instead.
UNHEARD_S_MAX = 30.0
# Before a list is compared with what a stream told: how long the stream may tell the rest.
HEARD_OUT_S = 1
ODD_KEPT_MAX = 50
# What went away is told for a while, so that whoever looks seldom learns of it.
GONE_S_MAX, GONE_MAX = 600.0, 10_000

WORLD = (OSError, KubeError, AccessError)


@dataclass(frozen=True, slots=True)
class Counts:
    """What has happened so far, for people."""

    lists: int = 0
    watches: int = 0
    events: int = 0
    failures: int = 0
    gone: int = 0  # times that the server no longer had our version
    silent: int = 0  # streams that fell silent
    drift: int = 0  # objects that a list showed otherwise than the stream had said


@dataclass(frozen=True, slots=True)
class Heard(Generic[Item]):
    """What is there, as far as it is known."""

    items: Mapping[str, Item]
    age_s: float  # since the server last spoke of it
    odd: tuple[Odd, ...] = ()
    gone: Mapping[str, Item] = field(default_factory=dict)  # that went away lately, as they were last
    trouble: str = ""  # why nothing has been heard since
    brief: int = 0  # streams in a row that were ended at once
    counts: Counts = field(default_factory=Counts)


class _Relist(Exception):
    """The stream cannot be followed from here; everything is to be listed."""


def by_name(item: Named) -> str:
    return item.metadata.name


def by_place(item: Named) -> str:
    """For lists of all namespaces, in which a name may be there more than once."""
    return f"{item.metadata.namespace}/{item.metadata.name}"


class Reflector(Generic[Item]):
    """Started by the first `heard`; ends with `stop`."""

    def __init__(
        self,
        api: Api,
        path: str,
        shape: type[Item],
        *,
        selector: str = "",
        silent_s: float = SILENT_S_MAX,
        relist_s: float = RELIST_S,
        key: Callable[[Item], str] = by_name,
        chance: random.Random | None = None,
        mono: Callable[[], float] = time.monotonic,
    ) -> None:
        self._api, self._path, self._selector = api, path, selector
        self._decoder = Decoder(shape)
        self._key = key
        self._silent_s, self._relist_s, self._mono = silent_s, relist_s, mono
        self._chance = chance or random.Random()
        self._lock = threading.Lock()
        self._synced = threading.Event()
        self._over = threading.Event()
        self._thread: threading.Thread | None = None
        self._items: dict[str, Item] = {}
        self._odd: dict[str, Odd] = {}
        self._gone: dict[str, tuple[Item, float]] = {}
        self._forgotten: set[str] = set()  # by uid
        self._version = ""
        self._heard_at: float | None = None
        self._listed_at = 0.0
        self._asked_at = -REST_S_MIN
        self._failed = 0  # in a row
        self._brief = 0
        self._flows_since: float | None = None  # the stream that is open now
        self._trouble = "nothing was heard yet"
        self._counts = Counts()

    def heard(self, *, wait_s: float) -> Heard[Item]:
        """What is there. Raises OSError where nothing was heard since the start."""
        self._start()
        self._synced.wait(wait_s)
        with self._lock:
            if self._heard_at is None:
                raise OSError(self._trouble)
            since = self._mono() - GONE_S_MAX
            self._gone = {name: kept for name, kept in self._gone.items() if kept[1] > since}
            return Heard(
                items=dict(self._items),
                age_s=max(0.0, self._mono() - self._heard_at),
                odd=tuple(self._odd.values())[:ODD_KEPT_MAX],
                gone={name: item for name, (item, _) in self._gone.items() if name not in self._items},
                trouble="" if self._flows() else self._trouble,
                brief=0 if self._flows() else self._brief,
                counts=self._counts,
            )

    def count(self, *, wait_s: float) -> int:
        """How many are there, without a copy of them. Raises OSError where nothing was heard yet."""
        self._start()
        self._synced.wait(wait_s)
        with self._lock:
            if self._heard_at is None:
                raise OSError(self._trouble)
            return len(self._items)

    @property
    def events(self) -> int:
        """How much it was told so far: whoever waits for a change compares two of these."""
        return self._counts.events + self._counts.lists

    def seen(self, item: Item) -> None:
        """Takes in the answer to a change of our own, so that it shows at once."""
        with self._lock:
            name = self._key(item)
            known, gone = self._items.get(name), self._gone.get(name)
            if gone is not None and gone[0].metadata.uid == item.metadata.uid:
                return  # The stream was quicker than the answer, and told of its end.
            if known is None or _newer(item, known):
                self._items[name] = item

    def forget(self, name: str, uid: str = "") -> None:
        """It is known that this one goes or went: it is not told again."""
        with self._lock:
            self._gone.pop(name, None)
            if uid:
                if len(self._forgotten) >= GONE_MAX:
                    self._forgotten.clear()
                self._forgotten.add(uid)

    def stop(self) -> None:
        self._over.set()
        self._api.close()

    def _start(self) -> None:
        with self._lock:
            if self._thread is None and not self._over.is_set():
                name = f"follow {self._path}"
                self._thread = threading.Thread(target=self._run, name=name, daemon=True)
                self._thread.start()

    def _run(self) -> None:
        while not self._over.is_set():
            try:
                self._listed()
                self._follow()
            except _Relist:
                continue
            except WORLD as error:
                self._note(error)
                if self._rest(error):
                    return

    def _note(self, error: Exception) -> None:
        with self._lock:
            self._failed += 1
            self._trouble = one_line(str(error) or type(error).__name__)
            self._counts = replace(self._counts, failures=self._counts.failures + 1)

    def _rest(self, error: Exception | None) -> bool:
        """Longer after each failure, by chance so that many of us do not come back at once."""
        longest = min(REST_S_MAX, REST_S_MIN * 2.0 ** min(10, self._failed))
        wait_s = self._chance.uniform(longest / 2, longest)
        if isinstance(error, KubeError) and error.retry_after_s is not None:
            wait_s = max(wait_s, error.retry_after_s)
        return self._over.wait(wait_s)

    def _turn(self) -> None:
        """Before each request: never more than two a second, all failures of the server included."""
        left_s = self._asked_at + REST_S_MIN - self._mono()
        if left_s > 0 and self._over.wait(left_s):
            raise _Relist
        self._asked_at = self._mono()

    def _listed(self) -> None:
        """Everything, page by page. Until the last page is there, what was known before stands."""
        items: dict[str, Item] = {}
        odd: dict[str, Odd] = {}
        first, token = "", ""
        self._turn()
        for _ in range(PAGES_MAX):
            query: dict[str, str | int] = {"limit": PAGE, **self._selected()}
            if token:
                query["continue"] = token
            page: Page[Item] = self._decoder.page(self._api.get(self._path, query))
            items.update((self._key(item), item) for item in page.items)
            odd.update((each.name, each) for each in page.odd)
            first = first or page.meta.resource_version
            token = page.meta.continue_
            if not token:
                break
        else:
            raise KubeError(f"the list has more than {PAGES_MAX} pages")
        self._settle(items, odd, page.meta.resource_version or first)

    def _settle(self, items: dict[str, Item], odd: dict[str, Odd], version: str) -> None:
        drift = self._drift(items, version) if self._version else 0
        with self._lock:
            counts = self._counts
            # What cannot be read any more is known as it was, and named as odd.
            items.update({name: self._items[name] for name in odd if name in self._items})
            for name in self._items.keys() - items.keys():
                self._went(name)
            self._items, self._odd, self._version = items, odd, version
            self._heard_at = self._listed_at = self._mono()
            self._failed, self._trouble = 0, ""
            self._counts = replace(counts, lists=counts.lists + 1, drift=counts.drift + drift)
        self._synced.set()

    def _drift(self, items: Mapping[str, Item], version: str) -> int:
        """How many objects the stream had wrong, once it has told what it still had to tell."""
        try:
            began = self._mono()
            self._stream(for_s=HEARD_OUT_S, until=version)
        except (*WORLD, _Relist):
            return 0  # It could not be heard out: nothing is known of it.
        if self._version != version and self._mono() - began < HEARD_OUT_S / 2:
            return 0  # It was closed early.
        with self._lock:
            known = self._items
            wrong = sum(1 for name, item in items.items() if name not in known or _newer(item, known[name]))
            # What the stream has besides may have come after the list.
            wrong += sum(1 for name, item in known.items() if name not in items and not _after(item, version))
        return wrong

    def _follow(self) -> None:
        """Stream after stream, for as long as nothing can have been lost between them."""
        while not self._over.is_set():
            began = self._mono()
            if began - self._listed_at > self._relist_s * self._chance.uniform(0.9, 1.1):
                raise _Relist
            try:
                events = self._stream(for_s=self._chance.randint(*WATCH_S))
            except KubeError as error:
                if error.gone:
                    self._count("gone")
                    raise _Relist from None
                raise
            except OSError as error:
                if isinstance(error, SilentError):
                    self._count("silent")
                self._note(error)
            else:
                good = events or self._mono() - began > GOOD_S
                self._failed = 0 if good else self._failed + 1
                self._brief = 0 if good else self._brief + 1
            if self._failed and self._rest(None):
                return
            if self._failed and self._unheard_s() > UNHEARD_S_MAX:
                raise _Relist  # Streams that tell nothing prove nothing; a list does.

    def _unheard_s(self) -> float:
        return self._mono() - (self._heard_at or 0.0)

    def _count(self, name: str) -> None:
        with self._lock:
            self._counts = replace(self._counts, **{name: getattr(self._counts, name) + 1})

    def _stream(self, *, for_s: int, until: str = "") -> int:
        """Takes in what the server tells, and says how much that was."""
        self._turn()
        self._count("watches")
        query: dict[str, str | int] = {
            "watch": "1",
            "allowWatchBookmarks": "true",
            "resourceVersion": self._version,
            "timeoutSeconds": for_s,
            **self._selected(),
        }
        events = 0
        live = self._over.is_set
        with self._api.lines(self._path, query, silent_s=self._silent_s, live=lambda: not live()) as lines:
            self._flows_since = self._mono()
            try:
                for line in lines:
                    self._taken(line)
                    events += 1
                    if until and self._version == until:
                        break
            finally:
                self._flows_since = None
        return events

    def _flows(self) -> bool:
        """Whether a stream is open that has stood for a while: that nothing happens is no trouble."""
        since = self._flows_since
        return since is not None and self._mono() - since > GOOD_S

    def _taken(self, line: bytes) -> None:
        event = self._decoder.event(line)
        with self._lock:
            self._heard_at, self._trouble, self._brief = self._mono(), "", 0
            self._counts = replace(self._counts, events=self._counts.events + 1)
            if event.version:
                self._version = event.version
            item, odd = event.item, event.odd
            name = self._key(item) if item is not None else odd.name if odd is not None else ""
            if not name:
                if odd is not None:
                    raise _Relist  # It is of nobody knows whom; a list shows what is left.
                return
            self._odd.pop(name, None)
            if event.kind == "DELETED":
                self._went(name, item)
            elif item is not None:
                # What an answer of our own has shown already is not taken back by an older word.
                known = self._items.get(name)
                if known is None or _newer(item, known):
                    self._items[name] = item
            elif odd is not None:
                self._odd[name] = odd

    def _went(self, name: str, last: Item | None = None) -> None:
        """Seen to be gone, which is more than not to be seen. The server tells how it was at the end."""
        known = self._items.pop(name, None)
        last = last or known
        if last is not None and last.metadata.uid not in self._forgotten and len(self._gone) < GONE_MAX:
            self._gone[name] = (last, self._mono())

    def _selected(self) -> dict[str, str | int]:
        return {"labelSelector": self._selector} if self._selector else {}


def _version(item: Named) -> int:
    try:
        return int(item.metadata.resource_version)
    except ValueError:
        return 0


def _newer(item: Named, known: Named) -> bool:
    return item.metadata.uid != known.metadata.uid or _version(item) > _version(known)


def _after(item: Named, version: str) -> bool:
    return version.isdecimal() and _version(item) > int(version)
