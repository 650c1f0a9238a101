"""Every mistake is named with its file, line, key and what to write instead; all of them at once."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
from config_builders import CATALOG, GOOD, FakeCatalog, Plain, loaded, problems
from pydantic import BaseModel

from glidepath.config import ConfigError
from glidepath.plugins import BACKENDS, POLICIES

DURATIONS = "`90s`, `15m`, `2h`, `1d`, `1w`, `1h30m`, `HH:MM:SS` or `D-HH:MM:SS`"
SIZES = "`512MiB`, `4GiB`, `1TiB`, or `4GB` for powers of ten"
NAME = (
    "is not a usable name; write up to 40 small letters, digits and `-`, with a letter or digit at both ends"
)
OFFER = "[sites.west.offers.small]\ncpus = 4\n"


def changed(old: str, new: str) -> str:
    assert old in GOOD
    return GOOD.replace(old, new)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (GOOD, []),
        (
            changed('kind = "local"', 'kind = "local"\npatince = "5m"'),
            ["glidepath.toml:6: sites.west.patince: unknown key; did you mean `patience`?"],
        ),
        (
            changed('kind = "local"', 'kind = "local"\nlive_max = 5'),
            ["glidepath.toml:6: sites.west.live_max: unknown key; did you mean `limits.live_max`?"],
        ),
        (
            changed('kind = "local"', 'kind = "local"\nown = { a = 1 }'),
            [
                "glidepath.toml:6: sites.west.own: unknown key; "
                "a sub-table of its own must be named like the `kind`"
            ],
        ),
        (GOOD + "\n[site.east]\n", ["glidepath.toml:12: site: unknown table or key; did you mean `sites`?"]),
        (GOOD + "xyzzy = 1\n", ["glidepath.toml:11: sites.west.offers.small.xyzzy: unknown key"]),
        (
            changed('"8GiB"', "8"),
            [f"glidepath.toml:10: sites.west.offers.small.memory: `8` has no unit; write {SIZES}"],
        ),
        (
            changed('"8GiB"', '"8 bananas"'),
            [f"glidepath.toml:10: sites.west.offers.small.memory: `8 bananas` is not a size; write {SIZES}"],
        ),
        (
            GOOD + "lifetime = 14\n",
            [f"glidepath.toml:11: sites.west.offers.small.lifetime: `14` has no unit; write {DURATIONS}"],
        ),
        (
            GOOD + 'lifetime = "0s"\n',
            ["glidepath.toml:11: sites.west.offers.small.lifetime: must be longer than nothing"],
        ),
        (
            changed("cpus = 4", "cpus = true"),
            [
                "glidepath.toml:9: sites.west.offers.small.cpus: must be a number of CPUs such as `4` or "
                "`0.5`, or `500m` for thousandths"
            ],
        ),
        (
            changed("cpus = 4", "cpus = 0"),
            [
                "glidepath.toml:9: sites.west.offers.small.cpus: a pilot needs some CPU; "
                "write at least `cpus = 1`"
            ],
        ),
        (
            changed("cpus = 4\n", ""),
            [
                "glidepath.toml:8: sites.west.offers.small.cpus: this key is needed; "
                "CPUs of a pilot; of the largest one where the offer is fitted"
            ],
        ),
        (
            GOOD + 'lifetime = "5m"\nidle = "10m"\n',
            [
                "glidepath.toml:11: sites.west.offers.small.lifetime: `5m` is shorter than `idle`, `10m`; "
                "a pilot would end before it could be idle for long enough to leave"
            ],
        ),
        (
            GOOD + "weight = -1\n",
            ["glidepath.toml:11: sites.west.offers.small.weight: must be 1 or more, not `-1`"],
        ),
        (
            GOOD + 'weight = "x\\ny"\n',
            [
                "glidepath.toml:11: sites.west.offers.small.weight: must be a whole number, "
                'not the text `"x\\ny"`'
            ],
        ),
        (
            GOOD + "fitted = true\nmin = { cpus = 8 }\n",
            [
                "glidepath.toml:12: sites.west.offers.small.min: the smallest pilot, 8 CPU 0MiB, is larger "
                "than the offer, 4 CPU 8GiB; lower `min` or raise the size of the offer"
            ],
        ),
        (
            GOOD + "min = { cpus = 1 }\n",
            [
                "glidepath.toml:11: sites.west.offers.small.min: is only for fitted offers; "
                "add `fitted = true` or remove it"
            ],
        ),
        (
            GOOD + "fitted = true\nchoices = { gpu_type = [] }\n",
            [
                "glidepath.toml:12: sites.west.offers.small.choices.gpu_type: "
                "must be a list with at least one entry, not an empty list"
            ],
        ),
        (
            changed('pools = ["campus"]', 'pools = ["campsu"]'),
            ["glidepath.toml:6: sites.west.pools[1]: there is no pool `campsu`; did you mean `campus`?"],
        ),
        (
            GOOD + '[budgets.cloud]\namount = 5\nsites = ["wets"]\n',
            ["glidepath.toml:13: budgets.cloud.sites[1]: there is no site `wets`; did you mean `west`?"],
        ),
        (
            GOOD + '[budgets.cloud]\namount = -5\nper = "year"\n',
            [
                "glidepath.toml:12: budgets.cloud.amount: must be a number from 0 to 1000000000000, "
                "such as `0.25`",
                "glidepath.toml:13: budgets.cloud.per: must be `day` or `week` or `month`, "
                'not the text `"year"`',
            ],
        ),
        (
            GOOD + '[partitions.batch]\npool = "zebra"\n',
            ["glidepath.toml:12: partitions.batch.pool: there is no pool `zebra`; there are: `campus`"],
        ),
        (
            changed('"local"', '"locall"'),
            [
                "glidepath.toml:5: sites.west.kind: there is no kind `locall`; "
                "did you mean `local`? installed: `local`"
            ],
        ),
        (
            changed('kind = "embedded"', 'kind = "zz"'),
            ["glidepath.toml:2: pools.campus.kind: there is no kind `zz`; installed: `embedded`"],
        ),
        (
            changed('kind = "embedded"\n', ""),
            [
                "glidepath.toml:1: pools.campus.kind: this key is needed; "
                "which kind of pool this is: `embedded`, or `condor` for one of HTCondor"
            ],
        ),
        (
            GOOD + '[policy]\nname = "steddy"\n',
            [
                "glidepath.toml:12: policy.name: there is no policy `steddy`; "
                "did you mean `steady`? installed: `seed`, `steady`"
            ],
        ),
        (
            GOOD + '[policy]\nname = "seed"\nnmim = 4\n',
            ["glidepath.toml:13: policy.nmim: unknown key; did you mean `nmin`?"],
        ),
        (
            GOOD + "[policy]\nrelease_after = 5\n",
            [
                "glidepath.toml:12: policy.release_after: is a duration and needs a unit; "
                'write for example `release_after = "5m"`'
            ],
        ),
        (
            GOOD + '[policy]\nwaiting_max = "5m"\n',
            [
                "glidepath.toml:12: policy.waiting_max: is a whole number without a unit; "
                "write for example `waiting_max = 0`"
            ],
        ),
        (
            GOOD + '[policy]\nrelease_after = "5q"\n',
            [f"glidepath.toml:12: policy.release_after: `5q` is not a duration; write {DURATIONS}"],
        ),
        (
            GOOD + '[policy]\nrelease_after = "5m"\nrelease_after_s = 300\n',
            ["glidepath.toml:11: policy: `release_after_s` is given twice, as a duration and in seconds"],
        ),
        (
            GOOD + '[policy]\nname = "seed"\ndivisor = 0\n',
            ["glidepath.toml:11: policy: policy `seed`: `divisor` must be 1 or more"],
        ),
        (
            GOOD + '[cycle]\nmin = "10s"\nmax = "5s"\n',
            [
                "glidepath.toml:13: cycle.max: `5s` is shorter than `min`, `10s`; "
                "give `max` at least the value of `min`"
            ],
        ),
        (
            GOOD
            + "[[sites.west.windows]]\nstart = 2030-01-01T00:00:00Z\nend = 2030-01-02T00:00:00Z\n"
            + "[[sites.west.windows]]\nstart = 2030-01-02T00:00:00Z\nend = 2030-01-01T00:00:00Z\n",
            [
                "glidepath.toml:16: sites.west.windows[2].end: the window ends before it starts; "
                "swap `start` and `end`, or mend one"
            ],
        ),
        (
            GOOD + "[[sites.west.windows]]\nstart = 2030-01-01T00:00:00\nend = 2030-01-02\n",
            [
                "glidepath.toml:12: sites.west.windows[1].start: must be a date and time with an offset, "
                "such as `2030-01-31T08:00:00Z`, not `2030-01-01T00:00:00`",
                "glidepath.toml:13: sites.west.windows[1].end: must be a date and time with an offset, "
                "such as `2030-01-31T08:00:00Z`, not `2030-01-02`",
            ],
        ),
        (
            changed('kind = "local"', 'kind = "local"\non_exit = "stopp"'),
            [
                "glidepath.toml:6: sites.west.on_exit: must be `stop` or `leave`, "
                'not the text `"stopp"`; did you mean `stop`?'
            ],
        ),
        (
            changed('kind = "local"', 'kind = "local"\nbackoff = "2h"'),
            [
                "glidepath.toml:4: sites.west.backoff_max: is shorter than `backoff`; "
                "give it at least the value of `backoff`"
            ],
        ),
        (
            changed('kind = "local"', 'kind = "local"\nlisting_lag = "10m"'),
            [
                "glidepath.toml:4: sites.west.appear_within: is not longer than `listing_lag`; "
                "every pilot would be written off before the site could list it"
            ],
        ),
        (GOOD.replace("west", "West"), [f"glidepath.toml:4: sites.West: {NAME}"]),
        (
            GOOD.replace("sites.west", 'sites."a/../b\\u202e"'),
            [f'glidepath.toml:4: sites."a/../b\\u202e": {NAME}'],
        ),
        (GOOD.replace("west", "w" * 41), [f"glidepath.toml:4: sites.{'w' * 41}: {NAME}"]),
        (GOOD.replace("west", "w" * 40), []),
        (
            GOOD + '[owners."a\\nb"]\n',
            ['glidepath.toml:11: owners."a\\nb": must be one line of printable text of at most 200 letters'],
        ),
        (
            GOOD + '[store]\nurl = "postgresql://me:secret@db/x"\n',
            [
                "glidepath.toml:12: store.url: must not hold a password; "
                "put it into `~/.pgpass` or `PGPASSWORD`"
            ],
        ),
        (
            GOOD + '[store]\nurl = "mysql://db"\n',
            ["glidepath.toml:12: store.url: must be `sqlite:///FILE` or `postgresql://USER@HOST/NAME`"],
        ),
        (
            'sites = 3\n[pools.campus]\nkind = "embedded"\n',
            ["glidepath.toml:1: sites: must be a table; write `[sites.NAME]`"],
        ),
        (
            'limits = 3\nsites.a = 4\n[pools.campus]\nkind = "embedded"\n',
            [
                "glidepath.toml:1: limits: must be a table, not `3`",
                "glidepath.toml:2: sites.a: must be a table, not `4`",
            ],
        ),
        (
            "",
            [
                "glidepath.toml: pools: there is none, and one is needed; "
                'add `[pools.NAME]` with `kind = "embedded"`',
                "glidepath.toml: sites: there is none, and one is needed; "
                'add `[sites.NAME]` with `kind = "local"`',
            ],
        ),
        (
            changed(OFFER + 'memory = "8GiB"\n', ""),
            [
                "glidepath.toml:4: sites.west: the site has no offer; "
                "add a table such as `[sites.NAME.offers.worker]`"
            ],
        ),
        (
            GOOD + '[pools.other]\nkind = "embedded"\n[partitions.other]\npool = "campus"\n',
            [
                "glidepath.toml:13: partitions.other: hides the pool `other`, which no partition serves; "
                'add a partition with `pool = "other"` under another name'
            ],
        ),
    ],
)
def test_each_mistake_is_named_with_its_place_and_a_way_out(
    tmp_path: Path, text: str, said: list[str]
) -> None:
    assert problems(tmp_path, text) == said


def test_all_problems_of_all_files_are_told_at_once(tmp_path: Path) -> None:
    main = GOOD + 'lifetime = "1m"\n[limits]\nlive_mx = 3\n'
    north = (
        '[sites.north]\nkind = "locl"\nstale_after = 3\n[sites.north.offers.a]\ncpus = 0\nmemory = "1GiB"\n'
    )
    assert problems(tmp_path, main, north=north, broken="[sites\n") == [
        "glidepath.toml:11: sites.west.offers.small.lifetime: `1m` is shorter than `idle`, `10m`; "
        "a pilot would end before it could be idle for long enough to leave",
        "glidepath.toml:13: limits.live_mx: unknown key; did you mean `live_max`?",
        "conf.d/broken.toml:1: is not valid TOML: Expected ']' at the end of a table declaration",
        "conf.d/north.toml:2: sites.north.kind: there is no kind `locl`; "
        "did you mean `local`? installed: `local`",
        f"conf.d/north.toml:3: sites.north.stale_after: `3` has no unit; write {DURATIONS}",
        "conf.d/north.toml:5: sites.north.offers.a.cpus: a pilot needs some CPU; write at least `cpus = 1`",
    ]


def test_a_table_in_two_files_is_refused_with_both_places(tmp_path: Path) -> None:
    again = "\n" + GOOD.split("\n\n", 1)[1]
    assert problems(tmp_path, GOOD, x=again, y="[limits]\nlive_max = 1\n", z="[limits]\n") == [
        "conf.d/x.toml:2: sites.west: is already defined at glidepath.toml:4; "
        "one table stands in one file; keep one of the two",
        "conf.d/z.toml:1: limits: is already defined at conf.d/y.toml:1; "
        "one table stands in one file; keep one of the two",
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            GOOD + "[sites.west]\n",
            ["glidepath.toml:11: sites.west: is already defined at line 4; keep one of the two"],
        ),
        (
            GOOD + "cpus = 5\n",
            [
                "glidepath.toml:11: sites.west.offers.small.cpus: is already defined at line 9; "
                "keep one of the two"
            ],
        ),
    ],
)
def test_a_key_twice_in_one_file_is_refused_with_both_lines(
    tmp_path: Path, text: str, said: list[str]
) -> None:
    assert problems(tmp_path, text) == said


def test_a_pool_of_an_unreadable_file_is_not_called_unknown(tmp_path: Path) -> None:
    sites = GOOD.split("\n\n", 1)[1]
    assert problems(tmp_path, sites, pools="[pools.campus\n") == [
        "conf.d/pools.toml:1: is not valid TOML: Expected ']' at the end of a table declaration",
    ]


class WithModel:
    class Settings(BaseModel, extra="forbid"):
        nodes_max: int = 3


@dataclass(frozen=True)
class Keys:
    folder: str
    depth: int = 1


class WithDataclass:
    Settings = Keys


class WithBadSettings:
    Settings = "not a type"


KINDS = FakeCatalog(
    {
        (BACKENDS, "modelled"): WithModel(),
        (BACKENDS, "classed"): WithDataclass(),
        (BACKENDS, "bad"): WithBadSettings(),
        (BACKENDS, "broken"): None,
        (POLICIES, "broken"): None,
        (POLICIES, "plain"): Plain(),
    }
)


@pytest.mark.parametrize(
    ("kind", "table", "said"),
    [
        ("local", "anything = 1", []),
        ("modelled", "nodes_max = 4", []),
        (
            "modelled",
            "nodes = 4",
            ["glidepath.toml:12: sites.west.modelled.nodes: unknown key; did you mean `nodes_max`?"],
        ),
        (
            "modelled",
            "nodes_max = []",
            ["glidepath.toml:12: sites.west.modelled.nodes_max: must be a whole number, not an empty list"],
        ),
        ("classed", 'folder = "x"', []),
        ("classed", "", ["glidepath.toml:11: sites.west.classed.folder: this key is needed"]),
        (
            "broken",
            "",
            [
                "glidepath.toml:5: sites.west.kind: the plug-in `broken`, "
                "from the distribution `odd`, cannot be loaded"
            ],
        ),
    ],
)
def test_a_kind_checks_its_own_sub_table(tmp_path: Path, kind: str, table: str, said: list[str]) -> None:
    text = changed('"local"', f'"{kind}"') + f"[sites.west.{kind}]\n{table}\n"
    assert problems(tmp_path, text, catalog=KINDS) == said


def test_a_plug_in_with_odd_settings_is_a_problem_and_no_crash(tmp_path: Path) -> None:
    (said,) = problems(tmp_path, changed('"local"', '"bad"'), catalog=KINDS)
    assert "the plug-in `bad` failed to check these keys" in said


def test_a_sub_table_of_another_kind_is_refused(tmp_path: Path) -> None:
    assert problems(tmp_path, GOOD + "[sites.west.slurm]\n") == [
        "glidepath.toml:11: sites.west.slurm: unknown key; "
        "a sub-table of its own must be named like the `kind`"
    ]


def test_broken_and_plain_policies_are_taken_as_they_are(tmp_path: Path) -> None:
    assert problems(tmp_path, GOOD + '[policy]\nname = "plain"\nany = 3\n', catalog=KINDS) == []
    assert problems(tmp_path, GOOD + '[policy]\nname = "broken"\n', catalog=KINDS) == [
        "glidepath.toml:12: policy.name: the plug-in `broken`, from the distribution `odd`, cannot be loaded"
    ]


@pytest.mark.parametrize(
    "line",
    [
        '[policy]\n"a\\u001b" = "5\\u202e"',
        '[policy]\n"a\\u001b" = "5m"\n"a\\u001b_s" = 3',
        '[policy]\nname = "a\\u001b"',
        '[store]\nurl = "a\\u001b"',
        '[store]\n"a\\u001b" = 1',
        '[cycle]\nmin = "a\\u001b\\n"',
        '["a\\u001b\\n"]',
        '[partitions.x]\npool = "a\\u001b"',
        '[sites.west."a\\u001b"]',
        '[pools.x]\nkind = "a\\u001b"',
        '[[sites.west.windows]]\nwhy = "a\\u001b"',
    ],
)
def test_hostile_text_is_told_on_one_printable_line(tmp_path: Path, line: str) -> None:
    text = GOOD + line + "\n"
    with pytest.raises(ConfigError) as caught:
        loaded(tmp_path, text)
    assert all(str(problem).isprintable() for problem in caught.value.problems)


def test_thousands_of_mistakes_are_counted_and_not_all_printed(tmp_path: Path) -> None:
    text = GOOD + "".join(f"key{number} = 1\n" for number in range(3000))
    said = problems(tmp_path, text)
    assert len(said) == 101
    assert said[-1] == "and 2900 more problems"


def test_files_of_many_owners_make_one_configuration(tmp_path: Path) -> None:
    pool = '[pools.b]\nkind = "embedded"\n'
    site = (
        '[sites.a]\nkind = "local"\npools = ["b", "campus"]\n[sites.a.offers.o]\ncpus = 1\nmemory = "1GiB"\n'
    )
    found = loaded(tmp_path, GOOD, b=pool, a=site)
    assert [file.name for file in found.files] == ["glidepath.toml", "a.toml", "b.toml"]
    assert (sorted(found.settings.pools), sorted(found.settings.sites)) == (["b", "campus"], ["a", "west"])
    assert CATALOG.names(BACKENDS) == ("local",)
