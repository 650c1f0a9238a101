"""What every backend must keep, as tests to subclass: a backend comes in, broken promises come out.

Installed with the package, so that a backend of another project can be held to the same rules:
`pip install glidepath[conformance]`, then see `docs/tutorial/write-a-backend.md`.
"""

from __future__ import annotations

import pytest

pytest.register_assert_rewrite("glidepath.conformance.backend")

from glidepath.conformance.backend import BackendConformance  # noqa: E402

__all__ = ["BackendConformance"]
