"""What `glidepath doctor` says of a provider of tokens: whether its keys can be read, and which are good."""

from __future__ import annotations

from collections.abc import Iterator

from glidepath.config import Settings
from glidepath.core.text import one_line
from glidepath.ports import Finding

NAME = "tokens of people"
SHOWN_MAX = 3


def provider(settings: Settings) -> Iterator[Finding]:
    oidc = settings.serve.oidc
    if oidc is None:
        return
    try:
        from glidepath.people.keyset import OddKeys, key_set
        from glidepath.people.keysource import key_source
    except ImportError as error:
        yield Finding(NAME, "fail", f"{error}", "install `glidepath[web]`")
        return
    try:
        found = key_set(key_source(oidc)())
    except (OSError, OddKeys) as error:
        why = f"the keys of {one_line(oidc.issuer)} cannot be read: {error}"
        yield Finding(NAME, "fail", why, "look at `[serve.oidc]`, and at the way there")
        return
    listed = [*found.keys.items(), *(("one without `kid`", key) for key in found.unnamed)]
    ids = ", ".join(one_line(f"{id} ({key.algorithm_name})", letters_max=60) for id, key in listed)
    shown = f"keys of {one_line(oidc.issuer)}: {ids}"
    if not found.passed_over:
        yield Finding(NAME, "ok", shown)
        return
    why = one_line("; ".join(found.passed_over[:SHOWN_MAX]))
    yield Finding(NAME, "warn", shown, f"not used: {why}")
