"""Changes to limits, as one writes them on a command line: rules and texts come in, rules go out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields, replace

from glidepath.core.provision.offer import Limits, OwnerRules, Rules
from glidepath.core.quantity import Owner
from glidepath.core.text import nearest, one_line

KEYS = tuple(each.name for each in fields(Limits))
FORMS = (
    "`limits.KEY=N`, `pools.NAME.KEY=N`, `owners.NAME.KEY=N`, `sites.NAME.KEY=N` or `offers.SITE/OFFER.KEY=N`"
)


def changed(rules: Rules, changes: Iterable[str]) -> Rules:
    """The rules with each limit set; `none` takes a limit away. Raises ValueError with the forms."""
    for change in changes:
        rules = _one(rules, change)
    return rules


def _one(rules: Rules, change: str) -> Rules:
    path, equals, text = change.partition("=")
    scope, _, rest = path.partition(".")
    name, _, key = rest.rpartition(".")
    if not equals or (scope == "limits") == bool(name):
        raise ValueError(f"`{one_line(change)}` is not a change of a limit; write {FORMS}")
    if key not in KEYS:
        raise ValueError(f"`{one_line(change)}`: there is no limit `{one_line(key)}`{_near(key, KEYS)}")
    if text != "none" and not (text.isascii() and text.isdigit() and len(text) < 10):
        raise ValueError(f"`{one_line(change)}`: the value must be a whole number or `none`")
    value = None if text == "none" else int(text)

    def under(limits: Limits) -> Limits:
        return replace(limits, **{key: value})

    if scope == "limits":
        return replace(rules, limits=under(rules.limits))
    if scope == "pools":
        _known(change, name, [pool.name for pool in rules.pools])
        pools = tuple(replace(p, limits=under(p.limits)) if p.name == name else p for p in rules.pools)
        return replace(rules, pools=pools)
    if scope == "owners":
        others = tuple(owner for owner in rules.owners if owner.owner != name)
        mine = next((o.limits for o in rules.owners if o.owner == name), Limits())
        return replace(rules, owners=(*others, OwnerRules(Owner(name), under(mine))))
    if scope == "sites":
        _known(change, name, [site.name for site in rules.sites])
        sites = tuple(replace(s, limits=under(s.limits)) if s.name == name else s for s in rules.sites)
        return replace(rules, sites=sites)
    if scope == "offers":
        _known(change, name, list(rules.offers()))
        sites = tuple(
            replace(
                s,
                offers=tuple(replace(o, limits=under(o.limits)) if o.key == name else o for o in s.offers),
            )
            for s in rules.sites
        )
        return replace(rules, sites=sites)
    raise ValueError(f"`{one_line(change)}` is not a change of a limit; write {FORMS}")


def _known(change: str, name: str, names: Iterable[str]) -> None:
    names = [str(each) for each in names]
    if name not in names:
        raise ValueError(f"`{one_line(change)}`: there is no `{one_line(name)}`{_near(name, names)}")


def _near(word: str, known: Iterable[str]) -> str:
    near = nearest(word, known)
    return f"; did you mean `{near}`?" if near else f"; there are: {', '.join(known)}"
