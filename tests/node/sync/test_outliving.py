"""What shows that a removed session is alive is kept in mind once, within its bound, until it is of no more use."""

from __future__ import annotations

from typing import cast

import pytest
from tests.node.circles import identity

from hhd.node.sync import outliving as syncing_outliving
from hhd.node.sync.outliving import Outliving
from hhd_protocol import lineage
from hhd_protocol.bodies import IntentBody
from hhd_protocol.fencing import View
from hhd_protocol.ids import Incarnation, SessionId, Sha256, StatementId
from hhd_protocol.lineage import Signed

ME = identity("laptop")
SESSIONS = [SessionId(StatementId(bytes([number]) * 32)) for number in range(4)]


def statement(session: SessionId, seq: int = 0) -> Signed:
    """Any statement will do."""
    body = IntentBody(
        session=session,
        by=ME.id,
        after=None,
        seq=seq,
        incarnation=Incarnation(bytes(16)),
        at_ms=0,
        token=StatementId(session),
        position=0,
        op="tool",
        request=Sha256(bytes(32)),
    )
    return lineage.sign(body, ME.seed)


class Seen:
    """A view in which these are not covered."""

    def __init__(self, *beyond: Signed) -> None:
        self.beyond_removal = frozenset(one.id for one in beyond)


def view(*beyond: Signed) -> View:
    return cast(View, Seen(*beyond))


def test_one_statement_is_kept_and_comes_along_with_what_follows_until_it_is_known() -> None:
    covered, first, second = (statement(SESSIONS[0], seq) for seq in range(3))
    kept = Outliving()
    assert not kept.note(SESSIONS[0], [covered], view()) and kept.along(SESSIONS[0], (), [covered]) == [covered]
    assert kept.note(SESSIONS[0], [covered, first], view(first))
    assert not kept.note(SESSIONS[0], [second], view(second)), "who gives many is asked once"
    assert kept.along(SESSIONS[0], (), [covered]) == [covered, first]
    assert kept.along(SESSIONS[0], (), [first]) == [first] and kept.along(SESSIONS[0], {first.id}, []) == []
    assert kept.along(SESSIONS[1], (), []) == []


def test_it_is_forgotten_when_it_is_refused_or_the_session_is_here_again() -> None:
    one = statement(SESSIONS[0])
    kept = Outliving()
    kept.note(SESSIONS[0], [one], view(one))
    kept.forget(SESSIONS[0], {statement(SESSIONS[0], 1).id})
    assert kept.along(SESSIONS[0], (), []) == [one], "another one was refused"
    kept.forget(SESSIONS[0], {one.id})
    assert kept.along(SESSIONS[0], (), []) == [] and kept.note(SESSIONS[0], [one], view(one))
    kept.forget(SESSIONS[0])
    assert kept.along(SESSIONS[0], (), []) == []


def test_of_too_many_sessions_the_first_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(syncing_outliving, "SYNC_OUTLIVING_MAX", 3)
    kept = Outliving()
    for session in SESSIONS:
        one = statement(session)
        assert kept.note(session, [one], view(one))
    assert [len(kept.along(session, (), [])) for session in SESSIONS] == [0, 1, 1, 1]
