"""A capsule becomes a session of its own, once; a session becomes a capsule; both go on as the other would."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.lab import call, needs_agent, says, text
from tests.node.driven import GLOB, Person
from tests.node.stored import Laptop
from tests.protocol import forge, hostile

from hhd.base.errors import RefusedError, UsageError
from hhd.effects.executor import HowSettled, Settlement
from hhd.node import capsule_file, here, sealed_file, sessions
from hhd.node import store as door
from hhd.node.answers.made import Exported, Forked
from hhd.node.control import ControlService
from hhd.node.ended import End
from hhd.store.check import Check
from hhd_protocol import bodies, capsule, sealed
from hhd_protocol.crypto import device_text
from hhd_protocol.paused import At

pytestmark = needs_agent

COUNT = says(call("bash", command="echo x >> runs; echo one"))
SCRIPT = [GLOB, COUNT, says(text("One.")), GLOB, says(text("Two."))]


@pytest.fixture(autouse=True)
def _cheap(monkeypatch: pytest.MonkeyPatch) -> None:
    cost = {"operations": 1, "memory_bytes": 8192}
    real = sealed.seal_with_passphrase
    monkeypatch.setattr(sealed, "seal_with_passphrase", lambda content, **given: real(content, **given, **cost))


@pytest.fixture
def laptop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Laptop]:
    made = Laptop(folder=tmp_path / "laptop", script=SCRIPT)
    monkeypatch.setattr(sealed_file, "identity", lambda: made.me)
    yield made
    assert Check(made.store, read_data=True).run().findings == []
    made.store.close()


def control(laptop: Laptop) -> ControlService:
    return ControlService(store=laptop.store, me=laptop.me)


def raw(made: Exported) -> bytes:
    return b"".join(made.parts)


def taken(laptop: Laptop, file: bytes, **given: Any) -> Forked:
    return control(laptop).import_capsule(file, Path("x.hhd"), **given)


@pytest.fixture
def session(laptop: Laptop) -> Any:
    found = laptop.create("Count.")
    assert laptop.go(found).end is End.WAITING
    return found


def test_an_exported_session_is_the_capsule_that_says_the_same(laptop: Laptop, session: Any) -> None:
    made = control(laptop).export("Count.")
    value = capsule.decode(raw(made))
    assert b"".join(value.transcript) == laptop.transcript(session) and value.module.packed is not None
    assert (made.session, made.sealed, made.to) == (session.hex(), False, None)
    assert value.origin is not None and value.origin.session == session
    assert value.origin.checkpoint.hex() == made.checkpoint and value.origin.device == device_text(laptop.me.id)
    assert value.path_hint is None, "no path of this device goes along"
    without = control(laptop).export("Count.", embed=False)
    assert capsule.decode(raw(without)).module.packed is None


def test_an_import_is_a_session_of_its_own_that_goes_on_as_the_capsule_would(laptop: Laptop, session: Any) -> None:
    file = raw(control(laptop).export("Count."))
    made = taken(laptop, file)
    assert made.fresh and made.session != session.hex() and made.origin == session.hex()
    assert made.title == "Count." and made.state == "waiting for you"
    again = next(one for one in laptop.store.sessions() if one.hex() == made.session)
    assert laptop.store.session(again).family != laptop.store.session(session).family
    assert laptop.transcript(again) == laptop.transcript(session)
    view = sessions.view(laptop.store, laptop.me, again)
    assert view.owner == laptop.me.id and view.token is not None and view.token.number == 1
    create = laptop.store.statements.get(again, view.token.id)
    assert create is not None and isinstance(create.body, bodies.CreateBody) and create.body.origin is not None
    assert create.body.origin.capsule == capsule.decode(file).content_digest()
    for one in (session, again):
        here.note(laptop.store, one, here.Note())
        assert laptop.go(one, Person(words=["on"])).end is End.WAITING
    assert laptop.transcript(again) == laptop.transcript(session)
    both = [sessions.loaded(laptop.store, one, laptop.store.heads(one)[0]) for one in (session, again)]
    assert both[0].content_digest() == both[1].content_digest(), "memory, journal and history too"


def test_the_same_capsule_again_finds_that_session_and_changes_nothing(laptop: Laptop, session: Any) -> None:
    file = raw(control(laptop).export("Count."))
    made = taken(laptop, file)
    count, rows = laptop.store.sessions_count(), laptop.store.database.bytes_used()
    again = taken(laptop, file)
    assert not again.fresh and again.session == made.session
    sealed_copy = raw(control(laptop).export(session.hex(), passphrase=b"words"))
    assert taken(laptop, sealed_copy, passphrase=b"words").session == made.session, "however it was sealed"
    assert (laptop.store.sessions_count(), laptop.store.database.bytes_used()) == (count, rows)
    stepped = replace(capsule.decode(file), line=type(capsule.decode(file).line)(b"n" * 16))
    other = taken(laptop, b"".join(map(bytes, capsule.encode(stepped))))
    assert other.fresh and other.session != made.session, "a step of its own makes it another"
    assert session


def test_a_removed_session_stays_away_and_its_capsule_makes_a_new_one(laptop: Laptop, session: Any) -> None:
    verbs = control(laptop)
    file = raw(verbs.export("Count."))
    old = [one.raw for one in laptop.store.statements.all(session)]
    verbs.remove(verbs.removal("Count.", everywhere=True))
    assert session not in laptop.store.sessions()
    made = taken(laptop, file)
    assert made.fresh and made.session != session.hex() and session not in laptop.store.sessions()
    verbs.remove(verbs.removal(made.session, everywhere=True))
    again = taken(laptop, file)
    assert again.fresh and again.session not in (made.session, session.hex())
    for statement in old:
        laptop.store.statements.add(session, statement)
    assert session not in laptop.store.sessions(), "statements that come late bring nothing back"
    assert [one.hex() for one in laptop.store.sessions()] == [again.session]
    (tombstone,) = laptop.store.statements.tombstones(session)
    assert isinstance(tombstone.body, bodies.TombstoneBody) and tombstone.body.heads


def test_a_sealed_one_says_who_sealed_it_and_only_ones_own_needs_no_look(laptop: Laptop, session: Any) -> None:
    verbs = control(laptop)
    own = taken(laptop, raw(verbs.export("Count.", to=device_text(laptop.me.id)[:9])))
    assert own.by is not None and own.by.here
    assert here.noted(laptop.store, sessions_id(laptop, own)) is not None
    plain = capsule.decode(raw(verbs.export(session.hex())))
    theirs = sealed_file.sealed_parts(
        capsule.encode(replace(plain, line=type(plain.line)(b"t" * 16))),
        seed=b"t" * 32,
        to_public=laptop.me.public,
        passphrase=None,
    )
    made = taken(laptop, b"".join(theirs))
    assert made.by is not None and not made.by.here
    assert here.noted(laptop.store, sessions_id(laptop, made)) is None
    with pytest.raises(RefusedError, match="not made here by you"):
        laptop.go(sessions_id(laptop, made))
    assert session


def sessions_id(laptop: Laptop, made: Forked) -> Any:
    return next(one for one in laptop.store.sessions() if one.hex() == made.session)


def test_a_plain_one_that_was_not_written_here_is_shown_first(laptop: Laptop, session: Any, tmp_path: Path) -> None:
    value = capsule.decode(raw(control(laptop).export("Count.")))
    made = taken(laptop, b"".join(map(bytes, capsule.encode(value))))
    assert here.noted(laptop.store, sessions_id(laptop, made)) is None
    mine = replace(value, line=type(value.line)(b"m" * 16))
    capsule_file.write_new(tmp_path / "mine.hhd", mine)
    own = taken(laptop, (tmp_path / "mine.hhd").read_bytes())
    assert here.noted(laptop.store, sessions_id(laptop, own)) is not None
    assert session


def test_what_waited_and_may_have_run_waits_for_a_word(laptop: Laptop) -> None:
    laptop.rules = {"allow": []}
    session = laptop.create("Ask.")
    assert laptop.go(session).status == 3
    made = taken(laptop, raw(control(laptop).export("Ask.")))
    assert made.state == "uncertain"
    laptop.rules = {"allow": ["bash"]}
    again = sessions_id(laptop, made)
    here.note(laptop.store, again, here.Note())
    assert laptop.go(again).status == 5 and not (laptop.repo / "runs").exists()
    assert laptop.go(again, settlement=Settlement(how=HowSettled.RAN, reply=b'{"output":"x"}')).end is End.WAITING
    assert not (laptop.repo / "runs").exists()


def test_a_finished_and_a_fresh_capsule_become_sessions_too(laptop: Laptop) -> None:
    laptop.create("fresh")
    done = laptop.create("done", once="true")
    assert laptop.go(done).end is End.FINISHED
    for name, at in (("fresh", At.FRESH), ("done", At.FINISHED)):
        made = taken(laptop, raw(control(laptop).export(name)))
        again = sessions_id(laptop, made)
        assert sessions.loaded(laptop.store, again, laptop.store.heads(again)[0]).at is at


def test_a_capsule_without_its_module_needs_one_that_is_here_or_given(laptop: Laptop, session: Any) -> None:
    file = raw(control(laptop).export("Count.", embed=False))
    assert taken(laptop, file).fresh, "the module is in the store"
    stranger = forge.whole(replace(forge.fresh(), module=capsule.Module.of(forge.WASM, embed=False)))
    with pytest.raises(RefusedError, match="--module"):
        taken(laptop, stranger)
    with pytest.raises(RefusedError, match="not the program"):
        taken(laptop, stranger, module=b"another")
    assert taken(laptop, stranger, module=forge.WASM).fresh
    assert session


def test_what_is_no_capsule_or_lies_is_refused_and_nothing_is_written(laptop: Laptop) -> None:
    verbs, before = control(laptop), laptop.store.database.bytes_used()
    cases = dict(hostile.cases())
    refused = 0
    for file in (b"", b"text", *cases.values()):
        try:
            verbs.import_capsule(file, Path("x.hhd"))
        except RefusedError as error:
            refused += 1
            assert "\n" not in str(error)
    assert refused == len(cases) + 2
    assert laptop.store.sessions() == [] and laptop.store.database.bytes_used() == before
    assert taken(laptop, forge.whole(forge.at_effect())).fresh, "and one that does not lie is taken"


def test_wrong_keys_and_words_are_refused_or_asked_for(laptop: Laptop, session: Any) -> None:
    verbs = control(laptop)
    words = raw(verbs.export("Count.", passphrase=b"words"))
    for file, given, kind in (
        (words, {}, UsageError),
        (words, {"passphrase": b"other"}, RefusedError),
        (words[:-1], {"passphrase": b"words"}, RefusedError),
        (raw(verbs.export("Count.")), {"passphrase": b"words"}, UsageError),
    ):
        with pytest.raises(kind):
            taken(laptop, file, **given)
    with pytest.raises(UsageError):
        verbs.export("Count.", to="laptop", passphrase=b"x")
    with pytest.raises(RefusedError, match="no device"):
        verbs.export("Count.", to="phone")
    assert laptop.store.sessions_count() == 1
    assert taken(laptop, words, passphrase=b"words").fresh and session


def test_a_session_forks_at_its_head_or_any_checkpoint(laptop: Laptop, session: Any) -> None:
    verbs = control(laptop)
    at = laptop.store.checkpoint_ids(session)[4]
    made = verbs.fork("Count.", at=at.hex()[:12])
    assert (made.origin, made.checkpoint, made.fresh) == (session.hex(), at.hex(), True)
    assert verbs.fork(session.hex()).checkpoint == laptop.store.heads(session)[0].hex()
    assert {laptop.store.session(one).family for one in laptop.store.sessions()} == {
        laptop.store.session(session).family
    }
    with pytest.raises(RefusedError):
        verbs.fork(session.hex(), at="ff" * 32)


def test_the_door_makes_nothing_where_there_is_nothing(tmp_path: Path) -> None:
    from hhd.app import sessions

    with pytest.raises(RefusedError):
        sessions.import_from(tmp_path / "none.hhd", passphrase_fd=None, module=None)
    assert not door.identity_folder().exists()
