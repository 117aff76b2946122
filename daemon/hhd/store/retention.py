"""What the store lets go of: the content of old checkpoints, then objects that nothing needs. Records always stay.

A checkpoint keeps its content while it is a head, a fork point (more than one child, or a child in another session),
picked, or a turn border younger than the configured days. The rest is thinned: its record stays and says so. Sessions
that a process is advancing are not thinned, and what nobody refers to stays while there are any.

Nobody is kept from advancing meanwhile. While the sweep's transaction lasts nobody else writes; who took a session
before it began is seen; who takes one later begins with a head, which stays, and has written nothing yet.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass

from hhd.store.checkpoints import Checkpoint, refs_of
from hhd.store.closure import Closure, Head
from hhd.store.errors import DamagedStoreError, MissingError
from hhd.store.folders import Folders
from hhd.store.objects import row_number
from hhd.store.store import Store
from hhd_protocol.bodies import CreateBody
from hhd_protocol.ids import CheckpointId, FamilyId, SessionId, StatementId
from hhd_protocol.objects import Ref

DAY_MS = 86_400_000


@dataclass(frozen=True, kw_only=True)
class Swept:
    """What a sweep did, or would do: checkpoints thinned, objects removed, sealed bytes freed, sessions left alone."""

    thinned: int
    objects: int
    bytes: int
    busy: int


def sweep(
    store: Store,
    *,
    keep_days: int,
    picked: Collection[CheckpointId] = (),
    dry_run: bool = False,
) -> Swept:
    """Thin and free, in one transaction. Raises DamagedStoreError if something is damaged: what is needed is unknown.

    `picked`: checkpoints that a person picked as their session's head.
    """
    free = store.shelf.freeing()
    try:
        with store.transaction():
            sessions = store.sessions()
            busy = {session for session in sessions if store.is_advanced(session)}
            known = {one: store.checkpoint(one) for session in sessions for one in store.checkpoint_ids(session)}
            stay = {*picked, *fork_points(store, sessions)}
            thin = {
                one
                for one in thinnable(known, picked=stay, since_ms=store.now_ms() - keep_days * DAY_MS)
                if known[one].session not in busy and refs_of(known[one])
            }
            lean = {one for one, checkpoint in known.items() if one in thin or checkpoint.thinned}
            shared = [*map(store.modules.ref, store.modules.all()), *store.shelf.roots(), *Folders(store).roots()]
            needed = _needed(store, [checkpoint for one, checkpoint in known.items() if one not in lean], shared)
            # An object that another process just stored may not be referred to yet: then only what was thinned goes.
            gone = [known[one] for one in lean] if busy or not free else None
            numbers = [
                number
                for number in (store.objects.numbers() if gone is None else _needed(store, gone, (), quiet=True))
                if number not in needed and store.objects.size_of(number)
            ]
            size = sum(store.objects.size_of(number) for number in numbers)
            if not dry_run:
                for one in thin:
                    store.thin(one)
                for number in numbers:
                    store.objects.remove(number)
            return Swept(thinned=len(thin), objects=len(numbers), bytes=size, busy=len(busy))
    finally:
        if free is not None:
            free.release()


def thinnable(
    known: dict[CheckpointId, Checkpoint], *, picked: Collection[CheckpointId], since_ms: int
) -> list[CheckpointId]:
    """Return the checkpoints whose content may go."""
    children: dict[CheckpointId, list[Checkpoint]] = {}
    for checkpoint in known.values():
        for parent in checkpoint.parents:
            children.setdefault(parent, []).append(checkpoint)

    def kept(one: CheckpointId, checkpoint: Checkpoint) -> bool:
        below = children.get(one, [])
        head = not any(child.session == checkpoint.session for child in below)
        fork_point = len(below) > 1 or any(child.session != checkpoint.session for child in below)
        young_turn = checkpoint.turn and checkpoint.at_ms >= since_ms
        return head or fork_point or young_turn or one in picked

    return [one for one, checkpoint in known.items() if not checkpoint.thinned and not kept(one, checkpoint)]


def fork_points(store: Store, sessions: Iterable[SessionId]) -> Iterator[CheckpointId]:
    """Yield the checkpoints that `sessions` were forked from, as their first records say."""
    for session in sessions:
        signed = store.statements.get(session, StatementId(session))
        body = None if signed is None else signed.body
        if isinstance(body, CreateBody) and body.origin is not None and body.origin.checkpoint is not None:
            yield body.origin.checkpoint


def session_bytes(store: Store, session: SessionId) -> tuple[int, int, int]:
    """Return (checkpoints, thinned ones, sealed bytes that the session's content needs)."""
    checkpoints = [store.checkpoint(one) for one in store.checkpoint_ids(session)]
    closure = Closure(_quiet_head(store, store.session(session).family))
    for checkpoint in checkpoints:
        if not checkpoint.thinned:
            closure.add(refs_of(checkpoint))
    size = sum(store.objects.size(ref.name) for ref in closure.needed)
    return len(checkpoints), sum(one.thinned for one in checkpoints), size


def shelf_bytes(store: Store) -> tuple[int, int]:
    """Return (lists on the shelf, sealed bytes that they need)."""
    closure = Closure(_quiet_head(store, store.commons()))
    closure.add(store.shelf.roots())
    return len(store.shelf.digests()), sum(store.objects.size(ref.name) for ref in closure.needed)


def folder_bytes(store: Store) -> tuple[int, int]:
    """Return (captures of folders that no session keeps, sealed bytes that they need together)."""
    roots = set(Folders(store).roots())
    closure = Closure(_quiet_head(store, store.commons()))
    closure.add(roots)
    return len(roots), sum(store.objects.size(ref.name) for ref in closure.needed)


def _needed(store: Store, checkpoints: Iterable[Checkpoint], shared: Iterable[Ref], *, quiet: bool = False) -> set[int]:
    """Return the row numbers of the objects that these need; `shared`: no session's; `quiet`: as far as here."""
    roots: dict[FamilyId, list[Ref]] = {}
    for checkpoint in checkpoints:
        roots.setdefault(store.session(checkpoint.session).family, []).extend(refs_of(checkpoint))
    roots.setdefault(store.commons(), []).extend(shared)
    needed: set[int] = set()
    for family, refs in roots.items():
        closure = Closure(_quiet_head(store, family) if quiet else store.reader(family).head)
        closure.add(refs)
        needed.update(row_number(ref.name) for ref in closure.needed)
    return needed


def _quiet_head(store: Store, family: FamilyId) -> Callable[[Ref], Head | None]:
    reader = store.reader(family)

    def head(ref: Ref) -> Head | None:
        try:
            return reader.head(ref)
        except (DamagedStoreError, MissingError):
            return None

    return head
