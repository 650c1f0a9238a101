"""A site that is not configured yet, asked for its limits: where it is comes in, a configuration goes out.

What a site says is data of strangers: a name that could not stand in a configuration is left out and told of.
It refuses to know pools and demand.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from pydantic import ValidationError

from glidepath.batch.dialect import Dialect, Probes, QueueFacts, Words
from glidepath.batch.settings import GRACE_S, MARGIN_S
from glidepath.core.quantity import SiteName
from glidepath.core.text import one_line
from glidepath.core.units import shown_duration
from glidepath.ports import SiteFound
from glidepath.remote.open import runner_of
from glidepath.remote.runner import Ran, Runner
from glidepath.remote.settings import SshSettings
from glidepath.remote.words import safe_path, safe_word

ASK_S = 60.0
QUEUES_MAX = 100
# Where the folder of pilots may be, if the site does not say where its user is at home.
HOME_UNKNOWN = "/home/USER"
HOME = Words(("printenv", "HOME"))
# Shorter than this a pilot would hardly come to work before it has to leave.
LIFETIME_S_MIN = 5 * 60
LIFETIME_S_USUAL = 14 * 3600
IDLE_S_USUAL = 600
_NOT_NAME = re.compile(r"[^a-z0-9]+")


def ssh_of(where: Mapping[str, object]) -> SshSettings:
    """The `ssh` table of a site to be; raises ValueError with one sentence."""
    try:
        return SshSettings.model_validate(dict(where))
    except ValidationError as error:
        first = error.errors()[0]
        named = ".".join(str(part) for part in first["loc"])
        raise ValueError(f"`{named}` {first['msg']}" if named else str(first["msg"])) from None


def probed(
    site: SiteName, dialect: Dialect, ssh: SshSettings, *, environ: Mapping[str, str], folder: Path
) -> SiteFound:
    """Asks the site, and nothing else of it; raises OSError or ValueError where it does not tell."""
    if not isinstance(dialect, Probes):
        raise ValueError(f"the limits of a site with {dialect.name} are not read; write its tables by hand")
    runner = runner_of(ssh, environ=environ, folder=folder, site=site)
    try:
        answers = tuple(_asked(runner, words) for words in dialect.probe())
        home = _asked(runner, HOME)
    finally:
        runner.close()
    return found(site, dialect.name, ssh, queues=dialect.facts(answers), home=_home(home))


def _asked(runner: Runner, words: Words) -> Ran:
    return runner.run(words.argv, given=words.given.encode(), limit_s=ASK_S)


def _home(ran: Ran) -> str:
    try:
        return safe_path(ran.out.strip().rpartition("\n")[2], "the home").rstrip("/")
    except ValueError:
        return HOME_UNKNOWN


def found(
    site: SiteName, kind: str, ssh: SshSettings, *, queues: tuple[QueueFacts, ...], home: str
) -> SiteFound:
    """The tables of the site, with what was found as comments."""
    lines = [
        f"# What {kind} said of its queues{f' on {ssh.host}' if ssh.host else ''}.",
        f"[sites.{site}]",
        f'kind = "{kind}"',
        "",
        f"[sites.{site}.{kind}]",
        "# It must be there, and every node must see it under this name.",
        f'folder = "{home}/glidepath"',
        *_ssh_lines(ssh),
    ]
    used: set[str] = set()
    for queue in queues[:QUEUES_MAX]:
        lines += ["", *_queue_lines(site, kind, queue, used)]
    if len(queues) > QUEUES_MAX:
        lines += ["", f"# {len(queues) - QUEUES_MAX} more queues were found and left out."]
    return SiteFound(tuple(lines), tuple(_item(queue) for queue in queues))


def _ssh_lines(ssh: SshSettings) -> list[str]:
    told = [f"{name} = {_value(value)}" for name, value in ssh.model_dump(exclude_defaults=True).items()]
    return [f"ssh = {{ {', '.join(told)} }}"] if told else []


def _value(value: object) -> str:
    # What the settings take has neither quotes nor backslashes.
    return str(value) if isinstance(value, int | float) else f'"{value}"'


def _queue_lines(site: SiteName, kind: str, queue: QueueFacts, used: set[str]) -> Iterator[str]:
    """One offer: a pilot that fills a node of the queue, for as long as the queue lets it."""
    yield f"# {one_line(queue.name)}: {_sentence(queue)}"
    yield from (f"#   {one_line(note)}" for note in queue.notes)
    if why := _unfit(kind, queue):
        yield f"# No offer: {why}."
        return
    name = _offer_name(queue.name, used)
    yield f"[sites.{site}.offers.{name}]"
    yield f"cpus = {_cpus(kind, queue)}"
    yield f'memory = "{queue.memory_mib_per_node}MiB"'
    if queue.gpus_per_node:
        yield f"gpus = {queue.gpus_per_node}"
    if queue.gpus_per_node and queue.gpu_type:
        yield f'traits = {{ gpu_type = "{queue.gpu_type}" }}'
    lifetime_s = _lifetime_s(queue)
    if lifetime_s < LIFETIME_S_USUAL:
        yield f'lifetime = "{shown_duration(lifetime_s)}"'
    if lifetime_s < 2 * IDLE_S_USUAL:
        # It must be shorter than the lifetime.
        yield f'idle = "{shown_duration(lifetime_s // 120 * 60)}"'
    own = [f'queue = "{queue.name}"'] if kind != "htcondor" else []
    own += ["whole_node = true"] if queue.whole_node else []
    own += [f'parallel = "{queue.parallel}"'] if queue.parallel and _cpus(kind, queue) > 1 else []
    if own:
        yield ""
        yield f"[sites.{site}.{kind}.offers.{name}]"
        yield from own


def _sentence(queue: QueueFacts) -> str:
    most = [shown_duration(queue.walltime_s_max)] if queue.walltime_s_max is not None else []
    most += [_many(queue.nodes_max, "node")] if queue.nodes_max is not None else []
    told = [f"jobs of at most {' and '.join(most)}" if most else "jobs without a limit"]
    has = [_many(queue.cpus_per_node, "CPU")] if queue.cpus_per_node else []
    has += [f"{queue.memory_mib_per_node} MiB"] if queue.memory_mib_per_node else []
    has += [_many(queue.gpus_per_node, "GPU")] if queue.gpus_per_node else []
    if has:
        told.append(f"{_many(queue.nodes, 'node')} with at least {', '.join(has)}")
    told.append("given whole" if queue.whole_node else "shared")
    return "; ".join(told if queue.open else [*told, "closed now"])


def _many(count: int | None, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{'some' if count is None else count} {what}s"


def _unfit(kind: str, queue: QueueFacts) -> str:
    try:
        safe_word(queue.name, "the name")
        safe_word(queue.gpu_type or "none", "the type of its GPUs")
        safe_word(queue.parallel or "none", "its parallel environment")
    except ValueError as error:
        return one_line(str(error))
    if not queue.cpus_per_node or not queue.memory_mib_per_node:
        return "the site does not say what its nodes have"
    if _lifetime_s(queue) < LIFETIME_S_MIN:
        grace = shown_duration(GRACE_S + MARGIN_S)
        return f"a pilot needs {grace} to end in, and some time before that"
    return "" if queue.open else "it is closed; take it up when it is open"


def _cpus(kind: str, queue: QueueFacts) -> int:
    """Without a parallel environment a job of Grid Engine has one slot."""
    return 1 if kind == "sge" and not queue.parallel else queue.cpus_per_node or 1


def _lifetime_s(queue: QueueFacts) -> int:
    if queue.walltime_s_max is None:
        return LIFETIME_S_USUAL
    # Whole minutes, for people.
    return min(LIFETIME_S_USUAL, (queue.walltime_s_max - GRACE_S - MARGIN_S) // 60 * 60)


def _offer_name(queue: str, used: set[str]) -> str:
    """Offers have small letters, digits and dashes; two queues can come to the same."""
    plain = _NOT_NAME.sub("-", queue.lower()).strip("-")[:35].rstrip("-") or "queue"
    plain = plain if plain[0].isalpha() else f"q-{plain}"
    numbered = (f"{plain}-{number}" for number in range(2, QUEUES_MAX + 2))
    name = next(each for each in (plain, *numbered) if each not in used)
    used.add(name)
    return name


def _item(queue: QueueFacts) -> dict[str, object]:
    return {
        "name": queue.name,
        "walltime_s_max": queue.walltime_s_max,
        "nodes_max": queue.nodes_max,
        "nodes": queue.nodes,
        "cpus_per_node": queue.cpus_per_node,
        "memory_mib_per_node": queue.memory_mib_per_node,
        "gpus_per_node": queue.gpus_per_node,
        "gpu_type": queue.gpu_type,
        "whole_node": queue.whole_node,
        "parallel": queue.parallel,
        "open": queue.open,
        "notes": list(queue.notes),
    }
