"""What docs/how-to/get-notices.md shows receivers is true of what they get."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from glidepath.config import NoticesSettings
from glidepath.notices.address import reach_of, target_of
from glidepath.notices.hook import Hooks, new_secret
from notices.receivers import HookReceiver

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "get-notices.md"


def shown() -> Callable[[dict[str, str], bytes, str], bool]:
    [code] = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    made: dict[str, Any] = {}
    exec(compile(code, str(PAGE), "exec"), made)
    found: Callable[[dict[str, str], bytes, str], bool] = made["is_from_glidepath"]
    return found


def test_the_verification_on_the_page_takes_our_letters_and_no_others(hook: HookReceiver) -> None:
    secret, body, checked = new_secret(), b'{"text": "job 7 is done"}', shown()
    reach = reach_of(NoticesSettings.model_validate({"networks": ["127.0.0.0/8"]}))
    assert Hooks(reach, time.time).post(target_of(hook.url), secret, "abc-7", body) is None
    assert Hooks(reach, lambda: time.time() - 301).post(target_of(hook.url), secret, "abc-8", body) is None
    good, old = hook.posts
    assert checked(good.headers, good.body, secret)
    assert not checked(old.headers, old.body, secret), "what is sent again later"
    assert not checked(good.headers, good.body + b" ", secret)
    assert not checked(good.headers, good.body, new_secret())
    assert not checked({**good.headers, "webhook-id": "abc-9"}, good.body, secret)
