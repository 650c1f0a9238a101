"""The reference of all commands, in Markdown: `python -m glidepath.cli.reference` prints it.

Made from the verbs themselves, so that the page can never tell something else than `--help`.
"""

from __future__ import annotations

import sys

from glidepath.cli.main import PROG, commands, noun_of
from glidepath.cli.nouns import NOUNS
from glidepath.cli.parser import SHARED
from glidepath.cli.verb import Options, Verb

INTRO = """\
# Commands

Made by `python -m glidepath.cli.reference`; do not edit.

`glidepath NOUN VERB [NAME] [options]`. Data goes to stdout, talk to stderr. Plural nouns are accepted.
Exit codes: 0 done, 1 failed, 2 wrong use, 3 incomplete or stale (only with `--strict`), 4 not found.
Sizes are written as `4GiB`, times as `90m`, `1h30m` or `1-12:00:00`.

Every command takes these:
"""


def page() -> str:
    parts = [INTRO, *_options(SHARED)]
    noun_last = ""
    for noun, verb, _ in commands():
        if noun != noun_last:
            parts += ["", f"## {noun}", "", f"{NOUNS[noun].help[0].upper()}{NOUNS[noun].help[1:]}."]
            noun_last = noun
        parts += _verb(f"{PROG} {noun} {verb}".strip(), noun_of(noun)[1].verbs[verb])
    return "\n".join(parts) + "\n"


def _verb(words: str, verb: type[Verb]) -> list[str]:
    text = [line.strip() for line in (verb.__doc__ or "").strip().splitlines()]
    named = [_metavar(name, option) for name, option in verb.options.items() if not _flag(option)]
    usage = " ".join([words, *named, *(["-- COMMAND..."] if verb.takes_command else [])])
    return ["", f"### `{usage}`", "", f"{text[0]}.", *text[1:], "", *_options(verb.options)]


def _flag(option: dict[str, object]) -> bool:
    return str(option["args"][0]).startswith("-")  # type: ignore[index]


def _metavar(name: str, option: dict[str, object]) -> str:
    shown = str(option.get("metavar") or name.upper())
    nargs = option.get("nargs")
    return {"+": f"{shown}...", "?": f"[{shown}]"}.get(str(nargs), shown)


def _options(options: Options) -> list[str]:
    lines = []
    for name, option in options.items():
        if not _flag(option):
            lines.append(f"- `{_metavar(name, option)}`: {option['help']}")
            continue
        names = ", ".join(f"`{word}`" for word in option["args"])
        values = option.get("choices")
        value = "|".join(values) if values else str(option.get("metavar") or name.upper())
        takes = "action" not in option or option["action"] == "append"
        lines.append(f"- {names}{f' `{value}`' if takes else ''}: {option['help']}")
    return lines


if __name__ == "__main__":
    sys.stdout.write(page())
