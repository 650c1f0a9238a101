"""Policies by name: a rule as it stands in the journal comes in, the policy behind it goes out."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

from glidepath.core.provision.offer import PolicyRule, Rules
from glidepath.core.provision.pressure import Policy, PolicyKind
from glidepath.plugins import POLICIES, load


def policy_kind(name: str) -> PolicyKind:
    """What the plug-in of that name offers. Raises PluginError with a sentence."""
    return cast("PolicyKind", load(POLICIES, name))


def policy_of(rule: PolicyRule) -> Policy:
    """The policy that a rule names. Raises PluginError or ValueError with a sentence."""
    return policy_kind(rule.name)(dict(rule.numbers))


def with_numbers(rules: Rules) -> Rules:
    """The rules with every number of the policy spelled out: a default that changes later must not change
    what a replay of this cycle decides."""
    known = policy_kind(rules.policy.name).NUMBERS
    numbers = tuple(sorted({**known, **dict(rules.policy.numbers)}.items()))
    return replace(rules, policy=PolicyRule(rules.policy.name, numbers))
