"""Who is known by a token that was issued here: whoever shows it while it is in force, and nobody else."""

from __future__ import annotations

import logging
from threading import Thread

import pytest
from sqlalchemy import select

from glidepath.jobs.caller import Caller, Role
from glidepath.people.known import KNOWN_MAX, KNOWN_S, REASONS_PER_MINUTE, NotKnown, People
from glidepath.store.engine import Store, open_store
from glidepath.store.people import TOKENS_EACH_MAX, Full, Missing, PeopleStore, Person, PersonToken, Project
from glidepath.store.people_rows import person_tokens
from people.people_builders import DAY_S, WALL, Steady, token_of, with_person

ANN = Caller("ann", Role.USER, frozenset({"atlas", "cms"}))


@pytest.fixture
def people(store: Store) -> PeopleStore:
    return with_person(PeopleStore(store), projects=("atlas", "cms"))


def refused(known: People, text: str, wall: float = WALL) -> str:
    with pytest.raises(NotKnown) as found:
        known.caller_of(text, wall)
    return str(found.value)


def test_whoever_shows_a_token_is_its_person_with_their_role_and_projects(
    store: Store, people: PeopleStore
) -> None:
    text = token_of(people)
    assert People(store).caller_of(text, WALL + 5) == ANN


def test_only_a_digest_of_the_secret_is_kept(store: Store, people: PeopleStore) -> None:
    secret = token_of(people).split(".")[2]
    with store.read() as conn:
        kept = str(conn.execute(select(person_tokens)).all())
    assert secret not in kept
    assert secret not in str(people.tokens())


def test_all_that_can_be_wrong_looks_the_same_and_only_the_log_knows_why(
    store: Store, people: PeopleStore, caplog: pytest.LogCaptureFixture
) -> None:
    good = token_of(people)
    revoked, ended = token_of(people), token_of(people, days=1)
    people.revoke(revoked.split(".")[1], wall=WALL)
    with_person(people, "bob")
    gone = token_of(people, "bob")
    people.leave("bob", wall=WALL)
    shown = {
        "none was shown": "",
        "it is none of ours": "Bearer x",
        "there is none with this secret": f"{good[:-1]}{'a' if good[-1] != 'a' else 'b'}",
        "is revoked": revoked,
        "has ended": ended,
        "is of somebody who left": gone,
    }
    other = [good.upper(), f" {good}", f"{good}\n", good.split(".")[1], f"{good}x", "\udcff", "gpp." * 9999]
    known = People(store)
    with caplog.at_level(logging.WARNING, "glidepath.people"):
        said = {refused(known, text, WALL + 2 * DAY_S) for text in (*shown.values(), *other)}
    assert said == {"no token that is in force was shown"}
    lines = [record.getMessage() for record in caplog.records]
    assert [word for word in shown if not any(word in line for line in lines)] == []
    secrets = [text.split(".")[2] for text in (good, revoked, ended, gone)]
    assert [line for line in lines if any(secret in line for secret in secrets)] == []


def test_a_token_ends_to_the_second(store: Store, people: PeopleStore) -> None:
    text, known = token_of(people, days=1), People(store)
    assert known.caller_of(text, WALL + DAY_S - 0.5) == ANN
    refused(known, text, WALL + DAY_S)


@pytest.mark.parametrize("what", ["revoked", "left"])
def test_who_is_cut_off_is_so_within_the_stated_time_in_another_program_too(
    store: Store, store_url: str, people: PeopleStore, what: str
) -> None:
    text, steady = token_of(people), Steady()
    known = People(store, steady=steady)
    assert known.caller_of(text, WALL) == ANN
    with open_store(store_url) as another:
        if what == "revoked":
            PeopleStore(another).revoke(text.split(".")[1], wall=WALL)
        else:
            assert PeopleStore(another).leave("ann", wall=WALL)[1] == 1
    steady.now += KNOWN_S
    refused(known, text)


def test_what_changes_here_holds_at_once(store: Store, people: PeopleStore) -> None:
    text, known = token_of(people), People(store, steady=Steady())
    assert known.caller_of(text, WALL) == ANN
    people.set_role("ann", "viewer")
    known.forget()
    assert known.caller_of(text, WALL) == Caller("ann", Role.VIEWER, ANN.projects)


def test_an_answer_is_not_used_beyond_the_end_of_its_token(store: Store, people: PeopleStore) -> None:
    text, known = token_of(people, days=1), People(store, steady=Steady())
    assert known.caller_of(text, WALL + DAY_S - 0.5) == ANN
    refused(known, text, WALL + DAY_S + 0.5)


def test_so_many_answers_are_kept_and_no_more(store: Store, people: PeopleStore) -> None:
    class Anybody:
        def caller_of(self, text: str, wall: float) -> tuple[Caller, float]:
            return Caller(text, Role.VIEWER), wall + 60

    known = People(store, Anybody(), steady=Steady())
    for number in range(KNOWN_MAX + 10):
        assert known.caller_of(f"t{number}", WALL).name == f"t{number}"
    assert len(known._kept) == KNOWN_MAX


def test_the_last_use_is_noted_at_most_once_a_minute(store: Store, people: PeopleStore) -> None:
    text, steady = token_of(people), Steady()
    known = People(store, steady=steady)
    noted = []
    for after_s in (0, 30, 59, 61, 100):
        steady.now += 30
        known.caller_of(text, WALL + after_s)
        noted.append(people.tokens("ann")[0].used_wall_s)
    assert noted == [WALL, WALL, WALL, WALL + 61, WALL + 61]


def test_who_is_known_comes_in_though_the_store_takes_no_writes(
    store_url: str, people: PeopleStore, caplog: pytest.LogCaptureFixture
) -> None:
    text = token_of(people)
    with open_store(store_url, read_only=True) as reading, caplog.at_level(logging.WARNING):
        known, steady = People(reading), Steady()
        known.steady = steady
        for _ in range(3):
            assert known.caller_of(text, WALL) == ANN
            steady.now += KNOWN_S
    assert len([r for r in caplog.records if "was not noted" in r.getMessage()]) == 1


def test_reasons_fill_no_disk(store: Store, people: PeopleStore, caplog: pytest.LogCaptureFixture) -> None:
    steady = Steady()
    known = People(store, steady=steady)
    with caplog.at_level(logging.WARNING):
        for _ in range(REASONS_PER_MINUTE + 40):
            refused(known, "x")
        steady.now += 60
        refused(known, "y")
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == REASONS_PER_MINUTE + 2
    assert "40 more tokens were refused" in lines


def test_a_token_has_so_many_beside_it_and_is_of_somebody_who_is_there(people: PeopleStore) -> None:
    for _ in range(TOKENS_EACH_MAX):
        last = token_of(people)
    with pytest.raises(Full, match=f"may have {TOKENS_EACH_MAX} tokens"):
        token_of(people)
    people.revoke(last.split(".")[1], wall=WALL)
    token_of(people)
    people.leave("ann", wall=WALL)
    for name in ("ann", "nobody"):
        with pytest.raises(Missing):
            token_of(people, name)


def test_who_comes_again_has_no_old_token_and_no_old_project(store: Store, people: PeopleStore) -> None:
    old = token_of(people)
    people.leave("ann", wall=WALL + 1)
    back = Person("ann", "viewer", "root", WALL + 2)
    left = people.add(back)
    assert left is not None
    assert left.left_wall_s == WALL + 1
    assert people.person("ann") == left  # It was not meant, so nothing changed.
    people.add(back, again=True)
    assert people.person("ann") == Person("ann", "viewer", "root", WALL)
    known = People(store)
    refused(known, old, WALL + 3)
    assert known.caller_of(token_of(people), WALL + 3) == Caller("ann", Role.VIEWER)


def test_a_project_that_closes_is_left_by_all(store: Store, people: PeopleStore) -> None:
    assert people.close_project("atlas", wall=WALL + 1) == 1
    assert People(store).caller_of(token_of(people), WALL).projects == {"cms"}
    with pytest.raises(Missing):
        people.join("ann", "atlas", by="root", wall=WALL)
    assert people.projects() == [
        Project("atlas", "root", WALL, WALL + 1),
        Project("cms", "root", WALL, people=("ann",)),
    ]


def test_a_token_is_listed_with_all_that_people_need_and_nothing_that_lets_in(people: PeopleStore) -> None:
    token, text = people.issue("ann", by="root", note="laptop\0", wall=WALL, ends_wall=WALL + 9)
    assert people.tokens() == [PersonToken(text.split(".")[1], "ann", "laptop\ufffd", "root", WALL, WALL + 9)]
    before = people.revoke(token.id, wall=WALL + 1)
    assert before == token
    assert people.token(token.id) == PersonToken(
        token.id, "ann", token.note, "root", WALL, WALL + 9, revoked_wall_s=WALL + 1
    )


def test_leaving_and_getting_a_token_at_once_never_gives_one_who_left_a_token_in_force(
    store: Store, people: PeopleStore
) -> None:
    texts: list[str] = []

    def issue() -> None:
        try:
            texts.append(token_of(people))
        except Missing:
            pass

    for _ in range(5):
        threads = [Thread(target=issue), Thread(target=lambda: people.leave("ann", wall=WALL))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert [token for token in people.tokens("ann") if token.in_force(WALL)] == []
        people.add(Person("ann", "user", "root", WALL), again=True)
    for text in texts:
        refused(People(store), text)
