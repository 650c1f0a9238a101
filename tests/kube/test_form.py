"""Pods that are written from a form are the pods that `pod_of` makes, whatever strangers wrote."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from glidepath.core.quantity import Instant, Owner, PilotName, PoolName
from glidepath.kube.form import KEPT_MAX, Forms
from glidepath.kube.pod import pod_of
from kube.pod_builders import settings, spec
from kube.test_pod_hostile import PLAIN, PRESETS, SETTINGS_OF, TRAITS, WORDS

NAMES = st.from_regex(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", fullmatch=True).map(PilotName)
SECRETS = st.sampled_from([(), (("pool.token", "one"),), (("pool.token", "two"),), (("other.token", "x"),)])


@given(PRESETS, st.lists(NAMES, min_size=2, max_size=4), TRAITS, WORDS, WORDS, SECRETS)
@example("osg", [PilotName("form"), PilotName("0")], (("os", "\ud800"),), "\ud800", "form-", ())
def test_a_form_gives_the_same_pods(
    preset: str, names: list[PilotName], traits: Any, owner: str, community: str, secrets: Any
) -> None:
    forms = Forms("ns")
    for name in names:
        who = Owner(owner)
        told = replace(PLAIN, name=name, traits=traits, owner=who, pool=PoolName(owner), secrets=secrets)
        found = forms.filled(told, SETTINGS_OF[preset], community=community)
        assert json.loads(found) == pod_of(told, SETTINGS_OF[preset], community=community, namespace="ns")


def test_what_differs_in_anything_else_is_another_form() -> None:
    forms, table = Forms("ns"), settings().pod("worker")
    told = [
        spec(),
        spec(lifetime_s=60),
        spec(idle_s=61),
        replace(spec(), asked_at=Instant(62)),
        spec(secrets=(("pool.token", "x"),)),
        spec(),
    ]
    for each in told:
        assert json.loads(forms.filled(each, table)) == pod_of(each, table, namespace="ns")
    assert b"physics" in forms.filled(spec(), table, community="physics")
    assert b"physics" not in forms.filled(spec(), table)


def test_no_secret_is_kept_and_no_more_forms_than_are_needed() -> None:
    forms, table = Forms("ns"), settings().pod("worker")
    for number in range(3 * KEPT_MAX):
        forms.filled(spec(lifetime_s=number, secrets=(("pool.token", "geheim"),)), table)
    assert 0 < len(forms.kept) <= KEPT_MAX
    assert "geheim" not in repr([(asked.secrets, community) for asked, community in forms.kept])
