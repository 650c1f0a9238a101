"""Mail: a letter becomes a message of plain text and is handed to the one server of the settings.

Whatever stands in a job's name stays on its line: headers are made by `EmailMessage`, which takes no second
one. A server that is away is nobody's fault but ours; a mailbox that is refused is theirs.
"""

from __future__ import annotations

import smtplib
import ssl
from dataclasses import dataclass
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import formatdate
from pathlib import Path

from glidepath.config.notices import SmtpSettings
from glidepath.core.text import one_line
from glidepath.notices.sending import (
    LETTER_S_MAX,
    SILENT_S_MAX,
    WHY_LETTERS_MAX,
    Fault,
    Sent,
    Undone,
    bounded,
)
from glidepath.notices.words import Letter
from glidepath.straight import read_secret


@dataclass(frozen=True)
class Mails:
    """The way out by mail; for any thread."""

    settings: SmtpSettings
    limit_s: float = LETTER_S_MAX

    def send(self, to: str, letter: Letter, *, wall_s: float) -> Sent:
        settings = self.settings
        message = message_of(letter, sender=settings.sender, to=to, wall_s=wall_s)
        try:
            password = self._password()
            context = ssl.create_default_context(cafile=settings.ca_file or None)
        except (OSError, ValueError) as error:
            return Undone(f"mail cannot be sent: {error}", Fault.OURS)
        # Said to the server, who would else be told after a look for our own name, which may take long.
        ours = settings.sender.rpartition("@")[2]
        server: smtplib.SMTP
        if settings.security == "tls":
            server = smtplib.SMTP_SSL(timeout=SILENT_S_MAX, local_hostname=ours, context=context)
        else:
            server = smtplib.SMTP(timeout=SILENT_S_MAX, local_hostname=ours)
        with bounded(lambda: server.sock, self.limit_s) as over:
            try:
                return self._sent(server, context, password, message)
            except (OSError, smtplib.SMTPException, ValueError) as error:
                why = f"no answer in {self.limit_s:g} s" if over.is_set() else _said(error)
                return Undone(f"the mail server `{settings.server}`: {why}", Fault.OURS)
            finally:
                server.close()

    def _sent(
        self, server: smtplib.SMTP, context: ssl.SSLContext, password: str, message: EmailMessage
    ) -> Sent:
        settings = self.settings
        host, _, port = settings.server.rpartition(":")
        host = host.strip("[]")
        # Of an object that was made without a server: TLS checks the certificate against this name.
        server._host = host  # type: ignore[attr-defined]
        server.connect(host, int(port))
        if settings.security == "starttls":
            server.starttls(context=context)
        if settings.user:
            server.login(settings.user, password)
        try:
            server.send_message(message)
        except smtplib.SMTPRecipientsRefused as error:
            code, words = next(iter(error.recipients.values()))
            said = words.decode("utf-8", "replace") if isinstance(words, bytes) else str(words)
            why = one_line(f"{code} {said}", letters_max=WHY_LETTERS_MAX)
            return Undone(f"the mail server refuses the address: {why}")
        try:
            server.quit()
        except (OSError, smtplib.SMTPException):
            pass  # It has the message.
        return None

    def _password(self) -> str:
        if not self.settings.user:
            return ""
        text = read_secret(Path(self.settings.password_file), what="password").decode("utf-8")
        return text.strip("\r\n")


def _said(error: Exception) -> str:
    return one_line(str(error) or type(error).__name__, letters_max=WHY_LETTERS_MAX)


def message_of(letter: Letter, *, sender: str, to: str, wall_s: float) -> EmailMessage:
    message = EmailMessage(policy=SMTP)
    message["From"] = sender
    message["To"] = to
    # A name may be spelled as an encoded word, which `EmailMessage` turns into what it means: a second line.
    message["Subject"] = f"glidepath: {letter.subject}".replace("=?", "= ?")
    message["Date"] = formatdate(wall_s)
    message["Message-ID"] = f"<{letter.id}@{sender.rpartition('@')[2]}>"
    message["Auto-Submitted"] = "auto-generated"
    message["Glidepath-Notice-Id"] = letter.id
    remove = f"`glidepath notice remove {letter.way}` ends them"
    end = f"You have these because of the address `{letter.way}`; {remove}."
    message.set_content(f"{letter.text}\n\n-- \n{end}\n", cte="quoted-printable")
    return message
