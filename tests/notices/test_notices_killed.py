"""A real `glidepath up` is killed after a letter was taken and before that is written down."""

from __future__ import annotations

import json
from pathlib import Path

from notices.receivers import HookReceiver
from whole.running import Running, glidepath, house, until

WITHIN_S = 300.0
CONFIG = """
[clusters.lab]
kind = "local"
nodes = 1
cpus = 2
memory = "2GiB"

[partitions.desk]
cluster = "lab"

[notices]
webhooks = true
networks = ["127.0.0.0/8"]
"""


def started(home: Path, config: Path) -> Running:
    return Running(home, "--config", str(config))


def test_the_letter_under_way_comes_again_with_its_id_and_nothing_is_lost(hook: HookReceiver) -> None:
    with house() as home:
        config = home / "c.toml"
        config.write_text(CONFIG)
        at = ("--config", str(config))
        secret = glidepath(home, "notice", "set", hook.url, "--on", "end", *at).strip()
        assert secret.startswith("whsec_")
        hook.held.clear()
        run = started(home, config)
        try:
            glidepath(home, "job", "submit", "--partition", "desk", "--name", "first", *at, "--", "true")
            until(hook.asked.is_set, lambda: f"a letter:\n{run.text}", within_s=WITHIN_S)
        finally:
            run.process.kill()
            run.close()
        # It has arrived, and nobody there knows.
        hook.held.set()
        run = started(home, config)
        try:
            until(lambda: len(hook.posts) == 2, lambda: f"the letter again:\n{run.text}", within_s=WITHIN_S)
            glidepath(home, "job", "submit", "--partition", "desk", "--name", "second", *at, "--", "true")
            until(lambda: len(hook.posts) == 3, lambda: f"the next letter:\n{run.text}", within_s=WITHIN_S)
            glidepath(home, "notice", "test", "webhook", *at)
        finally:
            run.close()
        letters = [json.loads(post.body) for post in hook.posts]
        assert [letter["text"].partition("  ")[2] for letter in letters[:3]] == [
            "job 1 `first` is done",
            "job 1 `first` is done",
            "job 2 `second` is done",
        ]
        assert letters[0] == letters[1]
        ids = [post.headers["webhook-id"] for post in hook.posts]
        assert ids[0] == ids[1]
        assert len({*ids}) == 3
        assert letters[3]["notices"] == []
