"""Nothing is shared here but the place where tests find each other's builders."""

from __future__ import annotations
