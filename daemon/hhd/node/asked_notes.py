"""What was said here of handoffs between other devices that a person asked for at this one, for who looks later.

Only what was told: how such a handoff stands, its two devices know. Nothing is decided by it.
"""

from __future__ import annotations

from dataclasses import dataclass

from hhd.node.answers.handoff import Moved
from hhd.store.errors import DamagedStoreError
from hhd.store.rows import decoded
from hhd.store.store import Store
from hhd_protocol.codec import Value, encode
from hhd_protocol.handoff import Please, bounded
from hhd_protocol.ids import DeviceId, SessionId, StatementId, TransferId

_TABLE = "handoff-asked"
KEPT_MAX = 32
"""The last ones: they are of use while the person remembers that they asked."""


@dataclass(frozen=True, kw_only=True)
class AskedNote:
    """One that was asked of `owner`, to `target`. `stage`: what was said last, "none" where nothing was."""

    transfer: TransferId
    session: SessionId
    owner: DeviceId
    target: DeviceId
    stage: str
    sentence: str
    over: bool
    at_ms: int


def keep(store: Store, please: Please, owner: DeviceId, last: Moved | None, at_ms: int) -> None:
    """Keep what was said last of a handoff; None: it was asked for."""
    stage, sentence, over = ("none", "", False) if last is None else (last.stage, last.sentence, last.over)
    fresh: list[Value] = [
        please.transfer, please.session, owner, please.to, bounded(stage), bounded(sentence), over, at_ms,
    ]  # fmt: skip
    with store.transaction():
        others = [one for one in _read(store) if one[0] != please.transfer]
        entries: list[Value] = [1, *([*others, fresh][-KEPT_MAX:])]
        store.rows.put(_TABLE, b"", b"", encode(entries))


def every(store: Store) -> list[AskedNote]:
    """Return them, newest first; none where they are damaged."""
    found = []
    for entry in reversed(_read(store)):
        match entry:
            case [bytes(transfer), bytes(session), bytes(owner), bytes(target), str(stage), str(sentence), over, at_ms]:
                found.append(
                    AskedNote(
                        transfer=TransferId(transfer),
                        session=SessionId(StatementId(session)),
                        owner=DeviceId(owner),
                        target=DeviceId(target),
                        stage=stage,
                        sentence=sentence,
                        over=over is True,
                        at_ms=at_ms if type(at_ms) is int else 0,
                    )
                )
    return found


def _read(store: Store) -> list[list[Value]]:
    try:
        raw = store.rows.get(_TABLE, b"", b"")
        match None if raw is None else decoded(raw, "row of handoffs that were asked for"):
            case [1, *entries]:
                return [one for one in entries if isinstance(one, list)]
    except DamagedStoreError:
        pass
    return []
