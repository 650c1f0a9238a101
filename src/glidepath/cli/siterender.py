"""`glidepath site render`: what a site would be sent to start a pilot, before anything is sent.

A site and an offer come in; scripts, manifests or requests go out as text, without secrets. Nothing is asked
of the site or of the pool.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from glidepath.cli.pilot import backend_of
from glidepath.cli.session import located
from glidepath.cli.verb import Exit, Options, Stop, Verb, not_found
from glidepath.core.text import one_line

if TYPE_CHECKING:
    from glidepath.cli.session import Located
    from glidepath.core.provision.offer import Offer, SiteRules
    from glidepath.core.provision.pilot import PilotSpec

# Names as pilots have them; none of these is ever started.
NAME = "gp-render-0-{number}"
TOKEN = (("pilot.token", "(a token of its own for each pilot)"),)


class Render(Verb):
    """Print the exact script, manifest or request by which a pilot of an offer would be started"""

    options: ClassVar[Options] = {
        "name": {"args": ("name",), "metavar": "SITE", "help": "the name of a site"},
        "offer": {"args": ("offer",), "metavar": "OFFER", "help": "the name of one of its offers"},
        "pool": {
            "args": ("--pool",),
            "metavar": "POOL",
            "help": "the pool that it would join (default: the first that the site accepts)",
        },
    }

    def run(self) -> int:
        from glidepath.ports import WORLD_ERRORS, Renders

        place = located(self)
        site, offer = _offer_of(place, self.given["name"], self.given["offer"])
        backend = backend_of(place, self.given["name"])
        if not isinstance(backend, Renders):
            kind = place.settings.sites[site.name].kind
            raise Stop(f"sites of kind `{one_line(kind)}` start pilots without anything that could be shown")
        try:
            text = backend.render(_spec(place, site, offer, self.given["pool"]))
        except WORLD_ERRORS as error:
            raise Stop(f"a pilot of `{offer.key}` could not be started: {error}") from None
        finally:
            close = getattr(backend, "close", None)
            if callable(close):
                close()
        self.caller.out.write(text)
        self.caller.out.flush()
        return Exit.DONE


def _offer_of(place: Located, site: str, offer: str) -> tuple[SiteRules, Offer]:
    from glidepath.config import rules_of

    sites = {each.name: each for each in rules_of(place.settings).sites}
    found = next((each for name, each in sites.items() if name == site), None)
    if found is None:
        raise not_found("site", site, [str(name) for name in sites])
    offers = {each.name: each for each in found.offers}
    if offer not in offers:
        raise not_found("offer", offer, list(offers))
    return found, offers[offer]


def _spec(place: Located, site: SiteRules, offer: Offer, pool: str | None) -> PilotSpec:
    """One as the controller would make it, of the largest size, and with a token that is none."""
    from glidepath.assembly import pools_of
    from glidepath.config import terms_of
    from glidepath.core.provision.pilot import PilotSpec
    from glidepath.core.quantity import Instant, PilotName
    from glidepath.ports import Place

    here = Place(place.where.home, place.store_url, terms=terms_of(place.settings))
    pools = pools_of(place.settings, here)
    wanted = pool or next((name for name in (site.pools or tuple(pools))), "")
    found = next((each for name, each in pools.items() if name == wanted), None)
    if found is None:
        raise not_found("pool", wanted, [str(name) for name in pools])
    names = [PilotName(NAME.format(number=number)) for number in range(offer.together)]
    return PilotSpec(
        name=names[0],
        site=site.name,
        offer=offer.key,
        pool=found.name,
        size=offer.size,
        traits=offer.traits,
        lifetime_s=offer.lifetime_s,
        idle_s=offer.idle_s,
        asked_at=Instant(0),
        join=found.join(offer.key),
        secrets=TOKEN,
        mates=tuple(names[1:]),
        mates_secrets=(TOKEN,) * (len(names) - 1),
    )
