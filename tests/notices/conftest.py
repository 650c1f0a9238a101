"""Who receives, and certificates that are good for loopback."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from notices.receivers import HookReceiver, MailReceiver, hook_receiver, mail_receiver


@pytest.fixture
def hook() -> Iterator[HookReceiver]:
    with hook_receiver() as made:
        yield made


@pytest.fixture
def mail() -> Iterator[MailReceiver]:
    with mail_receiver() as made:
        yield made
