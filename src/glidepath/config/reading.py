"""A path comes in, checked settings go out, or every problem of every file at once.

This is the one place that reads configuration; everything below it receives values.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from glidepath.config import checks
from glidepath.config.cluster import OWN_KINDS, ClusterKinds
from glidepath.config.files import Source, sources_of
from glidepath.config.problems import PROBLEMS_MAX, ConfigError, Loc, Problem, did_you_mean, shown_key
from glidepath.config.settings import CycleSettings, PolicySettings, Settings, named_by_collector
from glidepath.config.site import SiteSettings
from glidepath.config.tables import Table
from glidepath.config.wording import Finding, findings_of, table_at
from glidepath.plugins import BACKENDS, DEMAND, Catalog, Installed

# Tables of these can have different owners and stand in different files; the others stand in one file.
NAMED = ("pools", "partitions", "clusters", "owners", "budgets", "sites")
ALONE = tuple(key for key in Settings.model_fields if key not in (*NAMED, "first"))


@dataclass(frozen=True, slots=True)
class Loaded:
    """Settings that passed every check, the files they came from, and the digest of those files.

    Warnings are about what is good and hardly meant; nobody is kept from anything by them.
    """

    settings: Settings
    files: tuple[Path, ...]
    digest: str
    warnings: tuple[Problem, ...] = ()


@dataclass(slots=True)
class _Merged:
    """The tables of all files as one, and the file that each came from."""

    main: str
    tables: dict[str, Any] = field(default_factory=dict)
    origins: dict[Loc, Source] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)

    def add(self, source: Source) -> None:
        for key, value in source.tables.items():
            if key not in Settings.model_fields:
                few = len(self.problems) < PROBLEMS_MAX
                hint = did_you_mean(key, Settings.model_fields) if few else ""
                self.problems.append(_problem(source, (key,), "unknown table or key", hint))
            elif key in NAMED and isinstance(value, dict):
                self.origins.setdefault((key,), source)
                for name, table in value.items():
                    self._keep(source, (key, name), self.tables.setdefault(key, {}), table)
            elif key in NAMED:
                self.problems.append(_problem(source, (key,), "must be a table", f"write `[{key}.NAME]`"))
            else:
                self._keep(source, (key,), self.tables, value)

    def _keep(self, source: Source, loc: Loc, tables: dict[str, Any], table: object) -> None:
        first = self.origins.get(loc)
        if first is None:
            self.origins[loc] = source
            tables[str(loc[-1])] = table
            return
        place = f"{first.file}:{first.lines.of(loc)}"
        message = f"is already defined at {place}"
        self.problems.append(
            _problem(source, loc, message, "one table stands in one file; keep one of the two")
        )

    def place(self, finding: Finding) -> Problem:
        loc = self._written(finding.loc)
        source = self.origins.get(loc[:2]) or self.origins.get(loc[:1])
        if source is None:
            return Problem(self.main, None, shown_key(loc), finding.message, finding.hint)
        return _problem(source, loc, finding.message, finding.hint)

    def _written(self, loc: Loc) -> Loc:
        """The path as it stands in the file, where models have moved a key."""
        if loc[:2] != ("policy", "numbers"):
            return loc
        key = str(loc[2]) if len(loc) > 2 else "numbers"
        raw = self.tables.get("policy", {})
        return ("policy", key if key in raw else key.removesuffix("_s"))


def _problem(source: Source, loc: Loc, message: str, hint: str) -> Problem:
    return Problem(source.file, source.lines.of(loc), shown_key(loc), message, hint)


def load(path: Path, *, catalog: Catalog | None = None) -> Loaded:
    """The configuration of the file and of `conf.d` beside it; raises `ConfigError` with all problems."""
    sources, unreadable = sources_of(path)
    merged = _Merged(str(path), problems=unreadable)
    for source in sources:
        merged.add(source)
    # With a file or table missing, what others say of it cannot be called wrong.
    whole = not merged.problems
    found = list(_findings(merged.tables, catalog or Installed(), whole=whole))
    problems = [*merged.problems, *(merged.place(finding) for finding in found)]
    if problems:
        # The same mistake is met twice where a part is checked alone and as part of its table.
        unique = dict.fromkeys(problems)
        raise ConfigError(tuple(sorted(unique, key=lambda p: (p.file != str(path), p.file, p.line or 0))))
    digest = hashlib.sha256()
    for source in sources:
        digest.update(f"{source.file!r} {len(source.content)}\n".encode() + source.content)
    files = tuple(Path(source.file) for source in sources)
    settings = Settings.model_validate(merged.tables)
    warnings = tuple(merged.place(found) for found in warnings_of(settings))
    return Loaded(settings, files, digest.hexdigest(), warnings)


def warnings_of(settings: Settings) -> tuple[Finding, ...]:
    """What is allowed and hardly meant, for people who check or look for what is wrong."""
    return tuple(checks.check_disk(settings))[:PROBLEMS_MAX]


def _findings(tables: dict[str, Any], catalog: Catalog, *, whole: bool) -> Iterable[Finding]:
    for key in ALONE:
        table = yield from _validated(tables.get(key, {}), (key,))
        if isinstance(table, CycleSettings):
            yield from checks.check_cycle(table)
        if isinstance(table, PolicySettings):
            yield from checks.check_policy(table, tables.get("policy", {}), catalog)
    if "first" in tables:
        yield from _valid_alone("first", tables["first"])
    for key in NAMED:
        for name in tables.get(key, {}):
            # Validated inside its map, because the map also checks the name.
            yield from _validated_named(key, name, tables[key][name])
    pools = tables.get("pools", {})
    for name, raw in pools.items():
        if isinstance(raw, dict):
            yield from _pool_findings(("pools", name), raw, catalog)
    for name, raw in tables.get("sites", {}).items():
        if isinstance(raw, dict):
            yield from _site_findings(("sites", name), raw, catalog)
            if whole:
                yield from checks.check_pool_names(("sites", name, "pools"), raw.get("pools", []), pools)
                yield from checks.check_pool_limits(("sites", name), raw, pools)
    for name, raw in tables.get("budgets", {}).items():
        if isinstance(raw, dict) and whole:
            at = ("budgets", name, "sites")
            yield from checks.check_site_names(at, raw.get("sites"), tables.get("sites", {}))
    for name, raw in tables.get("clusters", {}).items():
        if isinstance(raw, dict) and raw.get("kind") in OWN_KINDS:
            yield from checks.check_kind(("clusters", name), raw, "glidepath.clusters", ClusterKinds())
    if whole:
        yield from _missing(tables)


def _pool_findings(at: Loc, raw: dict[str, Any], catalog: Catalog) -> Iterable[Finding]:
    try:
        spelled = named_by_collector(raw)
    except ValueError:
        return  # Already reported by the table itself.
    for found in checks.check_kind(at, spelled, DEMAND, catalog):
        # Where the key stands in the pool's own table, the mistake is shown there.
        own = found.loc[len(at) :]
        there = own[:2] == ("condor", "collector") and "collector" in raw
        yield Finding((*at, "collector"), found.message, found.hint) if there else found


def _site_findings(at: Loc, raw: dict[str, Any], catalog: Catalog) -> Iterable[Finding]:
    yield from checks.check_kind(at, raw, BACKENDS, catalog)
    yield from checks.check_site_parts(at, raw)
    try:
        site = SiteSettings.model_validate(raw)
    except ValidationError:
        return  # Already reported; spans that may be wrong themselves are not compared.
    yield from checks.check_site_spans(at, site)
    yield from checks.check_own_offers(at, site)
    yield from checks.check_fitness(at, site, catalog)


def _missing(tables: dict[str, Any]) -> Iterable[Finding]:
    pools, partitions = tables.get("pools", {}), tables.get("partitions", {})
    for key in ("pools", "sites"):
        if not tables.get(key) and not tables.get("clusters"):
            kind = "embedded" if key == "pools" else "local"
            yield Finding(
                (key,), "there is none, and one is needed", f'add `[{key}.NAME]` with `kind = "{kind}"`'
            )
    for name, raw in partitions.items():
        if isinstance(raw, dict):
            yield from checks.check_pool_names(("partitions", name, "pool"), raw.get("pool"), pools)
            clusters = tables.get("clusters", {})
            yield from checks.check_cluster_name(
                ("partitions", name, "cluster"), raw.get("cluster"), clusters
            )
    served = {raw.get("pool") for raw in partitions.values() if isinstance(raw, dict)}
    for name in sorted(set(pools) & set(partitions)):
        if name not in served:
            hint = f'add a partition with `pool = "{name}"` under another name'
            yield Finding(("partitions", name), f"hides the pool `{name}`, which no partition serves", hint)


def _validated(raw: object, at: Loc) -> Any:
    """A generator that reports what is wrong and returns the table, or None."""
    model = table_at(Settings, at)
    assert model is not None, f"{at} is not a table"
    try:
        return model.model_validate(raw)
    except ValidationError as error:
        yield from findings_of(error, model, at)
        return None


def _valid_alone(key: str, raw: object) -> Iterable[Finding]:
    """A key at the very top that is no table."""
    try:
        Settings.model_validate({key: raw})
    except ValidationError as error:
        yield from findings_of(error, Settings, ())


def _validated_named(key: str, name: str, raw: object) -> Iterable[Finding]:
    model: type[Table] = Settings
    try:
        model.model_validate({key: {name: raw}})
    except ValidationError as error:
        yield from findings_of(error, model, ())
