"""Submit files: TOML or YAML of anybody comes in, a table of keys and values that a wish may have goes out.

What a key means is known where wishes are read; only what JSON can say otherwise is made even here.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from glidepath.cli import argument
from glidepath.cli.verb import Exit, Options, Stop
from glidepath.core.text import one_line

if TYPE_CHECKING:
    from glidepath.jobs.errors import Unusable

SUBMIT_FILE_BYTES_MAX = 1 << 20
COUNT_DIGITS_MAX = 18
# Stands for the command that the command line may add, when a file is looked at alone.
SOME_COMMAND = ("true",)


def file_table(path: str, options: Options) -> dict[str, Any]:
    """What a submit file says, sound by itself: it is used again with another command line."""
    from glidepath.jobs.errors import Unusable
    from glidepath.jobs.submission import read_submission

    found = {key.replace("-", "_"): value for key, value in _read(path).items()}
    table = {key: _as_meant(value, options.get(key, {})) for key, value in found.items()}
    if isinstance(table.get("files"), dict):
        table["files"] = [table["files"]]
    try:
        read_submission({"command": SOME_COMMAND, **table})
    except Unusable as error:
        raise _refused(path, error) from None
    return table


def _as_meant(value: object, option: Mapping[str, Any]) -> object:
    """A number may be written as text and a name as a number, as on the command line."""
    if isinstance(value, list):
        return [_as_meant(each, option) for each in value]
    if (
        option.get("type") in (argument.count, argument.number)
        and isinstance(value, str)
        and value.isdecimal()
    ):
        return int(value[:COUNT_DIGITS_MAX])
    plain = "type" not in option and option.get("action") in (None, "append")
    if option and plain and isinstance(value, (int, float)) and not isinstance(value, bool):
        return str(value)
    return value


def _refused(path: str, error: Unusable) -> Stop:
    said = [f"`{one_line(key)}`: {what}" if key else what for key, what in error.places]
    return Stop(f"`{one_line(path)}`: {'; '.join(said) or error.why}", code=Exit.USAGE)


def _read(path: str) -> Mapping[str, Any]:
    file = Path(path)
    try:
        if file.stat().st_size > SUBMIT_FILE_BYTES_MAX:
            raise Stop(f"the submit file `{one_line(path)}` has more than {SUBMIT_FILE_BYTES_MAX} bytes")
        text = file.read_text(encoding="utf-8")
        if file.suffix in (".yaml", ".yml"):
            import yaml

            read = yaml.safe_load(text)
        else:
            import tomllib

            read = tomllib.loads(text)
    except ImportError:
        raise Stop(
            "YAML needs the package `pyyaml`; write the submit file in TOML", code=Exit.USAGE
        ) from None
    except Stop:
        raise
    except Exception as error:  # noqa: BLE001 (the parser of YAML has errors of its own kind)
        raise Stop(f"`{one_line(path)}` is not read: {one_line(str(error))}", code=Exit.USAGE) from None
    if not isinstance(read, dict) or not all(isinstance(key, str) for key in read):
        raise Stop(f"`{one_line(path)}` is not a table of keys and values", code=Exit.USAGE)
    return read


def file_put(word: str) -> dict[str, Any]:
    """A file of the caller, as text; by default under its own name."""
    from glidepath.store.placed_spec import FILE_BYTES_MAX

    source, _, path = word.partition(":")
    try:
        file = Path(source)
        if file.stat().st_size > FILE_BYTES_MAX:
            raise Stop(f"`{one_line(source)}` is too large to go with a job: put it on a shared disk")
        content = file.read_text(encoding="utf-8")
        mode = file.stat().st_mode & 0o755
    except (OSError, UnicodeDecodeError) as error:
        raise Stop(f"`{one_line(source)}` cannot be put beside the job: {one_line(str(error))}") from None
    return {"path": path or file.name, "content": content, "mode": mode}
