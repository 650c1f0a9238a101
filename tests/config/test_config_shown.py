"""What is shown reads back as the same settings, and the reference page names every key."""

from __future__ import annotations

from pathlib import Path

import pytest
from config_builders import CATALOG, GOOD, FakeCatalog, load, loaded, written
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel
from test_config_values import EVERYTHING, Folders

from glidepath.config import EXAMPLE, default_settings, reference, show
from glidepath.config.fields import exact_duration, exact_size
from glidepath.config.page import TABLES
from glidepath.config.settings import Settings
from glidepath.config.tables import Table
from glidepath.config.wording import keys_of
from glidepath.core.units import DURATION_S_MAX, SIZE_MIB_MAX, duration_s, size_mib
from glidepath.plugins import BACKENDS, POLICIES

ODD = GOOD + (
    '[owners."a \\"b\\" é"]\n[policy]\nname_s = 3\n_s = 4\nbig_s = 999999999\n'
    "[[sites.west.windows]]\nstart = 2030-01-01T00:00:00.25Z\nend = 2031-01-01T00:00:00Z\n"
    '[sites.west.local]\n\'k "x" \\\' = [inf, [], {}, 07:30:00, "\\u001b\\U0010ffff"]\n'
)
PLAIN = FakeCatalog({(POLICIES, "steady"): object()})


@pytest.mark.parametrize("text", [GOOD, EXAMPLE, EVERYTHING, ODD])
def test_what_is_shown_reads_back_as_the_same_settings(tmp_path: Path, text: str) -> None:
    found = load(written(tmp_path, text), catalog=PLAIN).settings
    shown = show(found, "a.toml\n[evil]")
    assert all(line.isprintable() for line in shown.split("\n"))
    again = load(written(tmp_path, shown), catalog=PLAIN).settings
    assert again == found
    assert show(again, "a.toml\n[evil]") == shown


@given(st.integers(0, DURATION_S_MAX), st.integers(0, SIZE_MIB_MAX))
def test_shown_quantities_are_exact(seconds: int, mib: int) -> None:
    assert (duration_s(exact_duration(seconds)), size_mib(exact_size(mib))) == (seconds, mib)


def every_table() -> list[type[Table]]:
    return [Settings, *(model for _, model in TABLES)]


def test_the_page_has_every_table() -> None:
    ours = [model for model in Table.__subclasses__() if model.__module__.startswith("glidepath.config")]
    assert set(ours) == set(every_table())


@pytest.mark.parametrize("model", every_table(), ids=lambda model: model.__name__)
def test_every_field_has_a_description_that_is_a_sentence(model: type[Table]) -> None:
    assert (model.__doc__ or "").strip().endswith(".")
    for name, field in model.model_fields.items():
        assert (field.description or "").endswith("."), f"{model.__name__}.{name} says nothing"


def test_the_reference_names_every_key_with_its_default() -> None:
    page = reference(catalog=CATALOG)
    for _, model in TABLES:
        for key in keys_of(model):
            assert f"| `{key}` |" in page
    for row in (
        '| `retention` | duration | `"30d"` |',
        "| `kind` | text | *needed* |",
        "| `live_max` | whole number | none |",
        '| `on_exit` | `"stop"` or `"leave"` | `"leave"` |',
        "| `windows` | list of tables | none |",
        "| `pools` | list of text | none |",
        "| `cpus` | CPUs | *needed* |",
        "| `start` | date and time | *needed* |",
        "| `fitted` | `true` or `false` | `false` |",
        "| `url` | text | none |",
        "| `traits` | table | none |",
        "| `min` | table | none |",
        "| `price` | number | `0` |",
        "| `seed` | `nmin = 5`, `divisor = 4` |",
        '| `steady` | `release_after = "5m"`, `waiting_max = 0` |',
    ):
        assert row in page


class Modelled:
    class Settings(BaseModel):
        nodes_max: int = 3


def test_the_reference_names_the_keys_of_installed_kinds_and_leaves_out_broken_ones() -> None:
    more = {
        (BACKENDS, "folders"): Folders(),
        (BACKENDS, "modelled"): Modelled(),
        (BACKENDS, "broken"): None,
        (POLICIES, "broken"): None,
    }
    page = reference(catalog=FakeCatalog(more))
    assert "### `[sites.NAME.folders]`" in page
    assert "| `depth` | `int` | `3` |" in page
    assert "| `nodes_max` | whole number | `3` |" in page
    assert "broken" not in page


def test_the_example_of_the_page_can_be_loaded(tmp_path: Path) -> None:
    page = reference(catalog=CATALOG)
    text = page.split("```toml\n")[1].split("```")[0]
    assert loaded(tmp_path, text).settings == loaded(tmp_path, EXAMPLE).settings


def test_the_default_can_be_shown_and_read(tmp_path: Path) -> None:
    found = default_settings(4, 8000, 9000)
    assert loaded(tmp_path, show(found, "the embedded default")).settings == found
