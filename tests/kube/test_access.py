"""A kubeconfig is read as `kubectl` reads it, and what it cannot mean is said before anything is asked."""

from __future__ import annotations

import base64
import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glidepath.kube.access import (
    FILE_BYTES_MAX,
    Access,
    ExecPlugin,
    from_kubeconfig,
    in_cluster,
    usual_paths,
)
from glidepath.kube.errors import AccessError

SECRET = "s3cr3t-t0k3n"
KIND = "client.authentication.k8s.io/v1"
Table = dict[str, Any]


def config(
    *, cluster: Table | None = None, user: Table | None = None, context: Table | None = None, **more: Any
) -> Table:
    return {
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u", **(context or {})}}],
        "clusters": [{"name": "c", "cluster": {"server": "https://h.example:6443/", **(cluster or {})}}],
        "users": [{"name": "u", "user": {"token": SECRET} if user is None else user}],
        **more,
    }


def written(folder: Path, table: object, name: str = "config") -> Path:
    """JSON is YAML too."""
    path = folder / name
    path.write_text(table if isinstance(table, str) else json.dumps(table))
    return path


def access(folder: Path, table: object, **more: Any) -> Access:
    return from_kubeconfig([written(folder, table)], **more)


def refused(folder: Path, table: object, **more: Any) -> str:
    """The sentence. No secret is ever part of one."""
    with pytest.raises(AccessError) as caught:
        access(folder, table, **more)
    assert SECRET not in str(caught.value)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_usual_file(tmp_path: Path) -> None:
    expected = Access("https://h.example:6443", "default", "here", token=SECRET)
    assert access(tmp_path, config()) == expected
    assert SECRET not in repr(expected)
    assert access(tmp_path, config(context={"namespace": "mine"})).namespace == "mine"
    assert access(tmp_path, config(context={"namespace": "mine"}), namespace="other").namespace == "other"
    assert access(tmp_path, config(user={})).token == ""


def test_it_may_be_written_by_hand(tmp_path: Path) -> None:
    text = """
current-context: here
contexts: [{name: here, context: {cluster: 12, user: u, namespace: ~}}]
clusters: [{name: 12, cluster: &c {server: "https://h.example", insecure-skip-tls-verify: false}}]
users:
- name: u
  user: {token: 123456}
preferences: {colors: true}
"""
    found = access(tmp_path, text)
    assert found == Access("https://h.example", "default", "here", token="123456")


def test_a_context_that_is_not_there_is_guessed_at(tmp_path: Path) -> None:
    rows = [{"name": name, "context": {"cluster": "c"}} for name in ("production", "staging")]
    table = config(contexts=rows)
    assert access(tmp_path, table, context="staging").name == "staging"
    said = refused(tmp_path, table, context="prodction")
    assert said.endswith("there is no context `prodction`; did you mean `production`?")
    assert "config`" in said
    assert "did you mean" not in refused(tmp_path, table, context="x")


@pytest.mark.parametrize(
    ("table", "words"),
    [
        (config(**{"current-context": ""}), "no `current-context`; set `context`"),
        (config(contexts=None), "no context `here`"),
        (config(contexts="x"), "no context `here`"),
        (
            config(contexts=[None, 5, {"name": 5}, {"name": "here"}, {"name": "here", "context": 1}]),
            "no context",
        ),
        (config(context={"cluster": None}), "no cluster ``"),
        (config(context={"cluster": ["c"]}), "`cluster` should be a text"),
        (config(context={"user": "v"}), "there is no user `v`"),
        (config(context={"namespace": True}), "`namespace` should be a text"),
        (config(context={"namespace": "a/../b"}), "`a/../b` is no name of a namespace"),
        (config(cluster={"server": ""}), "is no address"),
        (config(cluster={"server": "h.example:6443"}), "is no address"),
        (config(cluster={"server": "ftp://h.example"}), "is no address"),
        (config(cluster={"server": "https://[::1"}), "is no address"),
        (config(cluster={"server": "https://h:99999"}), "is no address"),
        (config(cluster={"server": "https://h.example/?a=b"}), "is no address"),
        (config(cluster={"server": "https://h.exa\nmple"}), "is no address"),
        (config(cluster={"server": f"https://me:{SECRET}@h.example"}), "carries a password"),
        (config(cluster={"proxy-url": "socks5://p.example"}), "`proxy-url` is no address"),
        (config(cluster={"proxy-url": f"http://me:{SECRET}@p.example"}), "carries a password"),
        (config(cluster={"certificate-authority-data": "!!!"}), "`certificate-authority-data` is no base64"),
        (config(cluster={"certificate-authority-data": "/w=="}), "is no base64 of a text"),
        (config(cluster={"certificate-authority-data": "Zé"}), "is no base64 of a text"),
        (
            config(cluster={"certificate-authority": "nowhere.crt"}),
            "nowhere.crt` cannot be read: No such file",
        ),
        (config(cluster={"certificate-authority": "."}), "is no file"),
        (config(cluster={"certificate-authority": "a\0b"}), "is no path"),
        (config(cluster={"certificate-authority": 5.5}), "5.5` cannot be read"),
        (config(cluster={"insecure-skip-tls-verify": "true"}), "should be `true` or `false`"),
        (config(cluster={"insecure-skip-tls-verify": True}), "does not check who the server is"),
        (config(cluster={"server": "http://h.example"}), "does not check who the server is"),
        (config(cluster={"server": "HTTP://h.example"}), "accept it with `tls_unverified = true`"),
        (config(user={"auth-provider": {"name": "gcp"}}), "`auth-provider` is no longer known"),
        (config(user={"username": "a", "password": SECRET}), "passwords are not taken"),
        (config(user={"password": SECRET}), "passwords are not taken"),
        (config(user={"token": SECRET, "as": "root"}), "acting `as` somebody else"),
        (config(user={"token": [SECRET]}), "`token` should be a text"),
        (config(user={"client-certificate-data": "YQ=="}), "go together; one is missing"),
        (config(user={"exec": {}}), "`exec` needs a `command`"),
        (config(user={"exec": "get-token"}), "`exec` needs a `command`"),
        (config(user={"exec": {"command": "x", "args": [SECRET, None]}}), "`args` of `exec`"),
        (config(user={"exec": {"command": "x", "args": SECRET}}), "`args` should be a list"),
        (config(user={"exec": {"command": "x", "env": [{"value": SECRET}]}}), "`env` of `exec`"),
        (config(user={"exec": {"command": "x", "interactiveMode": "Always"}}), "a person at a terminal"),
        (config(user={"exec": {"command": "x", "apiVersion": "b/v1alpha1"}}), "of `b/v1alpha1` is not known"),
    ],
)
def test_what_cannot_be_used_is_said(tmp_path: Path, table: Table, words: str) -> None:
    said = refused(tmp_path, table)
    assert words in said
    assert str(tmp_path / "config") in said


@pytest.mark.parametrize(
    "cluster",
    [{"insecure-skip-tls-verify": True}, {"server": "http://h.example"}, {"server": "HTTP://h.example"}],
)
def test_a_server_is_unverified_only_where_file_and_settings_say_so(tmp_path: Path, cluster: Table) -> None:
    assert not access(tmp_path, config(cluster=cluster), unverified=True).verified
    assert access(tmp_path, config(), unverified=True).verified


def test_an_address_is_written_in_one_way(tmp_path: Path) -> None:
    assert (
        access(tmp_path, config(cluster={"server": "HTTPS://h.example:1/k8s/"})).server
        == "https://h.example:1/k8s"
    )


def test_paths_start_at_the_folder_of_their_file(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    for folder in (one, two):
        (folder / "pki").mkdir(parents=True)
        (folder / "pki/x.pem").write_text(f"PEM of {folder.name}")
    cluster = {"server": "https://h.example", "certificate-authority": "pki/x.pem"}
    plugin = {"command": "bin/get-token", "args": ["a"], "env": [{"name": "A", "value": "b"}]}
    user = {"client-certificate": str(one / "pki/x.pem"), "client-key": "pki/x.pem", "tokenFile": "tok"}
    first = {"clusters": [{"name": "c", "cluster": cluster}]}
    second = config(user={**user, "exec": {**plugin, "apiVersion": f"{KIND}beta1"}})
    found = from_kubeconfig([written(one, first), written(two, second)])
    assert (found.ca, found.certificate, found.key) == ("PEM of one", "PEM of one", "PEM of two")
    assert found.token_file == two / "tok"
    expected = ExecPlugin(str(two / "bin/get-token"), ("a",), (("A", "b"),), f"{KIND}beta1")
    assert found.plugin == expected
    assert "'a'" not in repr(expected)
    plain = access(one, config(user={"exec": {"command": "get-token"}})).plugin
    assert plain == ExecPlugin("get-token", (), (), KIND)


def test_given_in_place_wins_over_a_file(tmp_path: Path) -> None:
    given_here = base64.encodebytes(b"PEM" * 50).decode()
    cluster = {"certificate-authority-data": given_here, "certificate-authority": "nowhere"}
    assert access(tmp_path, config(cluster=cluster)).ca == "PEM" * 50


def test_of_several_files_the_first_that_has_a_name_wins(tmp_path: Path) -> None:
    a = written(tmp_path, {"current-context": "", "users": [{"name": "u", "user": {"token": "first"}}]}, "a")
    b = written(tmp_path, config(user={"token": "second"}), "b")
    c = written(tmp_path, config(user={"token": "third"}, **{"current-context": "other"}), "c")
    assert from_kubeconfig([a, b, c]).token == "first"
    assert from_kubeconfig([b, c, a]).token == "second"
    with pytest.raises(AccessError, match=r"a`, `.*c`: there is no context `other`"):
        from_kubeconfig([a, c])
    environ = {"KUBECONFIG": os.pathsep.join([str(b), "", str(tmp_path / "missing"), str(a)]), "HOME": "/"}
    assert usual_paths(environ) == (b, a)
    assert usual_paths({}) == ()
    assert usual_paths({"HOME": str(tmp_path)}) == ()
    (tmp_path / ".kube").mkdir()
    assert usual_paths({"HOME": str(tmp_path)}) == ()
    usual = written(tmp_path / ".kube", config())
    assert usual_paths({"HOME": str(tmp_path), "KUBECONFIG": ""}) == (usual,)
    with pytest.raises(AccessError, match="there is no kubeconfig"):
        from_kubeconfig([])


def merging() -> str:
    rows = [f"a{n}: &a{n} {{<<: [*a{n - 1}, *a{n - 1}]}}" for n in range(1, 40)]
    return "\n".join(["a0: &a0 {x: y}", *rows])


BROKEN = {
    "merging": (merging(), "no YAML (see line 2)"),
    "deep": ("[" * 3_000, "no YAML"),
    "deep maps": ("x: " + "{a: " * 2_000, "no YAML"),
    "colon": (f"users:\n- token: {SECRET}: x", "no YAML (see line 2)"),
    "alias": (f"token: *{SECRET}", "no YAML (see line 1)"),
    "object": ("a: !!python/object/apply:os.getcwd []", "no YAML"),
    "no number": ("a: !!int x", "no YAML"),
    "no time": ("a: !!timestamp x", "no YAML"),
    "no flag": ("a: !!bool maybe", "no YAML"),
    "map as key": ("{a: b}: c", "no YAML"),
    "bell": ("a: \x07", "no YAML"),
    "empty": ("", "is no kubeconfig"),
    "list": ("- a", "is no kubeconfig"),
    "huge": ("a: " + "x" * FILE_BYTES_MAX, "is larger than 1024 KiB"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_file_that_is_no_kubeconfig_does_no_harm(tmp_path: Path, name: str) -> None:
    text, words = BROKEN[name]
    assert words in refused(tmp_path, text)


def test_anchors_that_multiply_are_shared_and_dates_are_text(tmp_path: Path) -> None:
    rows = [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 30)]
    text = "\n".join(["a0: &a0 [x]", *rows, "current-context: 2024-99-99"])
    assert "no context `2024-99-99`" in refused(tmp_path, text)


def test_what_is_no_text_and_what_never_ends_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"a: \xff")
    os.mkfifo(tmp_path / "pipe")
    for name, words in (("binary", "is no text"), ("pipe", "is no file"), ("none", "No such file")):
        with pytest.raises(AccessError, match=words):
            from_kubeconfig([tmp_path / name])


@given(st.text(max_size=60))
def test_any_text_is_a_kubeconfig_or_a_sentence(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    path = tmp_path_factory.getbasetemp() / "any"
    path.write_text(text, errors="replace")
    with pytest.raises(AccessError):
        from_kubeconfig([path])


class TestInAPod:
    def folder(self, tmp_path: Path, **more: str) -> Path:
        for name, text in {"token": SECRET, "namespace": "mine\n", "ca.crt": "PEM", **more}.items():
            (tmp_path / name).write_text(text)
        return tmp_path

    @pytest.mark.parametrize(
        ("host", "port", "server"),
        [
            ("10.0.0.1", "443", "https://10.0.0.1:443"),
            ("fd00::1", "6443", "https://[fd00::1]:6443"),
            ("kube.example", None, "https://kube.example:443"),
        ],
    )
    def test_the_mounts_say_everything(
        self, tmp_path: Path, host: str, port: str | None, server: str
    ) -> None:
        environ = {"KUBERNETES_SERVICE_HOST": host}
        if port:
            environ["KUBERNETES_SERVICE_PORT"] = port
        folder = self.folder(tmp_path)
        expected = Access(server, "mine", "in-cluster", ca="PEM", token_file=folder / "token")
        assert in_cluster(folder, environ) == expected
        assert in_cluster(folder, environ, namespace="other").namespace == "other"

    @pytest.mark.parametrize(
        ("more", "environ", "words"),
        [
            ({}, {}, "not a pod with a service account; set `kubeconfig`"),
            ({}, {"KUBERNETES_SERVICE_HOST": "h", "KUBERNETES_SERVICE_PORT": "x"}, "is no address"),
            ({"namespace": ""}, {"KUBERNETES_SERVICE_HOST": "h"}, "`` is no name of a namespace"),
            ({"namespace": "a/b"}, {"KUBERNETES_SERVICE_HOST": "h"}, "`a/b` is no name of a namespace"),
        ],
    )
    def test_what_is_wrong_is_said(
        self, tmp_path: Path, more: dict[str, str], environ: dict[str, str], words: str
    ) -> None:
        with pytest.raises(AccessError, match=words):
            in_cluster(self.folder(tmp_path, **more), environ)

    def test_a_mount_that_is_missing_is_named(self, tmp_path: Path) -> None:
        folder = self.folder(tmp_path)
        (folder / "ca.crt").unlink()
        with pytest.raises(AccessError, match=r"ca.crt` cannot be read: No such file"):
            in_cluster(folder, {"KUBERNETES_SERVICE_HOST": "h"})
        (folder / "token").unlink()
        with pytest.raises(AccessError, match="not a pod with a service account"):
            in_cluster(folder, {"KUBERNETES_SERVICE_HOST": "h"})
