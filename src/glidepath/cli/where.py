"""Where this glidepath lives: options and environment come in, a home and a configuration file go out.

The one place that decides it, so that `up`, `job submit` and `doctor` can never look at different stores.
It reads no file; it only looks whether one is there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

FILE = "glidepath.toml"
SYSTEM_CONFIG = Path("/etc/glidepath") / FILE


@dataclass(frozen=True)
class Where:
    """The home, the configuration file if there is one, and what each was taken from."""

    home: Path
    home_from: str
    config: Path | None
    config_from: str


def where(environ: Mapping[str, str], *, home: str | None = None, config: str | None = None) -> Where:
    """A flag beats the environment, that beats the default; a named file is used even if missing."""
    home_path, home_from = _home(environ, home)
    config_path, config_from = _config(environ, config)
    return Where(home_path, home_from, config_path, config_from)


def _home(environ: Mapping[str, str], home: str | None) -> tuple[Path, str]:
    if home:
        return Path(home).expanduser().absolute(), "--home"
    if stated := environ.get("GLIDEPATH_HOME"):
        return Path(stated).expanduser().absolute(), "$GLIDEPATH_HOME"
    return _xdg(environ, "XDG_STATE_HOME", ".local/state") / "glidepath", "the default"


def _config(environ: Mapping[str, str], config: str | None) -> tuple[Path | None, str]:
    if config:
        return Path(config).expanduser().absolute(), "--config"
    if stated := environ.get("GLIDEPATH_CONFIG"):
        return Path(stated).expanduser().absolute(), "$GLIDEPATH_CONFIG"
    # Never the working directory: a folder of a stranger must not configure what runs there.
    for path in (_xdg(environ, "XDG_CONFIG_HOME", ".config") / "glidepath" / FILE, SYSTEM_CONFIG):
        if path.is_file():
            return path, "the default"
    return None, "the embedded default"


def token_file(environ: Mapping[str, str]) -> Path:
    """Where the token is that is shown to servers far away."""
    if stated := environ.get("GLIDEPATH_TOKEN_FILE"):
        return Path(stated).expanduser().absolute()
    return _xdg(environ, "XDG_CONFIG_HOME", ".config") / "glidepath" / "token"


def _xdg(environ: Mapping[str, str], name: str, below: str) -> Path:
    stated = environ.get(name, "")
    # The XDG rules: a relative path is invalid and counts as not set.
    return Path(stated) if Path(stated).is_absolute() else Path(environ.get("HOME") or Path.home()) / below
