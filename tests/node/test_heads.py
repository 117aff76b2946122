"""Every line of work of a session is a head, with where it parts and what it holds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from tests.node import lines
from tests.node.lines import DESKTOP, apart, event, made, service, turn

from hhd.node import store as door
from hhd.store.store import Store
from hhd_protocol import lineage
from hhd_protocol.codec import encode
from hhd_protocol.crypto import device_text


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    lines.grouped(monkeypatch)
    with door.opened() as opened:
        yield opened


def test_a_session_with_one_head_has_it_and_no_fork(store: Store) -> None:
    found = made(store, says=[b"", turn(1), turn(2)])
    (head,) = service(store).heads("the parser").heads
    assert (head.main, head.standing, head.fork, head.turns) == (True, "head", None, 2)
    assert head.device.here and head.token == 1 and head.id == store.heads(found.id)[0].hex()


def test_a_session_without_a_checkpoint_has_no_head(store: Store) -> None:
    made(store)
    assert service(store).heads("the").heads == ()


def test_competing_heads_say_where_when_by_whom_and_what(store: Store) -> None:
    both = apart(store, [turn(2, path="a.py")], [turn(2, path="b.py"), turn(3, path="c.py"), turn(4, command="make")])
    here, there = service(store).heads("the parser").heads
    assert (here.id, there.id) == (both.here.hex(), both.there.hex()), "the owner's line first"
    assert (here.main, there.main) == (True, False)
    assert here.fork == there.fork == both.fork.hex()
    assert (here.turns, there.turns) == (1, 3) and (here.effects, there.effects) == (1, 3)
    assert (here.files, there.files) == (("a.py",), ("b.py", "c.py"))
    assert there.device.name == "desktop" and there.device.id == device_text(lines.device(DESKTOP))
    assert (here.token, there.token) == (3, 2) and here.at_ms > there.at_ms > 0


def test_what_a_head_did_is_not_known_once_its_content_is_thinned(store: Store) -> None:
    both = apart(store, [turn(2, path="a.py")], [turn(2, path="b.py")])
    store.thin(both.there)
    here, there = service(store).heads("the parser").heads
    assert there.files is None and there.turns == 1
    assert here.files == ("a.py",), "and the other's is"


def test_a_picked_head_is_marked_and_stays_one_of_many(store: Store) -> None:
    both = apart(store, [turn(2)], [turn(2)])
    done = service(store).pick("the parser", both.there.hex()[:10])
    assert (done.before, done.after) == (None, both.there.hex())
    here, there = service(store).heads("the parser").heads
    assert (here.picked, there.picked, here.main, there.main) == (False, True, True, False)
    assert service(store).pick("the parser", None).before == both.there.hex()
    assert not any(head.picked for head in service(store).heads("the parser").heads)


def test_a_picked_head_that_goes_on_stays_picked(store: Store) -> None:
    both = apart(store, [turn(2)], [turn(2)])
    service(store).pick("the parser", both.here.hex())
    on = both.made.work([turn(3)], on=both.here, token=both.made.tip_record)
    here, there = service(store).heads("the parser").heads
    assert (here.id, here.picked, there.picked) == (on.hex(), True, False)


def test_what_an_unknown_device_did_is_shown_and_is_no_head(store: Store) -> None:
    found = made(store, says=[turn(1)])
    base = store.heads(found.id)[0]
    theirs = found.takeover(base, prev=found.create, by=lines.STRANGER)
    held = found.work([turn(2)], on=base, token=theirs, by=lines.STRANGER)
    one, other = service(store).heads("the parser").heads
    assert (one.id, one.standing, one.main) == (base.hex(), "head", True)
    assert (other.id, other.standing, other.main) == (held.hex(), "held", False)


def test_a_forged_signature_makes_no_head(store: Store) -> None:
    found = made(store, says=[turn(1)])
    base = store.heads(found.id)[0]
    theirs = found.takeover(base, prev=found.create, by=DESKTOP)
    good = found.work([turn(2)], on=base, token=theirs, by=DESKTOP)
    assert [one.id for one in service(store).heads("the parser").heads] == [good.hex()]
    forged = replace(theirs, raw=encode([theirs.message, bytes(64)]))
    store.statements.add(found.id, forged.raw)
    assert found.work([turn(9)], on=base, token=lineage.decode(forged.raw), by=DESKTOP)
    heads = service(store).heads("the parser").heads
    assert [one.id for one in heads] == [good.hex()], "what stands on it is no head either"


def test_a_split_line_has_no_main_head_and_both_arms(store: Store) -> None:
    found = made(store, says=[turn(1)])
    base, before = store.heads(found.id)[0], found.tip()
    one = found.work([turn(2, path="a.py")], on=base)
    other = found.work([turn(2, path="b.py"), turn(3)], on=base, after=before)
    heads = service(store).heads("the parser").heads
    assert {head.id for head in heads} == {one.hex(), other.hex()} and not any(head.main for head in heads)
    assert {head.fork for head in heads} == {base.hex()}
    assert {head.files for head in heads} == {("a.py",), ("b.py",)}


def test_texts_that_are_no_events_break_nothing(store: Store) -> None:
    both = apart(store, [b"no json\n", b'{"event":7}\n', b"[]\n", b"\xff\xfe"], [event("call"), event("result")])
    here, there = service(store).heads("the parser").heads
    assert here.files == () and there.files == () and both
