"""Our own token is used however it was put there, and the new one as soon as it was replaced."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from glidepath.condor.copies import TokenCopies
from glidepath.condor.tokens import TOKEN_BYTES_MAX


class Mounted:
    """A Secret as a kubelet mounts it: names lead through `..data` to the folder of one version."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.version = 0
        folder.mkdir()

    def put(self, **files: str) -> None:
        self.version += 1
        new = self.folder / f"..{self.version}"
        new.mkdir()
        for name, text in files.items():
            (new / name).write_text(text)
        link = self.folder / "..data_tmp"
        link.symlink_to(new.name)
        link.replace(self.folder / "..data")
        for path in self.folder.iterdir():
            if not path.name.startswith(".") and path.name not in files:
                path.unlink()
        for name in files:
            if not (self.folder / name).is_symlink():
                (self.folder / name).symlink_to(f"..data/{name}")


def contents(folder: Path) -> dict[str, str]:
    assert all(path.is_file() and not path.is_symlink() for path in folder.iterdir())
    return {path.name: path.read_text() for path in folder.iterdir()}


def test_a_mounted_secret_is_copied_and_followed_when_it_is_exchanged(tmp_path: Path) -> None:
    secret = Mounted(tmp_path / "secret")
    copies = TokenCopies(secret.folder, tmp_path / "home/tokens.d/p")
    secret.put(token="one")
    assert copies.renew() == ""
    assert contents(copies.folder) == {"token": "one"}
    secret.put(token="two", other="three")
    assert copies.renew() == ""
    assert contents(copies.folder) == {"token": "two", "other": "three"}
    secret.put(other="three")
    assert copies.renew() == ""
    assert contents(copies.folder) == {"other": "three"}


def test_copies_are_nobody_elses_and_unchanged_ones_are_left_alone(tmp_path: Path) -> None:
    secret = Mounted(tmp_path / "secret")
    copies = TokenCopies(secret.folder, tmp_path / "home/tokens.d/p")
    secret.put(token="one")
    copies.renew()
    before = (copies.folder / "token").stat()
    assert (copies.folder.stat().st_mode & 0o777, before.st_mode & 0o777) == (0o700, 0o600)
    copies.renew()
    assert (copies.folder / "token").stat().st_ino == before.st_ino
    (copies.folder / "token").write_text("spoilt")
    copies.renew()
    assert contents(copies.folder) == {"token": "one"}


def test_what_cannot_be_read_is_told_and_costs_no_other_token(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (source / "good").write_text("good")
    (source / "gone").symlink_to("nowhere")
    os.mkfifo(source / "pipe")
    (source / "wide").write_bytes(b"x" * (TOKEN_BYTES_MAX + 1))
    copies = TokenCopies(source, tmp_path / "copies")
    assert copies.renew() == f"our own token `{source}/gone`: No such file or directory"
    assert contents(copies.folder) == {"good": "good"}
    (source / "gone").unlink()
    assert copies.renew() == f"our own token `{source}/pipe`: it is no file"
    (source / "pipe").unlink()
    assert copies.renew() == f"our own token `{source}/wide`: it has more than 64 KiB"


def test_a_token_that_cannot_be_read_for_a_moment_is_kept(tmp_path: Path) -> None:
    secret = Mounted(tmp_path / "secret")
    copies = TokenCopies(secret.folder, tmp_path / "copies")
    secret.put(token="one")
    copies.renew()
    (secret.folder / "..data").unlink()
    assert "No such file" in copies.renew()
    assert contents(copies.folder) == {"token": "one"}


@pytest.mark.parametrize("lacks", ["source", "copies"])
def test_folders_that_are_no_use_are_told(lacks: str, tmp_path: Path) -> None:
    source, copies = tmp_path / "source", tmp_path / "copies"
    (copies if lacks == "source" else source).mkdir()
    (source if lacks == "source" else copies).write_text("a file")
    told = TokenCopies(source, copies).renew()
    assert told.startswith("our own tokens")
    assert str(tmp_path / lacks) in told
