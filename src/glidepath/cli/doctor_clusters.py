"""What `glidepath doctor` says of the clusters that jobs are placed on: their doors told it with a plan."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from glidepath.ports import Finding

if TYPE_CHECKING:
    from glidepath.cli.session import Located


def clusters(place: Located) -> Iterator[Finding]:
    """What the door of each said last: it stands where glidepath runs, and the doctor may stand elsewhere."""
    from glidepath.journal.placing import PlacingJournal
    from glidepath.store.engine import StoreError, open_store
    from glidepath.store.migrations import KNOWN, version

    file = place.store_file
    for name in sorted(place.settings.clusters):
        seen = None
        try:
            if file is None or file.exists():
                with open_store(place.store_url, read_only=True) as opened:
                    if version(opened) == KNOWN:
                        seen = PlacingJournal(opened, name, ()).seen_cluster()
        except StoreError:
            yield Finding(
                f"cluster {name}", "warn", "what is known of it is in the store, which cannot be read"
            )
            continue
        if seen is None:
            yield Finding(f"cluster {name}", "ok", "not planned with yet; `glidepath up` does that")
            continue
        for note in seen.told:
            yield Finding(f"cluster {name}", "warn", note)
        if not seen.told:
            count = len(seen.nodes)
            found = f"{count} node{'' if count == 1 else 's'}"
            if place.settings.clusters[name].kind == "local":
                found += "; its jobs share the network of this machine, and nothing keeps them apart there"
            yield Finding(f"cluster {name}", "ok", found)
