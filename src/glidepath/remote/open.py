"""The runner for a site's `ssh` table: settings come in, what runs the commands goes out.

Nothing is opened here.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from glidepath.remote.local import LocalRunner
from glidepath.remote.runner import Reached
from glidepath.remote.settings import SshSettings
from glidepath.remote.ssh import SshRunner

FOLDER = "ssh"  # below the home


def runner_of(
    settings: SshSettings, *, environ: Mapping[str, str], folder: Path, site: str = "SITE"
) -> Reached:
    """`folder` is where this glidepath keeps its things; runners of the same one share their connections.
    `site` is named where somebody should log in."""
    if not settings.host:
        return LocalRunner(environ=environ, path=settings.path)
    return SshRunner(settings, environ=environ, folder=folder / FOLDER, site=site)
