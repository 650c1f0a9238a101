"""Where a cluster is and who we are there: a kubeconfig or a pod's own mounts come in, an `Access` goes out.

Nothing is asked of the cluster here. A kubeconfig that switches verification off is refused, unless the
site's own settings say so too: then it is said in every status.
"""

from __future__ import annotations

import base64
import binascii
import os
import re
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import SplitResult, urlsplit

import yaml
from yaml.constructor import ConstructorError

from glidepath.core.text import nearest, one_line
from glidepath.kube.errors import AccessError

# A file for hundreds of clusters has half of this.
FILE_BYTES_MAX = 1 << 20
SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
EXEC_KINDS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
# It becomes part of the path of every request.
_NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_ADDRESS = re.compile(r"[!-~]+")


@dataclass(frozen=True, slots=True)
class ExecPlugin:
    """A program that prints credentials, as the kubeconfig asks for it."""

    command: str
    arguments: tuple[str, ...] = field(repr=False)  # Both may carry secrets.
    environ: tuple[tuple[str, str], ...] = field(repr=False)
    api_version: str
    hint: str = ""  # what its maker says to those who do not have it


@dataclass(frozen=True, slots=True)
class Access:
    """One cluster and one identity. Secrets are not shown when this is printed."""

    server: str
    namespace: str
    name: str  # for people: the context, or `in-cluster`
    ca: str = ""  # PEM text; empty: the machine's own authorities
    verified: bool = True
    server_name: str = ""  # another one than that of the address, for the certificate
    proxy: str = ""
    token: str = ""
    token_file: Path | None = None
    certificate: str = ""  # PEM text, with its key
    key: str = ""
    plugin: ExecPlugin | None = None

    def __repr__(self) -> str:
        return f"Access({self.name!r}, {self.server!r}, namespace={self.namespace!r})"


class Reach(Protocol):
    """What settings say of where a cluster is."""

    @property
    def kubeconfig(self) -> str: ...

    @property
    def context(self) -> str: ...

    @property
    def namespace(self) -> str: ...

    @property
    def tls_unverified(self) -> bool: ...


def access_of(settings: Reach) -> Access:
    if settings.kubeconfig:
        paths: tuple[Path, ...] = (Path(settings.kubeconfig),)
    else:
        paths = usual_paths()
        if not paths and not settings.context:
            return in_cluster(namespace=settings.namespace)
    return from_kubeconfig(
        paths, context=settings.context, namespace=settings.namespace, unverified=settings.tls_unverified
    )


def in_cluster(
    folder: Path = SERVICE_ACCOUNT, environ: Mapping[str, str] = os.environ, *, namespace: str = ""
) -> Access:
    host, port = environ.get("KUBERNETES_SERVICE_HOST", ""), environ.get("KUBERNETES_SERVICE_PORT", "443")
    if not host or not _may_exist(folder / "token"):
        raise AccessError(
            "this is not a pod with a service account; set `kubeconfig` to the file that `kubectl` uses"
        )
    shown = f"[{host}]" if ":" in host else host
    return Access(
        server=_server(f"https://{shown}:{port}", "KUBERNETES_SERVICE_HOST and _PORT")[0],
        namespace=_namespace(namespace or content_of(folder / "namespace").strip()),
        name="in-cluster",
        ca=content_of(folder / "ca.crt"),
        token_file=folder / "token",
    )


def from_kubeconfig(
    paths: Sequence[Path], *, context: str = "", namespace: str = "", unverified: bool = False
) -> Access:
    """As `kubectl` would read it: the first file that has a name wins."""
    merged = _Merged([(path, _document(path)) for path in paths])
    try:
        return _access(merged, context, namespace, unverified=unverified)
    except AccessError as error:
        raise AccessError(f"{merged.names}: {error}") from None


def usual_paths(environ: Mapping[str, str] = os.environ) -> tuple[Path, ...]:
    """Where `kubectl` looks."""
    listed = environ.get("KUBECONFIG", "")
    if listed:
        return tuple(Path(part) for part in listed.split(os.pathsep) if part and _may_exist(Path(part)))
    home = environ.get("HOME", "")
    usual = Path(home, ".kube", "config")
    return (usual,) if home and _may_exist(usual) else ()


def content_of(path: Path, bytes_max: int = FILE_BYTES_MAX) -> str:
    """The text of a file. Raises AccessError."""
    try:
        # Not to wait for a pipe that nobody writes to.
        if not stat.S_ISREG(path.stat().st_mode):
            raise AccessError(f"`{path}` is no file")
        with path.open("rb") as file:
            content = file.read(bytes_max + 1)
        if len(content) > bytes_max:
            raise AccessError(f"`{path}` is larger than {bytes_max >> 10} KiB; it is not read")
        return content.decode()
    except OSError as error:
        raise AccessError(f"`{path}` cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise AccessError(f"`{path}` is no text") from None
    except AccessError:
        raise
    except ValueError:
        raise AccessError(f"`{one_line(str(path))}` is no path") from None


def _access(merged: _Merged, context: str, namespace: str, *, unverified: bool) -> Access:
    chosen = context or merged.current
    if not chosen:
        raise AccessError("no `current-context`; set `context`")
    own, _ = merged.entry("contexts", "context", chosen)
    cluster, cluster_folder = merged.entry("clusters", "cluster", _text(own, "cluster"))
    user, user_folder = merged.entry("users", "user", _text(own, "user")) if own.get("user") else ({}, Path())
    _check_user(user)
    server, parts = _server(_text(cluster, "server"), f"the server of `{one_line(chosen)}`")
    skips = _flag(cluster, "insecure-skip-tls-verify") or parts.scheme == "http"
    if skips and not unverified:
        raise AccessError(
            f"`{one_line(chosen)}` does not check who the server is; anybody between could read the tokens. "
            "Give its `certificate-authority` and an `https` address, or accept it with "
            "`tls_unverified = true`"
        )
    token_file = _text(user, "tokenFile")
    certificate, key = (_pem(user, name, user_folder) for name in ("client-certificate", "client-key"))
    if bool(certificate) != bool(key):
        raise AccessError("a `client-certificate` and its `client-key` go together; one is missing")
    proxy = _text(cluster, "proxy-url")
    return Access(
        server=server,
        namespace=_namespace(namespace or _text(own, "namespace") or "default"),
        name=chosen,
        ca=_pem(cluster, "certificate-authority", cluster_folder),
        verified=not skips,
        server_name=_text(cluster, "tls-server-name"),
        proxy=_server(proxy, "`proxy-url`")[0] if proxy else "",
        token=_text(user, "token"),
        token_file=user_folder / token_file if token_file else None,
        certificate=certificate,
        key=key,
        plugin=_plugin(user.get("exec"), user_folder),
    )


def _check_user(user: Mapping[str, Any]) -> None:
    """Raises for ways to say who one is that would otherwise be left out without a word."""
    if user.get("auth-provider"):
        raise AccessError("`auth-provider` is no longer known; use an `exec` plug-in")
    if user.get("username") or user.get("password"):
        raise AccessError("passwords are not taken; use a token or a certificate")
    if any(user.get(key) for key in ("as", "as-uid", "as-groups", "as-user-extra")):
        raise AccessError("acting `as` somebody else is not supported; use an account of its own")


def _server(text: str, shown: str) -> tuple[str, SplitResult]:
    """The address as it is used, checked. It is not shown where it is wrong: it may carry a password."""
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        raise AccessError(f"{shown} is no address") from None
    plain = _ADDRESS.fullmatch(text) and not parts.query and not parts.fragment and port != 0
    if parts.scheme not in ("https", "http") or not parts.hostname or not plain:
        raise AccessError(f"{shown} is no address such as `https://host:6443`")
    if "@" in parts.netloc:
        raise AccessError(f"{shown} carries a password; those are not taken")
    return parts.geturl().rstrip("/"), parts


def _namespace(name: str) -> str:
    if not _NAMESPACE.fullmatch(name):
        raise AccessError(f"`{one_line(name)}` is no name of a namespace; set `namespace`")
    return name


def _may_exist(path: Path) -> bool:
    """False only where it is surely not there; another trouble is told when it is read."""
    try:
        return path.exists()
    except OSError:
        return True


class _Loader(yaml.SafeLoader):
    """Text, flags and nothing else: no dates, no numbers, no maps that merge and double.

    It is the slow one: the quick one, written in C, ends the program where brackets are nested deeply.
    """

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        if any(key.tag == "tag:yaml.org,2002:merge" for key, _ in node.value):
            raise ConstructorError(None, None, "`<<` is not taken", node.start_mark)


_Loader.yaml_implicit_resolvers = {
    letter: [(tag, form) for tag, form in forms if tag.rpartition(":")[2] in ("null", "bool", "merge")]
    for letter, forms in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


class _Merged:
    """Several files as one."""

    def __init__(self, files: list[tuple[Path, dict[str, Any]]]) -> None:
        if not files:
            raise AccessError("there is no kubeconfig; set `kubeconfig`, or run in a pod")
        self._files = files
        self.names = ", ".join(f"`{path}`" for path, _ in files)
        self.current = next((text for _, each in files if (text := _text(each, "current-context"))), "")

    def entry(self, listed: str, kind: str, name: str) -> tuple[dict[str, Any], Path]:
        """The table of that name, and the folder that its paths start from."""
        known: list[str] = []
        for path, document in self._files:
            rows = document.get(listed)
            for row in rows if isinstance(rows, list) else ():
                if not isinstance(row, dict) or not isinstance(row.get("name"), str):
                    continue
                if row["name"] == name and isinstance(row.get(kind), dict):
                    return row[kind], path.parent
                known.append(row["name"])
        close = nearest(name, known)
        hint = f"; did you mean `{one_line(close)}`?" if close else ""
        raise AccessError(f"there is no {kind} `{one_line(name)}`{hint}")


def _document(path: Path) -> dict[str, Any]:
    try:
        found = yaml.load(content_of(path), _Loader)
    except yaml.MarkedYAMLError as error:
        # Only the place: the line itself may hold a token.
        line = f" (see line {error.problem_mark.line + 1})" if error.problem_mark else ""
        raise AccessError(f"`{path}` is no YAML{line}, or has what no kubeconfig needs") from None
    except AccessError:
        raise
    except (yaml.YAMLError, ValueError, LookupError, AttributeError, TypeError, RecursionError):
        # Values that their own tags forbid come as anything.
        raise AccessError(f"`{path}` is no YAML that a kubeconfig could be") from None
    if not isinstance(found, dict):
        raise AccessError(f"`{path}` is no kubeconfig")
    return found


def _text(table: Mapping[str, Any], key: str) -> str:
    value = table.get(key)
    if value is not None and not isinstance(value, str):
        raise AccessError(f"`{key}` should be a text; put it in quotes")
    return value or ""


def _flag(table: Mapping[str, Any], key: str) -> bool:
    value = table.get(key)
    if value is not None and not isinstance(value, bool):
        raise AccessError(f"`{key}` should be `true` or `false`")
    return bool(value)


def _rows(table: Mapping[str, Any], key: str) -> list[Any]:
    value = table.get(key)
    if value is not None and not isinstance(value, list):
        raise AccessError(f"`{key}` should be a list")
    return value or []


def _pem(table: Mapping[str, Any], key: str, folder: Path) -> str:
    """Given in place, or as a file."""
    if given := _text(table, f"{key}-data"):
        try:
            return base64.b64decode("".join(given.split()), validate=True).decode()
        except (binascii.Error, ValueError):
            raise AccessError(f"`{key}-data` is no base64 of a text") from None
    named = _text(table, key)
    return content_of(folder / named) if named else ""


def _plugin(table: object, folder: Path) -> ExecPlugin | None:
    if table is None:
        return None
    if not isinstance(table, dict) or not (command := _text(table, "command")):
        raise AccessError("`exec` needs a `command`")
    kind = _text(table, "apiVersion") or EXEC_KINDS[0]
    if kind not in EXEC_KINDS:
        known = " and ".join(f"`{each}`" for each in EXEC_KINDS)
        raise AccessError(f"an `exec` of `{one_line(kind)}` is not known, only of {known}")
    if _text(table, "interactiveMode") == "Always":
        raise AccessError("the `exec` plug-in asks a person at a terminal; here is none")
    words = _rows(table, "args")
    if not all(isinstance(word, str) for word in words):
        raise AccessError("`args` of `exec` should be texts; put them in quotes")
    rows = _rows(table, "env")
    if not all(isinstance(row, dict) and _text(row, "name") for row in rows):
        raise AccessError("`env` of `exec` should be a list of names and values")
    # A command with a slash is meant from the folder of the file, as `kubectl` takes it.
    command = str(folder / command) if "/" in command else command
    return ExecPlugin(
        command=command,
        arguments=tuple(words),
        environ=tuple((_text(row, "name"), _text(row, "value")) for row in rows),
        api_version=kind,
        hint=_text(table, "installHint"),
    )
