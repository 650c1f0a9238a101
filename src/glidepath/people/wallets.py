"""Wallets of projects: who grants how much, what is below what, and what is left; items or refusals go out.

Those who belong to a project see its wallet, operators all of them; admins change them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from glidepath.clock import iso
from glidepath.core.account.run import MILLIONTHS
from glidepath.core.account.wallet import TreeFlaw, amount_of, credits
from glidepath.core.quantity import Instant
from glidepath.core.text import one_line
from glidepath.jobs.caller import Caller, Role
from glidepath.jobs.errors import Clash, Unusable
from glidepath.jobs.submission import unusable
from glidepath.jobs.values import day_or_wall_of
from glidepath.people.refusing import only, unknown
from glidepath.store.engine import Store
from glidepath.store.people import Full, Missing
from glidepath.store.token_rows import NOTE_LETTERS_MAX
from glidepath.store.wallets import WEIGHT_MAX, BelowZero, Grant, Wallet, WalletStore

Item = dict[str, Any]
GRANT_LASTS = "+365d"
# Until then a database and a calendar can count.
WALL_MAX = 4102444800.0
# Of a project that is not made yet.
NO_WALLET: Item = {"parent": "", "weight": 1, "granted": None, "left": None, "dry": False}


def same_second(wall: float) -> Instant:
    """Instants are those of the wall clock until it jumps."""
    return Instant(int(wall))


@dataclass
class Wallets:
    """The wallets of one store, as a caller may see and change them."""

    store: Store
    wall: Callable[[], float]
    at_wall: Callable[[float], Instant] = same_second

    def __post_init__(self) -> None:
        self._wallets = WalletStore(self.store)

    def items(self) -> dict[str, Item]:
        """What there is to say of each project, for whoever lists them."""
        now = self._now()
        return {name: self._item(wallet, now) for name, wallet in self._wallets.all(now).items()}

    def wallet(self, caller: Caller, name: str) -> Item:
        """One project's, with its allocations."""
        return self._shown(self._seen(caller, name))

    def grant(
        self,
        caller: Caller,
        project: str,
        amount: str,
        *,
        starts: str = "",
        ends: str = GRANT_LASTS,
        note: str = "",
        dry: bool = False,
    ) -> Item:
        """The wallet as it is then."""
        only(caller, Role.ADMIN, "grant what may be spent")
        self._seen(caller, project)
        grant = self._grant(caller, project, amount, times=(starts, ends), note=note)
        if not dry:
            with self._changing():
                self._wallets.grant(grant, wall=self.wall())
        return {**self.wallet(caller, project), "amount": grant.amount / MILLIONTHS}

    def take(self, caller: Caller, project: str, amount: str, *, dry: bool = False) -> Item:
        """Take back what is not spent. The wallet as it is then."""
        only(caller, Role.ADMIN, "take back what may be spent")
        wallet = self._seen(caller, project)
        taken = _amount(amount)
        left = 0 if wallet.purse is None else max(wallet.purse.left, 0)
        if taken > left:
            raise _below_zero(project, taken, left)
        if not dry:
            with self._changing():
                try:
                    self._wallets.take(project, taken, self._now())
                except BelowZero as error:
                    raise _below_zero(project, taken, error.left) from None
        return {**self.wallet(caller, project), "amount": taken / MILLIONTHS}

    def set(
        self,
        caller: Caller,
        project: str,
        *,
        parent: str | None = None,
        weight: int | None = None,
        dry: bool = False,
    ) -> Item:
        """Another project above it, none where that is empty, or another part beside its siblings."""
        only(caller, Role.ADMIN, "say what a project belongs to")
        self._seen(caller, project)
        if parent is None and weight is None:
            raise Unusable("nothing is said to be changed: name a `parent` or a `weight`")
        if weight is not None and not 1 <= weight <= WEIGHT_MAX:
            raise Unusable(f"a weight is from 1 to {WEIGHT_MAX}")
        if parent:
            self._seen(caller, parent)
        with self._changing():
            try:
                self._wallets.set(project, parent=parent, weight=weight, dry=dry)
            except TreeFlaw as error:
                raise Clash(f"{error}; nothing was changed") from None
        item = self.wallet(caller, project)
        said = {"parent": parent, "weight": weight}
        return {**item, **{name: value for name, value in said.items() if value is not None}}

    # What there is.

    def _now(self) -> Instant:
        return self.at_wall(self.wall())

    def _seen(self, caller: Caller, name: str) -> Wallet:
        mine = {
            project: wallet
            for project, wallet in self._wallets.all(self._now()).items()
            if caller.sees_all or project in caller.projects
        }
        if name not in mine:
            raise unknown("project", name, mine)
        return mine[name]

    def _grant(
        self, caller: Caller, project: str, amount: str, *, times: tuple[str, str], note: str
    ) -> Grant:
        """All that is wrong is told at once."""
        wrong: list[tuple[str, str]] = []
        millionths, moments = 0, [self.wall(), self.wall()]
        try:
            millionths = amount_of(amount)
        except ValueError as error:
            wrong.append(("amount", str(error)))
        for at, (name, text) in enumerate(zip(("starts", "ends"), times, strict=True)):
            try:
                moments[at] = day_or_wall_of(text, wall=self.wall()) if text else self.wall()
            except ValueError as error:
                wrong.append((name, str(error)))
        starts_wall, ends_wall = moments
        if not wrong and not starts_wall < ends_wall <= WALL_MAX:
            wrong.append(("ends", f"must be later than `starts`, and at most {iso(WALL_MAX)}"))
        if not wrong and ends_wall <= self.wall():
            wrong.append(("ends", "has passed already, so that nothing could be spent"))
        if len(note) > NOTE_LETTERS_MAX or not (note.isprintable() or not note):
            wrong.append(("note", f"must be one printable line of at most {NOTE_LETTERS_MAX} letters"))
        if wrong:
            raise unusable(tuple(wrong))
        span = self.at_wall(starts_wall), self.at_wall(ends_wall)
        return Grant(project, millionths, *span, caller.name, note)

    def _item(self, wallet: Wallet, now: Instant) -> Item:
        purse = wallet.purse
        return {
            "parent": wallet.parent,
            "weight": wallet.weight,
            "granted": None if purse is None else purse.granted / MILLIONTHS,
            "left": None if purse is None else purse.left / MILLIONTHS,
            "dry": purse is not None and purse.dry,
        }

    def _shown(self, wallet: Wallet) -> Item:
        now = self._now()
        # From an instant to the wall by what lies between: both go at the same pace.
        apart = self.wall() - now
        return {
            "name": wallet.project,
            **self._item(wallet, now),
            "allocations": [
                {
                    "id": each.id,
                    "granted": each.granted / MILLIONTHS,
                    "spent": each.drawn / MILLIONTHS,
                    "left": each.left / MILLIONTHS,
                    "in_force": each.in_force(now),
                    "starts": iso(each.starts_at + apart),
                    "ends": iso(each.ends_at + apart),
                }
                for each in wallet.allocations
            ],
        }

    @contextmanager
    def _changing(self) -> Iterator[None]:
        try:
            yield
        except Missing as error:
            raise Clash(f"{error.kind} `{error.name}` is closed; nothing was changed") from None
        except Full as error:
            raise Clash(f"{error}; nothing was changed") from None


def _amount(text: str) -> int:
    try:
        return amount_of(text)
    except ValueError as error:
        raise unusable((("amount", str(error)),)) from None


def _below_zero(project: str, taken: int, left: int) -> Clash:
    return Clash(
        f"`{one_line(project)}` has {credits(left)} credits left that could be taken, not {credits(taken)}; "
        "nothing was changed"
    )
