"""A file that is no good becomes a problem in words, quickly, and never a traceback."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest
from config_builders import CATALOG, GOOD, loaded, written

from glidepath.config import EXAMPLE, ConfigError, load
from glidepath.config.files import FILES_MAX


def said_of(path: Path) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        load(path, catalog=CATALOG)
    return str(caught.value).replace(f"{path.parent}/", "").splitlines()


TOO_DEEP = "is nested deeper than 32 or has a key of more than 16 parts; no setting stands that deep"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"\xff\xfe", ":1: is not UTF-8 text; save the file as UTF-8"),
        (b"a = 1\nb = '\xe9'\n", ":2: is not UTF-8 text; save the file as UTF-8"),
        (b"a = 1\n\n\0", ":3: holds a NUL byte; this is not a text file; write it anew as UTF-8"),
        (b"\xef\xbb\xbfa = 1", ":1: begins with a byte order mark; save the file as UTF-8 without one"),
        (b"a = 1\nb = \n", ":2: is not valid TOML: "),
        (b"a = 1\n[b", ":2: is not valid TOML: "),
        (b'a = """\n\n', ":2: is not valid TOML: "),
        (b"a = 1\x1b[31m", ":1: is not valid TOML: "),
        (b"x = 1\ny = " + b"[" * 1000, f":2: {TOO_DEEP}"),
        (b"a" + b".a" * 400_000 + b" = 1", f":1: {TOO_DEEP}"),
    ],
    ids=range(10),
)
def test_bad_content_is_named_with_its_line(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "glidepath.toml"
    path.write_bytes(content)
    (line,) = said_of(path)
    assert line.startswith(f"glidepath.toml{said}")


def test_an_endless_number_is_a_problem(tmp_path: Path) -> None:
    (said,) = said_of(written(tmp_path, "a = " + "1" * 10_000))
    assert said.startswith("glidepath.toml: is not valid TOML: Exceeds the limit")


@pytest.mark.parametrize(("mib", "shown"), [(50, "50.0"), (100 * 1024, "102400.0")])
def test_a_huge_file_is_refused_by_its_size_before_it_is_read(tmp_path: Path, mib: int, shown: str) -> None:
    path = tmp_path / "glidepath.toml"
    with path.open("wb") as opened:
        opened.truncate(mib * 1024**2)  # Sparse: were it read, its first byte would be the complaint.
    assert said_of(path) == [
        f"glidepath.toml: is {shown} MiB large, and 1 MiB is the most that is read; "
        "is this the right file? Parts can go into `conf.d/`"
    ]


def test_what_is_not_a_plain_file_is_not_opened(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.toml"
    os.mkfifo(pipe)
    assert said_of(pipe) == ["pipe.toml: is not a plain file; put the settings into a plain file"]
    folder = tmp_path / "folder.toml"
    folder.mkdir()
    assert said_of(folder) == [
        "folder.toml: is a folder, not a file; name the file, for example `glidepath.toml`"
    ]
    assert said_of(Path("/dev/zero"))[0].endswith("is not a plain file; put the settings into a plain file")


def test_missing_looping_and_unreadable_files_are_problems(tmp_path: Path) -> None:
    assert said_of(tmp_path / "none.toml") == ["none.toml: there is no such file; check the path"]
    loop = tmp_path / "loop.toml"
    loop.symlink_to(loop)
    assert said_of(loop) == [
        "loop.toml: cannot be read: Too many levels of symbolic links; check the path and its permissions"
    ]
    # A plain file of no size whose reading fails, for root too.
    assert said_of(Path("/proc/self/mem")) == [
        "mem: cannot be read: Input/output error; check the path and its permissions"
    ]
    assert "cannot be read: " in said_of(tmp_path / "a\0b")[0]
    assert "cannot be read: File name too long" in said_of(tmp_path / ("a" * 300))[0]


def test_names_of_files_do_not_reach_the_terminal_unescaped(tmp_path: Path) -> None:
    path = tmp_path / "a\x1b[31m\n\u202eb.toml"
    assert said_of(path) == ["a\\x1b[31m\\n\\u202eb.toml: there is no such file; check the path"]


def test_conf_d_is_read_in_order_without_hidden_files(tmp_path: Path) -> None:
    found = loaded(tmp_path, GOOD, b="[limits]\nlive_max = 7\n", a="")
    (tmp_path / "conf.d" / ".#a.toml").symlink_to("nowhere")
    (tmp_path / "conf.d" / "a.toml~").write_text("rubbish")
    again = load(tmp_path / "glidepath.toml", catalog=CATALOG)
    assert again == found
    assert [file.name for file in again.files] == ["glidepath.toml", "a.toml", "b.toml"]
    assert again.settings.limits.live_max == 7


def test_conf_d_that_is_no_folder_or_too_full_is_a_problem(tmp_path: Path) -> None:
    path = written(tmp_path)
    (tmp_path / "conf.d").write_text("")
    assert said_of(path) == ["conf.d: cannot be read: Not a directory; check the path and its permissions"]
    (tmp_path / "conf.d").unlink()
    (tmp_path / "conf.d").mkdir()
    for number in range(FILES_MAX + 1):
        (tmp_path / "conf.d" / f"{number}.toml").touch()
    assert said_of(path) == ["conf.d: has 1001 files, and 1000 are the most that are read; join some of them"]


def test_all_files_together_are_bounded(tmp_path: Path) -> None:
    filler = "#" * (1024**2 - 1)
    path = written(tmp_path, GOOD, **{f"f{number:02d}": filler for number in range(16)})
    assert said_of(path) == [
        "conf.d/f15.toml: all files together are over 16 MiB; the rest is left out; "
        "make the configuration smaller"
    ]


def test_the_digest_follows_the_content(tmp_path: Path) -> None:
    first = loaded(tmp_path)
    assert loaded(tmp_path).digest == first.digest
    assert loaded(tmp_path, GOOD + "# changed\n").digest != first.digest


def test_windows_line_ends_are_read(tmp_path: Path) -> None:
    path = tmp_path / "glidepath.toml"
    path.write_bytes((GOOD + "wieght = 1\n").replace("\n", "\r\n").encode())
    assert said_of(path) == [
        "glidepath.toml:11: sites.west.offers.small.wieght: unknown key; did you mean `weight`?"
    ]


ODD = (b"\0", b"\xff", b'"', b"'''", b"[", b"]]", b"{", b"=", b".", b"\n", b"-1", b"1e999", b"nan")
ODD += (b"true", b"2030-01-01", b'"x"', b"\xe2\x80\xae", b"#", b"own", b"numbers", b"[[sites]]\n", b"9" * 20)


def mutated(text: str, chance: random.Random) -> bytes:
    """The text with one to three small accidents: cuts, doublings, swaps, odd bytes, odd words."""
    content = bytearray(text.encode())
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        at = chance.randrange(len(content))
        end = min(len(content), at + chance.randint(1, 30))
        match chance.randrange(4):
            case 0:
                del content[at:end]
            case 1:
                content[at:at] = content[at:end]
            case 2:
                content[at:at] = chance.choice(ODD)
            case _:
                content[at:end] = chance.choice(ODD)
    return bytes(content) or b"#"


def outcome_of(path: Path) -> str:
    try:
        load(path, catalog=CATALOG)
    except ConfigError as error:
        return str(error)
    return ""


def test_2000_damaged_files_give_settings_or_problems_and_nothing_else(tmp_path: Path) -> None:
    chance = random.Random(3)
    path = tmp_path / "glidepath.toml"
    good = bad = 0
    for _ in range(2000):
        path.write_bytes(mutated(EXAMPLE, chance))
        said = outcome_of(path)
        assert all(line.isprintable() for line in said.split("\n"))
        good, bad = good + (not said), bad + bool(said)
    assert good > 20
    assert bad > 1000
