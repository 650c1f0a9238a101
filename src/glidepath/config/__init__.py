"""Configuration: TOML files come in, checked settings and the core's rules go out.

It refuses to know what is done with them. Every mistake of every file is told at once, with file, line
and key; nothing else in glidepath reads a settings file.
"""

from glidepath.config.accounting import AccountingSettings, account_terms, rates_of
from glidepath.config.cluster import ClusterSettings
from glidepath.config.default import default_settings
from glidepath.config.notices import NoticesSettings, SmtpSettings
from glidepath.config.page import EXAMPLE, reference
from glidepath.config.problems import ConfigError, Problem
from glidepath.config.reading import Loaded, load, warnings_of
from glidepath.config.settings import KeepSettings, Settings
from glidepath.config.shown import show
from glidepath.config.values import (
    book_of,
    budgets_of,
    cluster_own,
    kind_settings,
    partition_rules,
    partitions_of,
    placed_of,
    prices_of,
    rules_of,
    terms_of,
    windows_of,
)
from glidepath.config.watch import Watcher

__all__ = [
    "EXAMPLE",
    "AccountingSettings",
    "ClusterSettings",
    "ConfigError",
    "KeepSettings",
    "Loaded",
    "NoticesSettings",
    "Problem",
    "Settings",
    "SmtpSettings",
    "Watcher",
    "account_terms",
    "book_of",
    "budgets_of",
    "cluster_own",
    "default_settings",
    "kind_settings",
    "load",
    "partition_rules",
    "partitions_of",
    "placed_of",
    "prices_of",
    "rates_of",
    "reference",
    "rules_of",
    "show",
    "terms_of",
    "warnings_of",
    "windows_of",
]
