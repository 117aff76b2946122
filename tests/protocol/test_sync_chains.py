"""What a peer lacks is found from where its chains end, and digests are equal exactly where the sets are."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from hhd_protocol.ids import CheckpointId, SessionId, StatementId
from hhd_protocol.sync import Chains, compare, session_digest

VECTORS = json.loads((Path(__file__).parents[2] / "protocol/vectors/sync.json").read_text())


def name(device: int, number: int, branch: int = 0) -> StatementId:
    return StatementId(sha256(f"{device}/{number}/{branch}".encode()).digest())


def history(devices: int, length: int) -> dict[StatementId, StatementId | None]:
    """Chains of so many devices; the first was restored once, so its chain forks at the middle."""
    after: dict[StatementId, StatementId | None] = {}
    for device in range(devices):
        last: StatementId | None = None
        for number in range(length):
            after[name(device, number)] = last
            last = name(device, number)
    last = name(0, length // 2) if length else None
    for number in range(length // 3):
        after[name(0, number, 1)] = last
        last = name(0, number, 1)
    return after


WHOLE = history(3, 24)


@st.composite
def parts(draw: st.DrawFn) -> dict[StatementId, StatementId | None]:
    """Any part of the history, gaps and all."""
    kept = draw(st.sets(st.sampled_from(sorted(WHOLE))))
    return {id: WHOLE[id] for id in WHOLE if id in kept}


@settings(max_examples=150, deadline=None)
@given(parts(), parts())
def test_after_both_gave_what_the_other_lacks_both_have_all(
    one: dict[StatementId, StatementId | None], other: dict[StatementId, StatementId | None]
) -> None:
    a, b = Chains(one), Chains(other)
    lacking = b.lacking(a.frontier())
    assert set(lacking) >= other.keys() - one.keys(), "nothing that is lacked is left out"
    given_back = a.lacking(b.frontier())
    for id in lacking:
        a.add(id, WHOLE[id])
    for id in given_back:
        b.add(id, WHOLE[id])
    assert a.frontier(marked=False) == b.frontier(marked=False)
    assert session_digest(a.frontier(), []) == session_digest(b.frontier(), [])
    assert a.lacking(b.frontier()) == b.lacking(a.frontier()) == []


@settings(max_examples=100, deadline=None)
@given(parts(), parts())
def test_digests_are_equal_where_the_sets_are_and_nowhere_else(
    one: dict[StatementId, StatementId | None], other: dict[StatementId, StatementId | None]
) -> None:
    digests = [session_digest(Chains(each).frontier(marked=False), []) for each in (one, other)]
    assert (digests[0] == digests[1]) == (one.keys() == other.keys())


def test_the_order_in_which_statements_come_does_not_matter() -> None:
    forwards, backwards = Chains(WHOLE), Chains(dict(reversed(WHOLE.items())))
    assert forwards.frontier() == backwards.frontier()
    assert not forwards.frontier().loose and len(forwards.frontier().ends) == 4


def test_who_is_a_little_ahead_is_not_sent_all_from_the_beginning() -> None:
    long = {name(9, n): name(9, n - 1) if n else None for n in range(2000)}
    ahead, behind = Chains(long), Chains(dict(list(long.items())[:1995]))
    assert len(behind.lacking(ahead.frontier())) <= 7
    assert ahead.lacking(behind.frontier()) == [name(9, n) for n in range(1995, 2000)]
    assert len(ahead.frontier().marks) <= 12


def test_the_frontier_of_the_vector() -> None:
    said = VECTORS["frontier"]
    after = {
        StatementId(bytes.fromhex(id)): None if before is None else StatementId(bytes.fromhex(before))
        for id, before in said["after"]
    }
    frontier = Chains(after).frontier()
    assert [one.hex() for one in frontier.ends] == said["ends"]
    assert [one.hex() for one in frontier.marks] == said["marks"]
    assert [one.hex() for one in frontier.loose] == said["loose"]
    lacking = [CheckpointId(StatementId(bytes.fromhex(one))) for one in said["lacking"]]
    assert session_digest(frontier, lacking).hex() == said["digest"]
    assert session_digest(frontier, []).hex() != said["digest"]


def test_buckets_find_the_one_session_that_differs() -> None:
    mine = {SessionId(name(1, n)): name(2, n)[:16] for n in range(2000)}
    changed = SessionId(name(1, 77))
    theirs = {**mine, changed: bytes(16)}
    bits = compare.bits_for(len(mine))
    told = b"".join(compare.bucket_digests(theirs, bits))
    assert compare.differing(mine, bits, told) == [compare.bucket_of(changed, bits)]
    assert compare.root(mine) != compare.root(theirs)
    assert compare.root(mine) == compare.root(dict(reversed(mine.items())))
    assert len(told) < 2500, "a difference costs a peer few bytes"


def test_few_sessions_are_one_bucket() -> None:
    assert compare.bits_for(0) == compare.bits_for(20) == 0
    assert compare.bits_for(10**9) == 12
