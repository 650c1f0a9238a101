"""Signed words for exchange as files: who has the site's token, or the digest that is kept of it, wrote them.

A file is read by whoever carries it; the signature only keeps others from writing one.
"""

from __future__ import annotations

import hashlib
import hmac

from pydantic import Field, ValidationError

from glidepath.called.words import Place, Word

BODY_LETTERS_MAX = 64 << 20


class Signed(Word):
    """What lies in the folder."""

    site: Place
    token: str = Field(max_length=40, description="The id of the token, not the token.")
    what: str = Field(pattern=r"^(report|orders|late)$")
    body: str = Field(max_length=BODY_LETTERS_MAX)
    signature: str = Field(pattern=r"^[0-9a-f]{64}$")


def signed(site: str, token: str, digest: str, *, what: str, body: str) -> str:
    """The text of a file; `digest` is that of the token's secret."""
    mark = _mark(digest, site=site, token=token, what=what, body=body)
    return Signed(site=site, token=token, what=what, body=body, signature=mark).model_dump_json()


def opened(text: bytes, digest_of: dict[str, str], *, site: str, what: tuple[str, ...]) -> Signed:
    """What a file says. Raises ValueError where it is not for this site, of these, or of a token we know."""
    try:
        found = Signed.model_validate_json(text)
    except ValidationError:
        raise ValueError("it is not a signed file of ours") from None
    digest = digest_of.get(found.token, "")
    mark = _mark(digest, site=found.site, token=found.token, what=found.what, body=found.body)
    if not digest or not hmac.compare_digest(mark, found.signature):
        raise ValueError("its signature is not that of a token in force")
    if found.site != site or found.what not in what:
        raise ValueError(f"it is a file of `{found.site}` and of another kind or site")
    return found


def _mark(digest: str, *, site: str, token: str, what: str, body: str) -> str:
    key = hmac.new(digest.encode(), b"glidepath drop", hashlib.sha256).digest()
    text = "\n".join((site, token, what, body))
    return hmac.new(key, text.encode(), hashlib.sha256).hexdigest()
