"""The demand server over a real socket: who is let in, what it takes, and what it never tells."""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agent.agent_builders import Served, pilot, plain_report, served, settings_of, spec, text
from glidepath.called.backend import CalledBackend
from glidepath.called.settings import CalledSettings
from glidepath.core.provision.pilot import PilotSpec
from glidepath.core.quantity import Owner, SiteName
from glidepath.ports import Place
from glidepath.serve.app import BODY_BYTES_MAX
from glidepath.store.site_tokens import ADDRESS

CALL = "/api/v1/sites/west/call"
SCRIPT = "<script>alert(1)</script>"


@pytest.fixture
def world(tmp_path: Path) -> Iterator[Served]:
    with served(tmp_path / "home", "west", "east", calls_per_minute=10_000) as made:
        yield made


def ask(
    world: Served, path: str, body: bytes | None = None, *, token: str = "", method: str = "", **headers: str
) -> tuple[int, Any]:
    connection = http.client.HTTPConnection("127.0.0.1", world.port, timeout=30)
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    if token:
        sent["Authorization"] = f"Bearer {token}"
    try:
        connection.request(method or ("POST" if body is not None else "GET"), path, body, sent)
        answer = connection.getresponse()
        said = answer.read()
    finally:
        connection.close()
    try:
        return answer.status, json.loads(said)
    except ValueError:
        return answer.status, said.decode()


def backend(world: Served, site: str = "west") -> CalledBackend:
    return CalledBackend(SiteName(site), CalledSettings(), Place(world.home, world.url_of_store))


def wanted(world: Served, *specs: PilotSpec) -> None:
    """Asked for, each at its site."""
    for each in specs:
        with closing(backend(world, each.site)) as site:
            site.submit(each)


def first_call(world: Served, token: str, site: str = "west", **more: Any) -> tuple[int, Any]:
    path = f"/api/v1/sites/{site}/call"
    code, late = ask(world, path, text(plain_report(**more)), token=token)
    assert code == 409
    return ask(world, path, text(plain_report(**{**more, "ticket": late["ticket"]})), token=token)


def test_a_call_brings_what_was_asked_for_with_the_pilots_own_secret_once_it_is_the_sites_turn(
    world: Served,
) -> None:
    token = world.token()
    wanted(world, replace(spec(asked_at=world.desk.clock().now()), secrets=(("token", "a.b.c"),)))
    code, orders = first_call(world, token)
    assert code == 200
    assert [(s["name"], s["secrets"]) for s in orders["starts"]] == [("p1", [["token", "a.b.c"]])]
    taken = {"verb": "start", "name": "p1", "outcome": "done"}
    body = plain_report(ticket=orders["ticket"], answers=[taken], pilots=[pilot().model_dump()])
    code, orders = ask(world, CALL, text(body), token=token)
    assert (code, orders["starts"]) == (200, [])
    with world.store.read() as conn:
        assert conn.exec_driver_sql("SELECT count(*) FROM call_secrets").scalar() == 0


def test_a_report_that_was_sent_before_changes_nothing(world: Served) -> None:
    token = world.token()
    _, orders = first_call(world, token)
    replayed = text(plain_report(ticket=orders["ticket"], agent="first"))
    assert ask(world, CALL, replayed, token=token)[0] == 200
    before = world.desk.post.tray(SiteName("west"))
    code, late = ask(world, CALL, replayed, token=token)
    assert (code, late["ticket"]) == (409, before.ticket)
    assert world.desk.post.tray(SiteName("west")) == before


def test_reports_of_older_generations_change_nothing_in_a_new_store_either(tmp_path: Path) -> None:
    """Whoever recorded the calls of a site sends them again: later, and after the store was lost."""
    recorded: list[bytes] = []
    with served(tmp_path / "first", "west") as world:
        token = world.token()
        _, orders = first_call(world, token)
        for agent in ("older", "old"):
            gone = {**pilot().model_dump(), "state": "failed"}
            recorded.append(text(plain_report(ticket=orders["ticket"], agent=agent, pilots=[gone])))
            code, orders = ask(world, CALL, recorded[-1], token=token)
            assert code == 200
        before = world.desk.post.tray(SiteName("west"))
        assert [ask(world, CALL, each, token=token)[0] for each in recorded] == [409, 409]
        assert world.desk.post.tray(SiteName("west")) == before
    with served(tmp_path / "second", "west") as world:
        token = world.token()
        first_call(world, token)
        before = world.desk.post.tray(SiteName("west"))
        assert [ask(world, CALL, each, token=token)[0] for each in recorded] == [409, 409]
        assert world.desk.post.tray(SiteName("west")) == before


BAD_BODIES: dict[str, bytes] = {
    "not JSON": b"{",
    "a list": b"[]",
    "nothing": b"",
    "text": b'"report"',
    "deep": b"[" * 100_000 + b"]" * 100_000,
    "other version": text(plain_report(version=2)),
    "unknown key": text(plain_report(command="rm")),
    "negative room": text(plain_report(room=-1)),
    "a count as text": text(plain_report(room="5")),
    "a count that is no whole number": text(plain_report(room=1.5)),
    "a huge count": text(plain_report(room=1 << 70)),
    "not a number": b'{"version":1,"nonce":"n","seen":true,"room":NaN}',
    "negative age": text(plain_report(pilots=[{**pilot().model_dump(), "since_s": -1}])),
    "another site's pilot": text(plain_report(pilots=[pilot(offer="east/a").model_dump()])),
    "a name that leads elsewhere": text(plain_report(pilots=[{**pilot().model_dump(), "name": "../x"}])),
    "a name with a script": text(plain_report(pilots=[{**pilot().model_dump(), "name": SCRIPT}])),
    "a new line in a word": text(plain_report(agent="a\nb")),
    "a long word": text(plain_report(agent="a" * 301)),
    "too many downtimes": text(plain_report(downtimes=[{"in_s": 0, "for_s": 1}] * 21)),
    "an unknown state": text(plain_report(pilots=[{**pilot().model_dump(), "state": "zombie"}])),
    "an unknown outcome": text(plain_report(answers=[{"verb": "start", "name": "p", "outcome": "maybe"}])),
}


@pytest.mark.parametrize("name", sorted(BAD_BODIES))
def test_a_body_that_is_not_as_described_is_refused_and_changes_nothing(world: Served, name: str) -> None:
    token = world.token()
    before = world.desk.post.tray(SiteName("west"))
    code, said = ask(world, CALL, BAD_BODIES[name], token=token)
    assert code == 422, said
    assert SCRIPT not in json.dumps(said)
    assert world.desk.post.tray(SiteName("west")) == before


def test_markup_in_every_word_that_a_site_may_say_is_shown_to_nobody_as_markup(world: Served) -> None:
    token, address = world.token(), world.token(use=ADDRESS)
    wanted(world, spec(asked_at=world.desk.clock().now()))
    _, orders = first_call(world, token)
    said = pilot(native_id=SCRIPT, node=SCRIPT, note=SCRIPT, traits=[[SCRIPT, SCRIPT]]).model_dump()
    refused = {"verb": "start", "name": "p1", "outcome": "refused", "why": SCRIPT}
    words = {"agent": SCRIPT, "why": SCRIPT, "downtimes": [{"in_s": 0, "for_s": 60, "why": SCRIPT}]}
    body = plain_report(ticket=orders["ticket"], pilots=[said], answers=[refused], **words)
    assert ask(world, CALL, text(body), token=token)[0] == 200
    for path, shown in (("/api/v1/sites/west", token), (f"/sites/{address}", "")):
        connection = http.client.HTTPConnection("127.0.0.1", world.port, timeout=30)
        with closing(connection):
            connection.request("GET", path, headers={"Authorization": f"Bearer {shown}"} if shown else {})
            answer = connection.getresponse()
            page = answer.read().decode()
        kind = answer.headers["Content-Type"]
        assert (answer.status, kind.startswith("text/html") and "<script" in page) == (200, False)
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
    turned = plain_report(agent="\u202egpj.exe")
    assert ask(world, CALL, text(turned), token=token)[0] == 422, "nor may it turn the text around"


def test_a_body_that_is_too_long_is_refused_by_its_stated_length_and_by_what_comes(world: Served) -> None:
    token = world.token()
    long = b" " * (10 << 20)
    for headers in ({}, {"Transfer_Encoding": "chunked"}):
        try:
            code, _ = ask(world, CALL, long if not headers else long[: BODY_BYTES_MAX // 2], token=token)
        except (BrokenPipeError, ConnectionResetError):
            continue  # It did not wait for the rest, which is as good.
        assert code in (413, 422)
    code, _ = ask(world, CALL, b"{}", token=token, Content_Length="999999999999")
    assert code == 413
    assert world.desk.post.tray(SiteName("west")).calls == 0


@pytest.mark.parametrize(
    "shown",
    ["", "x", "gps.west.aaaaaaaa." + "a" * 52, "gps.west.aaaaaaaa", SCRIPT, "gps.east.{}", "'; DROP TABLE--"],
)
def test_who_shows_no_token_of_the_site_gets_nothing(world: Served, shown: str) -> None:
    wanted(world, spec())
    code, said = ask(world, CALL, text(plain_report()), token=shown)
    assert (code, said["error"]) == (401, "no token of this site that is in force")


def test_a_token_is_good_for_its_site_alone_and_tells_nothing_of_others_owners_or_the_pool(
    world: Served,
) -> None:
    stolen = world.token("east")
    world.token("west")
    now = world.desk.clock().now()
    theirs = replace(spec(asked_at=now), owner=Owner("alice-of-physics"), secrets=(("t", "pool-token"),))
    mine = replace(spec("p2", asked_at=now, site=SiteName("east")), owner=Owner("bob-of-biology"))
    wanted(world, theirs, mine)
    told = [ask(world, path, token=stolen) for path in (CALL, "/api/v1/sites/west", "/api/v1/sites/east")]
    told += [ask(world, CALL, text(plain_report()), token=stolen)]
    told += [first_call(world, stolen, "east")]
    told += [ask(world, path, token=stolen) for path in ("/", "/jsonrpc", "/api/v1/sites", "/api/v1/tokens")]
    assert [code for code, _ in told[:4]] == [405, 401, 200, 401]
    assert [start["name"] for start in told[4][1]["starts"]] == ["p2"]
    everything = json.dumps(told)
    for word in ("alice", "bob", "physics", "pool-token", "p1"):
        assert word not in everything


def test_a_revoked_token_is_cut_off_at_once_and_others_are_not(world: Served) -> None:
    west, east = world.token("west"), world.token("east")
    assert first_call(world, west)[0] == 200
    world.tokens.revoke(west.split(".")[2], wall=1.0)
    assert ask(world, CALL, text(plain_report()), token=west)[0] == 401
    assert first_call(world, east, "east")[0] == 200


def test_whoever_calls_too_often_is_told_to_wait_and_others_are_served(tmp_path: Path) -> None:
    with served(tmp_path / "slow", "west", "east", calls_per_minute=20) as world:
        west, east = world.token("west"), world.token("east")
        codes = [ask(world, "/api/v1/sites/west", token=west)[0] for _ in range(12)]
        assert (codes[:10], codes[-1]) == ([200] * 10, 429)
        assert ask(world, "/api/v1/sites/east", token=east)[0] == 200
        guesses = [ask(world, "/api/v1/sites/east", token="x")[0] for _ in range(20)]
        assert (guesses[0], guesses[-1]) == (401, 429)


def test_a_site_that_is_not_configured_any_more_gets_nothing(world: Served) -> None:
    token = world.token("gone")
    assert ask(world, "/api/v1/sites/gone/call", text(plain_report()), token=token)[0] == 404


def test_the_api_describes_itself(world: Served) -> None:
    code, found = ask(world, "/api/v1/openapi.json")
    assert code == 200
    assert found["openapi"].startswith("3.1")
    call = found["paths"]["/api/v1/sites/{site}/call"]["post"]
    assert set(call["responses"]) >= {"200", "401", "409", "413", "422", "429"}
    refs = json.dumps(found)
    for name in ("Report", "Orders", "LateAnswer", "ErrorAnswer", "Start", "Pilot"):
        assert name in found["components"]["schemas"], name
        assert f'"#/components/schemas/{name}"' in refs


def test_many_sites_call_at_once_and_each_gets_its_own(tmp_path: Path) -> None:
    names = [f"site-{n}" for n in range(20)]
    with served(tmp_path / "many", *names, calls_per_minute=10_000) as world:
        now = world.desk.clock().now()
        tokens = {name: world.token(name) for name in names}
        wanted(world, *(spec(f"of-{name}", asked_at=now, site=SiteName(name)) for name in names))
        got: dict[str, list[str]] = {}

        def one(name: str) -> None:
            _, orders = first_call(world, tokens[name], name)
            got[name] = [start["name"] for start in orders["starts"]]

        threads = [threading.Thread(target=one, args=(name,)) for name in names]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert got == {name: [f"of-{name}"] for name in names}


def test_settings_without_such_a_site_have_no_terms() -> None:
    from glidepath.serve.desk import terms_of

    assert set(terms_of(settings_of("west"))) == {"west"}
