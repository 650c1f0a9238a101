"""The login node of a batch site: a folder comes in, files for sshd, keys and homes of users go out.

`pilot` and all others come in with a key. `factor` needs a second factor after it, asked at the keyboard.
The shell of `noisy` prints lines of its own before whatever a command prints.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path

from bed.command import Ended
from bed.parts.batch_root import USERS

WORDS = ("/usr/sbin/sshd", "-D", "-e", "-f", "/etc/bed/sshd_config")
# What the one that listens writes over its words, which those that serve a connection do not have.
LISTENER = b"[listener]"
ANSWER_S_MAX = 2
ANSWER_BYTES = 4
BANNER = "*** Welcome to the login node. Downtime: see the news. ***"
HOST_KEY = "etc/ssh/ssh_host_ed25519_key"
CONFIG = """Port {port}
ListenAddress 127.0.0.1
HostKey /{host_key}
PidFile none
UsePAM yes
UseDNS no
PermitRootLogin no
PasswordAuthentication no
KbdInteractiveAuthentication no
AllowTcpForwarding no
X11Forwarding no
PrintMotd no
PrintLastLog no
# Busy tests are not attackers.
MaxStartups 200
LogLevel VERBOSE
Match User factor
    KbdInteractiveAuthentication yes
    AuthenticationMethods publickey,keyboard-interactive:pam
"""
# Debian's bash reads this file also for a command that came by ssh.
NOISE = f"""echo '{BANNER}'
printf '\\033[1mtype `help` | = ; for help\\033[0m\\n'
echo 'your quota: 12,5 %' >&2
"""


def furnish(folder: Path, root: Path, port: int) -> None:
    """The files of the server, and the homes as far as they need no program."""
    (folder / "etc/sshd_config").write_text(CONFIG.format(port=port, host_key=HOST_KEY), encoding="utf-8")
    host_key = (root / f"{HOST_KEY}.pub").read_text(encoding="utf-8").split()
    known = f"[127.0.0.1]:{port} {host_key[0]} {host_key[1]}\n"
    (folder / "client/known_hosts").write_text(known, encoding="utf-8")
    noise = folder / "home/noisy/.bashrc"
    noise.write_text(NOISE, encoding="utf-8")
    os.chown(noise, USERS["noisy"], USERS["noisy"])


def make_keys(folder: Path, inside: Callable[..., Ended]) -> None:
    """One pair of keys for each user, of which the server knows the public half."""
    for user, number in USERS.items():
        path = folder / "client" / user
        inside("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", user, "-f", str(path)).must("no key")
        folder_of_keys = folder / "home" / user / ".ssh"
        folder_of_keys.mkdir(mode=0o700)
        known = folder_of_keys / "authorized_keys"
        known.write_text(path.with_suffix(".pub").read_text(encoding="utf-8"), encoding="utf-8")
        known.chmod(0o600)
        for each in (folder_of_keys, known):
            os.chown(each, number, number)


def answers(port: int) -> bool:
    """Whether somebody there speaks first, as ssh does."""
    try:
        with socket.create_connection(("127.0.0.1", port), ANSWER_S_MAX) as line:
            return line.recv(ANSWER_BYTES) == b"SSH-"
    except OSError:
        return False
