"""The table of commands: a noun, its verbs and one line of help, without importing any of them.

`glidepath --help` prints it within milliseconds; a test holds it against the classes themselves.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Entry:
    """One noun: the file that has it, what it is for, and its verbs; none where it stands alone."""

    module: str
    help: str
    verbs: tuple[str, ...] = ()


NOUNS: dict[str, Entry] = {
    "up": Entry("up", "start the controllers, and show what they do and why"),
    "alive": Entry("alive", "say whether the glidepath of this home is alive, for probes"),
    "job": Entry(
        "job",
        "submit jobs, follow them and read what they wrote",
        ("submit", "list", "show", "explain", "extend", "cancel", "logs", "wait"),
    ),
    "queue": Entry(
        "queue", "queues of placed jobs: what waits and runs, paused or not", ("list", "pause", "resume")
    ),
    "partition": Entry("partition", "where jobs can be submitted", ("list", "pause", "resume")),
    "node": Entry("node", "nodes of clusters, and what runs on them", ("list", "cordon", "drain", "resume")),
    "window": Entry(
        "window",
        "the calendar of clusters: when nodes are closed, or kept for somebody",
        ("add", "list", "show", "move", "cancel"),
    ),
    "demand": Entry("demand", "groups of waiting jobs, and why each is served as it is"),
    "pool": Entry("pool", "pools of workers: what waits, what runs", ("status", "pause", "resume")),
    "site": Entry(
        "site",
        "places that can start pilots: what they offer, what was decided there and why",
        ("list", "status", "pause", "drain", "resume", "probe", "render", "login", "logout"),
    ),
    "pilot": Entry(
        "pilot",
        "pilots: where they stand, their story, their output, where their hours went",
        ("list", "show", "logs", "usage"),
    ),
    "plan": Entry("plan", "observe and decide now, do nothing, and show the plan"),
    "explain": Entry("explain", "why a job waits, why a site got what it got, why a pilot came and left"),
    "journal": Entry("journal", "the cycles that are kept and what happened beside them", ("list", "events")),
    "replay": Entry("replay", "decide a kept cycle again and compare, with another policy if you like"),
    "sim": Entry(
        "sim",
        "try policies and limits on made-up worlds in virtual time",
        ("list", "run", "compare", "replay", "rerun"),
    ),
    "config": Entry(
        "config", "check, show and explain the configuration", ("check", "show", "reference", "import")
    ),
    "serve": Entry("serve", "serve the sites that can only call out"),
    "token": Entry("token", "tokens that sites call with", ("issue", "list", "revoke")),
    "person": Entry(
        "person",
        "people who come by HTTP: their roles and their tokens",
        ("add", "list", "show", "role", "leave", "issue", "tokens", "revoke"),
    ),
    "project": Entry(
        "project",
        "projects that jobs are submitted for, who belongs to them, and what they may spend",
        ("add", "list", "show", "grant", "take", "set", "join", "leave", "close"),
    ),
    "usage": Entry("usage", "what placed jobs used and what it cost, by user, project and time"),
    "notice": Entry(
        "notice", "be told of your jobs by mail or at a webhook", ("set", "list", "test", "remove")
    ),
    "agent": Entry(
        "agent",
        "run at a site that can only call out, and close or open it there",
        ("run", "close", "open"),
    ),
    "doctor": Entry("doctor", "check everything that glidepath depends on, with a fix for each"),
}

PLURALS = {
    f"{noun}s": noun
    for noun in (
        *("job", "queue", "partition", "node", "window", "pool", "site", "pilot", "plan"),
        *("demand", "journal", "config", "token", "agent", "person", "project", "notice"),
    )
} | {"people": "person"}
