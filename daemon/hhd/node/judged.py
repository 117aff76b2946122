"""What this process has read and judged of sessions, at hand for as long as it stands.

Both are kept by the store and the session, and count only for the very revision that they were made from
(`hhd.node.lineages.revision`) and the same members: whoever asks finds out the revision first, in one snapshot with
what they read. A revision names the last statements by their ids, which are digests of all that they say, and how many
blocks of them there are, so nothing that was removed or taken in by another process can pass for another. Where
something came, only that is read; what is listed, and in which order, is read each time. Statements are values, and
shared by all threads. What was judged of them grows when it is asked, so each thread has its own.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from hhd.node.members import Member
from hhd.store.store import Store
from hhd_protocol.holding import Known
from hhd_protocol.ids import DeviceId, SessionId, StatementId
from hhd_protocol.lineage import Signed
from hhd_protocol.statements import Fact

STATEMENTS_MAX = 8192
"""Kept in a process, of all sessions together: some 16 MB. A session that is longer than that is read each time."""

JUDGED_MAX = 4
"""Sessions that one thread has judged at hand: those that are handed on now."""

Revision = tuple[object, ...]
_Of = tuple[Path, DeviceId, SessionId]


@dataclass(frozen=True, kw_only=True, eq=False)
class Read:
    """The statements of one session, each signature found to hold or not by the keys of `members`."""

    members: Mapping[DeviceId, Member]
    signed: tuple[Signed, ...]
    facts: Mapping[StatementId, Fact]

    @cached_property
    def by_id(self) -> Mapping[StatementId, Signed]:
        """The statements by their ids."""
        return {one.id: one for one in self.signed}


_READ: OrderedDict[_Of, tuple[Revision, Read]] = OrderedDict()
_READING = threading.Lock()


class _Judged(threading.local):
    def __init__(self) -> None:
        self.known: OrderedDict[_Of, tuple[Read, Known]] = OrderedDict()


_JUDGED = _Judged()


def read_before(
    store: Store, session: SessionId, revision: Revision, members: Mapping[DeviceId, Member]
) -> Read | None:
    """What was read of `session` at this very revision, by the same members; None where that is not at hand."""
    of = _of(store, session)
    with _READING:
        kept = _READ.get(of)
        if kept is None or kept[0] != revision or kept[1].members != members:
            return None
        _READ.move_to_end(of)
        return kept[1]


def read_any(store: Store, session: SessionId, members: Mapping[DeviceId, Member]) -> Read | None:
    """What was read of `session` at another revision, by the same members: each statement in it is what its id says,
    whether or not it is still here."""
    with _READING:
        kept = _READ.get(_of(store, session))
        return None if kept is None or kept[1].members != members else kept[1]


def keep_read(store: Store, session: SessionId, revision: Revision, read: Read) -> Read:
    """Have `read` at hand, which was read at `revision`; the longest unused go where that is too much."""
    of = _of(store, session)
    with _READING:
        _READ.pop(of, None)
        if len(read.signed) <= STATEMENTS_MAX:
            _READ[of] = revision, read
        while sum(len(one.signed) for _, one in _READ.values()) > STATEMENTS_MAX:
            _READ.popitem(last=False)
    return read


def known_before(store: Store, session: SessionId, read: Read) -> Known | None:
    """What the statements of `read` were found to mean in this thread; None where that is not at hand."""
    kept = _JUDGED.known.get(_of(store, session))
    return kept[1] if kept is not None and kept[0] is read else None


def keep_known(store: Store, session: SessionId, read: Read, known: Known) -> None:
    """Have at hand what `read` means; whoever uses it leaves it as it is."""
    of = _of(store, session)
    _JUDGED.known.pop(of, None)
    _JUDGED.known[of] = read, known
    if len(_JUDGED.known) > JUDGED_MAX:
        _JUDGED.known.popitem(last=False)


def forget() -> None:
    """Have nothing at hand any more, in this thread."""
    with _READING:
        _READ.clear()
    _JUDGED.known.clear()


def _of(store: Store, session: SessionId) -> _Of:
    return store.folder, store.device, session
