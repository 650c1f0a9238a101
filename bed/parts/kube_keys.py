"""Keys and certificates of a cluster: a folder and names come in, files made by openssl go out.

One authority signs the servers and the users of one cluster, and goes with its folder. Nothing here is meant
to outlive a test.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from bed.command import run
from bed.packages import environ

DAYS = "2"
TOOL_S_MAX = 30


def openssl(*words: str, given: str | None = None) -> None:
    run(["openssl", *words], environ=environ(), limit_s=TOOL_S_MAX, given=given).must("no key was made")


def new_key(path: Path) -> None:
    openssl("ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", str(path))
    path.chmod(0o600)


def make_authority(folder: Path) -> None:
    """`ca.key` and `ca.crt`, and the key pair by which tokens of service accounts are signed."""
    new_key(folder / "ca.key")
    openssl(
        *("req", "-x509", "-new", "-key", str(folder / "ca.key"), "-out", str(folder / "ca.crt")),
        *("-days", DAYS, "-subj", "/CN=bed"),
        *("-addext", "keyUsage=critical,keyCertSign,cRLSign,digitalSignature"),
    )
    new_key(folder / "accounts.key")
    openssl("ec", "-in", str(folder / "accounts.key"), "-pubout", "-out", str(folder / "accounts.pub"))


def make_certificate(
    folder: Path, name: str, *, user: str, groups: Sequence[str] = (), names: Sequence[str] = ()
) -> None:
    """`name.key` and `name.crt`: of a server where it has `names`, of a client otherwise."""
    key, request, certificate = (folder / f"{name}.{ending}" for ending in ("key", "csr", "crt"))
    new_key(key)
    subject = "".join(f"/{kind}={plain(text)}" for kind, text in [*(("O", g) for g in groups), ("CN", user)])
    openssl("req", "-new", "-key", str(key), "-out", str(request), "-subj", subject)
    lines: Mapping[str, str] = {
        "basicConstraints": "critical,CA:FALSE",
        "keyUsage": "critical,digitalSignature",
        "extendedKeyUsage": "serverAuth" if names else "clientAuth",
        "authorityKeyIdentifier": "keyid",
        **({"subjectAltName": ",".join(names)} if names else {}),
    }
    extensions = folder / f"{name}.ext"
    extensions.write_text("".join(f"{key}={value}\n" for key, value in lines.items()), encoding="utf-8")
    openssl(
        *("x509", "-req", "-in", str(request), "-out", str(certificate), "-days", DAYS),
        *("-CA", str(folder / "ca.crt"), "-CAkey", str(folder / "ca.key"), "-CAcreateserial"),
        *("-extfile", str(extensions)),
    )
    for path in (request, extensions):
        path.unlink()


def plain(text: str) -> str:
    """The text as openssl takes it in a subject, where a slash would begin another field."""
    return text.replace("\\", "\\\\").replace("/", "\\/")
