"""Mail to a real receiver: hostile words stay text, and whose fault it is when it is not taken."""

from __future__ import annotations

import base64
import email
import email.policy
import socket
from pathlib import Path
from typing import Any

import pytest

from glidepath.config import SmtpSettings
from glidepath.notices.mail import Mails, message_of
from glidepath.notices.sending import Fault, Undone
from glidepath.notices.words import Kind, Letter, Notice
from kube.stand_in import papers
from notices.receivers import MailReceiver, mail_receiver

WALL = 1_800_000_000.0


def notice(name: str = "train", text: str = "exit code 3", event: int = 7) -> Notice:
    return Notice(event, 42, name, Kind.END, WALL, 1, "failed", text)


def letter(*notices: Notice) -> Letter:
    return Letter("abc-7", "mail", notices or (notice(),))


def mails(mail: MailReceiver, **own: Any) -> Mails:
    settings = {"server": f"127.0.0.1:{mail.port}", "sender": "glidepath@example.org", "security": "none"}
    return Mails(SmtpSettings.model_validate({**settings, **own}))


def test_a_letter_is_one_plain_message(mail: MailReceiver) -> None:
    assert mails(mail).send("ada@example.org", letter(), wall_s=WALL) is None
    [(sender, to, content)] = mail.letters
    assert (sender, to) == ("glidepath@example.org", "ada@example.org")
    found = email.message_from_bytes(content, policy=email.policy.default)
    assert dict(found.items()) == {
        "From": "glidepath@example.org",
        "To": "ada@example.org",
        "Subject": "glidepath: job 42 `train` failed: exit code 3",
        "Date": "Fri, 15 Jan 2027 08:00:00 -0000",
        "Message-ID": "<abc-7@example.org>",
        "Auto-Submitted": "auto-generated",
        "Glidepath-Notice-Id": "abc-7",
        "Content-Type": 'text/plain; charset="utf-8"',
        "Content-Transfer-Encoding": "quoted-printable",
        "MIME-Version": "1.0",
    }
    assert found.get_content() == (
        "2027-01-15T08:00:00Z  job 42 `train` failed: exit code 3\n\n-- \n"
        "You have these because of the address `mail`; `glidepath notice remove mail` ends them.\n"
    )


@pytest.mark.parametrize(
    "name",
    [
        "x\r\nBcc: all@example.org\r\n\r\nhello",
        "x\nSubject: other",
        "x\r\n.\r\nMAIL FROM:<eve@example.org>",
        "\u202egpj.exe",
        "x\u2028Bcc: all@example.org",
        "x\x00\x1b[2J\x85y",
        "=?utf-8?q?=0ABcc=3A_all=40example=2Eorg?=",
        "\u00fc" * 500,
        "\ud800",
    ],
)
def test_a_hostile_name_or_reason_stays_within_its_line(mail: MailReceiver, name: str) -> None:
    for one in (letter(notice(name)), letter(notice(text=name)), letter(notice(name), notice(name, name))):
        assert mails(mail).send("ada@example.org", one, wall_s=WALL) is None
    assert [(sender, to) for sender, to, _ in mail.letters] == [
        ("glidepath@example.org", "ada@example.org")
    ] * 3
    plain = message_of(letter(), sender="glidepath@example.org", to="ada@example.org", wall_s=WALL)
    for _, _, content in mail.letters:
        found = email.message_from_bytes(content, policy=email.policy.default)
        assert list(found.keys()) == list(plain.keys())
        lines = found.get_content().split("\n")
        assert len(lines) in (5, 6)
        assert all(line.isprintable() for line in lines)


def test_a_refused_address_is_theirs_and_a_server_that_is_away_is_ours(mail: MailReceiver) -> None:
    mail.refuses["gone@example.org"] = "550 no such mailbox"
    why = "the mail server refuses the address: 550 no such mailbox"
    assert mails(mail).send("gone@example.org", letter(), wall_s=WALL) == Undone(why, Fault.THEIRS)
    mail.away = True
    found = mails(mail).send("ada@example.org", letter(), wall_s=WALL)
    assert found is not None
    assert (found.fault, f"the mail server `127.0.0.1:{mail.port}`: " in found.why) == (Fault.OURS, True)


def test_a_server_that_says_nothing_is_left_in_time() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        settings = {"server": f"127.0.0.1:{port}", "sender": "glidepath@example.org", "security": "none"}
        found = Mails(SmtpSettings.model_validate(settings), limit_s=0.3).send(
            "ada@example.org", letter(), wall_s=WALL
        )
    assert found == Undone(f"the mail server `127.0.0.1:{port}`: no answer in 0.3 s", Fault.OURS)


def test_with_starttls_the_server_is_checked_before_the_password_is_told(tmp_path: Path) -> None:
    made = papers(tmp_path)
    password = tmp_path / "password"
    password.write_text("sesame\n")
    own = {"security": "starttls", "user": "glide", "password_file": str(password)}
    with mail_receiver(made.server_side("server")) as mail:
        open_file = mails(mail, **own, ca_file=str(made.folder / "ca.crt"))
        found = open_file.send("ada@example.org", letter(), wall_s=WALL)
        assert found is not None
        assert (found.fault, "can be read by others; `chmod 600` it" in found.why) == (Fault.OURS, True)
        password.chmod(0o600)
        assert open_file.send("ada@example.org", letter(), wall_s=WALL) is None
        shown = base64.b64encode(b"\0glide\0sesame").decode()
        assert mail.logins == [f"AUTH PLAIN {shown}"]
        strange = mails(mail, **own).send("ada@example.org", letter(), wall_s=WALL)
        assert strange is not None
        assert "CERTIFICATE_VERIFY_FAILED" in strange.why
        assert (len(mail.letters), len(mail.logins)) == (1, 1)


@pytest.mark.parametrize(
    ("own", "why"),
    [
        ({"user": "glide"}, "needs both `user` and `password_file`"),
        (
            {"user": "glide", "password_file": "/p", "security": "none", "server": "mail.example.org:25"},
            "must not send a password in the open",
        ),
        ({"sender": "Glide <glide@example.org>"}, "must be an address such as"),
        ({"sender": "glide@example.org\nBcc: x@example.org"}, "must be an address such as"),
        ({"server": "mail.example.org"}, "must be a server and its port"),
    ],
)
def test_settings_of_mail_that_cannot_be_meant_are_refused(own: dict[str, str], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        SmtpSettings.model_validate({"server": "mail.example.org:587", "sender": "glide@example.org", **own})
