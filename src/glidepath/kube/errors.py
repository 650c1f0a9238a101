"""What a Kubernetes server can answer instead of what was asked for, as exceptions with its own words."""

from __future__ import annotations

from glidepath.core.text import one_line

WORDS_MAX = 400


class KubeError(RuntimeError):
    """The server refused or could not. `status` is 0 where no server of Kubernetes answered."""

    def __init__(
        self, message: str, *, status: int = 0, reason: str = "", retry_after_s: float | None = None
    ) -> None:
        super().__init__(one_line(message, letters_max=WORDS_MAX))
        self.status = status
        self.reason = reason
        self.retry_after_s = retry_after_s

    @property
    def gone(self) -> bool:
        """A version or a page that the server no longer has: everything must be listed again."""
        return self.status == 410 or self.reason in ("Expired", "Gone")

    @property
    def busy(self) -> bool:
        """It may work a little later, unchanged."""
        return self.status in (429, 502, 503, 504) or self.reason == "ServerTimeout"

    @property
    def unclear(self) -> bool:
        """What was asked for may have been done: the answer was lost, by the server or on the way."""
        return self.status in (0, 500, 502, 504)


class AccessError(ValueError):
    """A kubeconfig, a credential or a certificate that cannot be used, and what to do about it."""
