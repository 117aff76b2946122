"""A person names single heads and leaves them out of lists, on all devices; none is ever dropped for that."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.node import lines
from tests.node.lines import DESKTOP, Apart, apart, service, turn
from tests.registry.memory import registry as in_memory

from hhd.base.errors import RefusedError, UsageError, UserError
from hhd.node import head_facts, listing, registry
from hhd.node import store as door
from hhd.registry import sync
from hhd.store.catalogue import HEAD_FACTS
from hhd.store.check import Check
from hhd.store.retention import sweep
from hhd.store.store import Store
from hhd_protocol.ids import CheckpointId


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    lines.grouped(monkeypatch)
    with door.opened() as opened:
        yield opened


@pytest.fixture
def both(store: Store) -> Apart:
    return apart(store, [turn(2, path="a.py")], [turn(2, path="b.py"), turn(3, path="c.py")])


def _heads(store: Store, *, with_archived: bool = False) -> dict[str, str]:
    found = service(store).heads("the parser", with_archived=with_archived).heads
    return {one.id: one.name for one in found}


def _listed_heads(store: Store) -> int:
    (one,) = listing.listed(store)
    return one.heads_shown


def test_a_head_is_named_and_means_itself_by_that_name_everywhere(store: Store, both: Apart) -> None:
    asks = service(store)
    done = asks.rename("the parser", "the other way", head=both.there.hex()[:10])
    assert (done.before, done.after, done.head) == (None, "the other way", both.there.hex())
    assert _heads(store) == {both.here.hex(): "", both.there.hex(): "the other way"}
    assert asks.show("the parser").title == "the parser", "the session's own title stays"
    assert asks.show("the parser", head="The OTHER").head == both.there.hex()
    assert b"".join(asks.transcript("the parser", head="the other way")).count(b"c.py") == 1
    assert asks.diff("the parser", "the other way").other.head == both.there.hex()
    assert asks.diff("the parser", "the other way", both.here.hex()).one.head == both.there.hex()
    assert asks.pick("the parser", "the other").after == both.there.hex()
    for at in ("the other way", both.there.hex()):  # What is made by hand has no program.
        with pytest.raises(UserError, match=f"{both.there.hex()[:16]} holds no session of a program"):
            asks.fork("the parser", at=at)
    assert asks.rename("the parser", None, head="the other way").before == "the other way"
    assert _heads(store) == {both.here.hex(): "", both.there.hex(): ""}
    with pytest.raises(RefusedError):
        asks.show("the parser", head="the other way")


def test_a_name_goes_along_as_the_line_goes_on_and_not_to_the_line_that_parts_before_it(
    store: Store, both: Apart
) -> None:
    asks = service(store)
    asks.rename("the parser", "there", head=both.there.hex())
    asks.rename("the parser", "both", head=both.here.hex())
    token = next(one for one in store.statements.all(both.made.id) if getattr(one.body, "number", 0) == 2)
    on = both.made.work([turn(9)], on=both.there, token=token, by=DESKTOP)
    assert _heads(store) == {both.here.hex(): "both", on.hex(): "there"}
    assert asks.show("the parser", head="there").head == on.hex()
    asks.rename("the parser", "newer", head="there")
    assert _heads(store)[on.hex()] == "newer", "the newest name counts"
    asks.rename("the parser", None, head="newer")
    assert _heads(store)[on.hex()] == "there"


def test_of_two_heads_with_one_name_none_is_guessed_and_an_exact_name_goes_before_a_begin(
    store: Store, both: Apart
) -> None:
    asks = service(store)
    for head in (both.here, both.there):
        asks.rename("the parser", "twin", head=head.hex())
    with pytest.raises(UsageError, match="may mean"):
        asks.show("the parser", head="twin")
    asks.rename("the parser", both.here.hex()[:6], head=both.there.hex())
    assert asks.show("the parser", head=both.here.hex()[:6]).head == both.there.hex()
    assert asks.show("the parser", head=both.here.hex()[:7]).head == both.here.hex()


def test_an_archived_head_is_left_out_counted_and_comes_back(store: Store, both: Apart) -> None:
    asks = service(store)
    assert _listed_heads(store) == 2
    asks.archive("the parser", head=both.there.hex())
    found = asks.heads("the parser")
    assert [one.id for one in found.heads] == [both.here.hex()] and found.left_out == 1
    every = asks.heads("the parser", with_archived=True)
    assert [(one.id, one.archived) for one in every.heads] == [(both.here.hex(), False), (both.there.hex(), True)]
    assert every.left_out == 0 and _listed_heads(store) == 1 == asks.show("the parser").heads
    listing.change(store, both.made.id, turns=7)
    assert _listed_heads(store) == 1
    asks.archive("the parser", head=both.there.hex(), undo=True)
    assert len(_heads(store)) == 2 == _listed_heads(store)


def test_new_work_on_an_archived_head_is_listed_again(store: Store, both: Apart) -> None:
    service(store).archive("the parser", head=both.there.hex())
    token = next(one for one in store.statements.all(both.made.id) if getattr(one.body, "number", 0) == 2)
    on = both.made.work([turn(9)], on=both.there, token=token, by=DESKTOP)
    both.made.list(turns=5)
    assert on.hex() in _heads(store) and _listed_heads(store) == 2


def test_the_head_that_the_session_goes_on_from_is_always_listed(store: Store, both: Apart) -> None:
    with pytest.raises(RefusedError, match="always listed"):
        service(store).archive("the parser", head=both.here.hex())
    registry.opened(store).archive_head(both.made.id, both.here, True)
    assert both.here.hex() in _heads(store), "though another device archived it"


def test_what_is_archived_is_kept_by_gc_as_every_head_is(store: Store, both: Apart) -> None:
    service(store).archive("the parser", head=both.there.hex())
    before = b"".join(service(store).transcript("the parser", head=both.there.hex()))
    assert sweep(store, keep_days=0).thinned >= 0
    assert b"".join(service(store).transcript("the parser", head=both.there.hex())) == before
    assert not Check(store).run().findings
    store.thin(both.there)
    assert service(store).heads("the parser", with_archived=True).heads[1].files is None, "thinned it would be gone"


def test_names_of_heads_merge_and_two_that_did_not_know_of_each_other_are_asked_about() -> None:
    laptop, _ = in_memory("laptop")
    desktop, _ = in_memory("desktop")
    session, head, other = (bytes([number]) * 32 for number in (1, 2, 3))
    laptop.name_head(session, head, "mine")
    desktop.name_head(session, head, "theirs")
    desktop.archive_head(session, other, True)
    sync.merge_from(laptop, sync.copy(desktop))
    sync.merge_from(desktop, sync.copy(laptop))
    facts = laptop.facts(session)
    assert facts == desktop.facts(session)
    assert [tuple(one) for one in facts.heads] == [(head[:16], "theirs", False), (other[:16], None, True)]
    (question,) = laptop.questions()
    assert question.what == "name of a head" and {one.text for one in question.claims} == {"mine", "theirs"}
    assert facts.asked == 1
    assert not laptop.name_head(session, head, "mine").questions
    laptop.archive_head(session, other, False)
    assert [tuple(one) for one in laptop.facts(session).heads] == [(head[:16], "mine", False)]


def test_what_is_shown_of_heads_mends_a_damaged_document_and_is_mended_from_it(store: Store, both: Apart) -> None:
    asks = service(store)
    asks.rename("the parser", "there", head=both.there.hex())
    asks.archive("the parser", head=both.there.hex())
    with store.transaction():
        store.rows.cut(HEAD_FACTS, b"", 0)
        store.shared.show(b"")
    assert not head_facts.of(store, both.made.id)
    assert _heads(store, with_archived=True)[both.there.hex()] == "there" and _listed_heads(store) == 1
    with store.transaction():
        store.rows.cut("shared", b"", 0)
    mended = registry.opened(store)
    assert [one.name for one in mended.facts(both.made.id).heads] == ["there"]
    assert mended.notice is not None and "2 things" in mended.notice


def test_of_more_heads_than_anyone_names_the_first_are_shown(store: Store, both: Apart) -> None:
    shared = registry.opened(store)
    with store.transaction():
        for number in range(258):
            shared.name_head(both.made.id, CheckpointId(number.to_bytes(2, "big") + bytes(30)), "x")
    said = head_facts.of(store, both.made.id).all()
    assert [half[:2] for half, _ in said] == [number.to_bytes(2, "big") for number in range(256)]
