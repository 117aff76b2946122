"""A difference says where two lines part and what each did from there, found along records or by walking."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.node import lines
from tests.node.lines import DESKTOP, apart, event, made, service, turn

from hhd.base.errors import RefusedError, UsageError
from hhd.node import listing
from hhd.node import store as door
from hhd.node.difference import Comparison
from hhd.store.store import Store
from hhd_protocol.ids import CheckpointId


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    lines.grouped(monkeypatch)
    with door.opened() as opened:
        yield opened


def test_both_sides_are_told_from_where_they_part(store: Store) -> None:
    both = apart(
        store,
        [turn(2, "I fix it here.", path="a.py"), turn(3, command="make test", failed=True)],
        [turn(2, "I fix it there.", path="b.py")],
    )
    found = service(store).diff("the parser")
    assert (found.fork, found.model_calls) == (both.fork.hex(), 1)
    assert (found.one.head, found.other.head) == (both.here.hex(), both.there.hex())
    assert [one[:2] for one in found.one.lines] == [
        ("text", "I fix it here."),
        ("call", "edit a.py"),
        ("call", "bash make test"),
    ]
    assert [one.failed for one in found.one.lines] == [False, False, True]
    assert [one.text for one in found.other.lines] == ["I fix it there.", "edit b.py"]
    assert (found.one.model_calls, found.one.calls, found.one.files) == (2, 2, ("a.py",))
    assert (found.one.token, found.other.token) == (3, 2)
    assert found.one.device.here and found.other.device.name == "desktop"


def test_heads_may_be_named_in_either_order_and_one_is_compared_with_the_main_one(store: Store) -> None:
    both = apart(store, [turn(2, "here")], [turn(2, "there")])
    here, there = both.here.hex(), both.there.hex()
    control = service(store)
    turned = control.diff("the parser", there, here)
    assert (turned.one.head, turned.other.head, turned.fork) == (there, here, both.fork.hex())
    assert (
        control.diff("the parser", there) == control.diff("the parser") == control.diff("the parser", here[:9], there)
    )
    with pytest.raises(UsageError, match="one head"):
        control.diff("the parser", here, here)


def test_a_line_is_compared_with_what_it_stands_on(store: Store) -> None:
    both = apart(store, [turn(2, "here")], [turn(2, "there")])
    found = service(store).diff("the parser", both.fork.hex(), both.here.hex())
    assert (found.fork, found.one.lines) == (both.fork.hex(), ())
    assert [one.text for one in found.other.lines if one.kind == "text"] == ["here"]


def test_what_both_sides_said_alike_after_the_fork_is_not_told_twice(store: Store) -> None:
    apart(store, [event("text", text="same"), turn(2, "here")], [event("text", text="same"), turn(2, "there")])
    found = service(store).diff("the parser")
    assert found.one.lines[0].text == "here" and found.other.lines[0].text == "there"


def test_one_head_alone_is_refused_and_of_three_two_must_be_named(store: Store) -> None:
    made(store, "alone", [turn(1)])
    with pytest.raises(RefusedError, match="one head"):
        service(store).diff("alone")
    both = apart(store, [turn(2)], [turn(2)])
    work = both.made
    theirs = work.takeover(both.fork, prev=work.tip_record, by=DESKTOP)
    third = work.work([turn(2, "third")], on=both.fork, token=theirs, by=DESKTOP)
    with pytest.raises(UsageError, match="3 heads"):
        service(store).diff("the parser")
    assert service(store).diff("the parser", both.here.hex(), third.hex()).fork == both.fork.hex()


def compared(store: Store, one: CheckpointId, other: CheckpointId, title: str = "the parser") -> CheckpointId | None:
    control = service(store)
    found = next(each for each in listing.listed(store) if each.title == title)
    walked = Comparison(store=store, listed=found, devices=control._devices)
    fork = walked.fork_point(one, other)
    assert fork == walked._walked(one, other)
    return fork


def test_the_fork_is_found_however_often_the_session_changed_hands(store: Store) -> None:
    found = made(store, says=[turn(1)])
    head, record, seen = store.heads(found.id)[0], found.create, []
    for n in range(4):
        by = DESKTOP if n % 2 == 0 else None
        record = found.takeover(head, prev=record, by=by)
        head = found.work([turn(2 * n + 2), turn(2 * n + 3)], on=head, token=record, by=by)
        seen.append(head)
    for earlier in seen[:-1]:
        assert compared(store, earlier, head) == earlier
    other = found.takeover(seen[0], prev=record)
    branch = found.work([turn(9)], on=seen[0], token=other)
    assert compared(store, branch, head) == seen[0]


def test_where_a_rolled_back_disk_split_a_line_the_fork_is_the_true_one(store: Store) -> None:
    found = made(store, says=[turn(1)])
    base, before = store.heads(found.id)[0], found.tip()
    short = found.work([turn(2, "short arm")], on=base)
    long = found.work([turn(2, "long arm"), turn(3), turn(4)], on=base, after=before)
    assert compared(store, short, long) == base, "by numbers alone, the end of the short arm would be taken for it"
    on = found.takeover(short, prev=found.create, by=DESKTOP)
    further = found.work([turn(5)], on=short, token=on, by=DESKTOP)
    assert compared(store, further, long) == base


def test_a_thinned_fork_still_has_its_name_and_a_thinned_head_is_refused(store: Store) -> None:
    both = apart(store, [turn(2, "here")], [turn(2, "there")])
    store.thin(both.fork)
    assert service(store).diff("the parser").fork == both.fork.hex()
    store.thin(both.there)
    with pytest.raises(RefusedError, match="thinned"):
        service(store).diff("the parser")


def test_a_transcript_that_is_no_events_is_told_line_by_line(store: Store) -> None:
    apart(store, [b"just text\n", b"\xff\n", b'{"event": 1}\n'], [b'{"event":"text","text":"\\ud800"}\n', b"no end"])
    found = service(store).diff("the parser")
    assert [one[:3] for one in found.one.lines] == [
        ("raw", "just text", False),
        ("raw", "\\xff", False),
        ("raw", '{"event": 1}', False),
    ]
    assert [one[:3] for one in found.other.lines] == [("text", "\ud800", False), ("raw", "no end", False)]


def edits(n: int, path: str) -> list[bytes]:
    """A model call that asks for an edit, and what came of it: lines of work part between them."""
    whole = turn(n, "I edit.", path=path)
    cut = whole.rindex(b'{"event":"result"')
    return [whole[:cut], whole[cut:]]


def test_where_two_lines_part_between_a_call_and_its_result_the_side_that_ran_it_says_so(store: Store) -> None:
    asked, done = edits(1, "a.py")
    found = made(store, says=[b"", asked])
    (fork,) = store.heads(found.id)
    theirs = found.takeover(fork, prev=found.create, by=DESKTOP)
    there = found.work([event("error", text="It is not here.")], on=fork, token=theirs, by=DESKTOP)
    ours = found.takeover(fork, prev=theirs)
    here = found.work([done, turn(2, "Next.")], on=fork, token=ours)
    found.list(heads=2, token=3)
    told = service(store).diff("the parser")
    assert told.fork == fork.hex()
    assert [one[:2] for one in told.one.lines] == [
        ("call", "edit a.py"),
        ("text", "Next."),
        ("call", "bash true"),
    ]
    assert (told.one.files, told.one.calls, told.other.files, told.other.calls) == (("a.py",), 2, (), 0)
    heads = {one.id: one for one in service(store).heads("the parser").heads}
    assert (heads[here.hex()].files, heads[there.hex()].files) == (("a.py",), ())


def test_a_call_that_has_no_answer_yet_did_not_fail(store: Store) -> None:
    asked, done = edits(2, "a.py")
    apart(store, [asked], [asked, done])
    told = service(store).diff("the parser")
    assert [(one.failed, one.answered) for one in told.one.lines if one.kind == "call"] == [(False, False)]
    assert [(one.failed, one.answered) for one in told.other.lines if one.kind == "call"] == [(False, True)]
