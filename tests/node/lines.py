"""Sessions made by hand: checkpoints of several devices under several tokens, a conversation, nothing to run."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from hhd.identity.key import Identity
from hhd.node import control_ground, listing
from hhd.node import store as door
from hhd.node.control import ControlService
from hhd.node.listing import Listed
from hhd.node.members import Member
from hhd.store.checkpoints import Checkpoint
from hhd.store.line import Line
from hhd.store.store import Store
from hhd_protocol import lineage
from hhd_protocol.bodies import CheckpointBody, CreateBody, TakeoverBody
from hhd_protocol.crypto import device_id, public_key
from hhd_protocol.ids import CheckpointId, DeviceId, FamilyId, SessionId, StatementId
from hhd_protocol.lineage import Signed
from hhd_protocol.statements import Progress, Role

DESKTOP = b"desktop".ljust(32, b"\0")
"""The seed of alice's other device."""
STRANGER = b"stranger".ljust(32, b"\0")


def device(seed: bytes) -> DeviceId:
    return device_id(public_key(seed))


def grouped(monkeypatch: pytest.MonkeyPatch, *patched: Any) -> None:
    """Make the desktop a full member of alice's group, wherever `members` is asked."""

    def members(_: Store, me: Identity) -> Mapping[DeviceId, Member]:
        return {
            me.id: Member(role=Role.FULL, public=me.public),
            device(DESKTOP): Member(role=Role.FULL, public=public_key(DESKTOP), name="desktop"),
        }

    for module in (control_ground, *patched):
        monkeypatch.setattr(module, "members", members)


def event(kind: str, **fields: Any) -> bytes:
    """One line of a transcript."""
    return json.dumps({"event": kind, **fields}, separators=(",", ":")).encode() + b"\n"


def turn(n: int, text: str = "", path: str = "", command: str = "", failed: bool = False) -> bytes:
    """What one model call says, with a tool call and its result."""
    raw = event("turn", n=n) + (event("text", text=text) if text else b"")
    name, given = ("edit", {"path": path, "old": "a", "new": "b"}) if path else ("bash", {"command": command or "true"})
    raw += event("call", id=f"call_{n}", name=name, input=given)
    return raw + event("result", id=f"call_{n}", output="done", is_error=failed, ran=True)


@dataclass(kw_only=True)
class Made:
    """A session of `store`, whose laptop is `me`; statements are signed as their devices would."""

    store: Store
    me: Identity
    id: SessionId
    create: Signed
    tips: dict[DeviceId, Signed] = field(default_factory=dict)
    clock: int = 1_700_000_000_000

    def seed(self, by: bytes | None) -> bytes:
        return self.me.seed if by is None else by

    def tick(self) -> int:
        self.clock += 1000
        return self.clock

    def chain(self, seed: bytes) -> dict[str, Any]:
        """What the next statement of a device begins with."""
        by = device(seed)
        tip = self.tips.get(by)
        return {
            "session": self.id,
            "by": by,
            "after": None if tip is None else tip.id,
            "seq": 0 if tip is None else tip.body.seq + 1,
            "incarnation": self.store.incarnation,
            "at_ms": self.tick(),
        }

    def said(self, signed: Signed) -> Signed:
        self.tips[signed.body.by] = signed
        return signed

    def work(
        self,
        says: Iterable[bytes],
        *,
        on: CheckpointId | None,
        token: Signed | None = None,
        by: bytes | None = None,
        after: Signed | None = None,
        workspace: bytes | None = None,
    ) -> CheckpointId:
        """Checkpoints on `on`, one for each text of `says`; `after`: as if the device's disk were back there.

        `workspace`: what each says of the folder.
        """
        seed = self.seed(by)
        line = Line(self.store, self.id, on)
        self.store.now_ms = self.tick
        if after is not None:
            self.tips[after.body.by] = after
        position = 0 if on is None else self.store.checkpoint(on).journal

        def sign(bare: Checkpoint) -> bytes:
            chain = self.chain(seed)
            body = bare.body(
                by=chain["by"],
                after=chain["after"],
                seq=chain["seq"],
                incarnation=chain["incarnation"],
                token=(token or self.create).id,
                effects={position: Progress.ANSWERED},
            )
            return self.said(lineage.sign(body, seed)).raw

        with self.store.transaction():
            for position, text in enumerate(says, position + 1):  # noqa: B020
                head = line.checkpoint(
                    logs={"transcript": text}, journal=position, turn=True, sign=sign, workspace=workspace
                )
        return head

    def takeover(self, head: CheckpointId | None, *, prev: Signed, by: bytes | None = None, reason: str = "") -> Signed:
        """`by` takes the session over, going on from `head`."""
        seed = self.seed(by)
        number = getattr(prev.body, "number", 1) + 1
        body = TakeoverBody(**self.chain(seed), prev=prev.id, number=number, head=head, reason=reason)
        signed = self.said(lineage.sign(body, seed))
        self.store.statements.add(self.id, signed.raw)
        return signed

    def list(self, **fields: Any) -> Listed:
        """Put it in the list, as whoever changes a session does."""
        return listing.change(self.store, self.id, **fields)

    @property
    def tip_record(self) -> Signed:
        """The newest ownership record."""
        records = [one for one in self.store.statements.all(self.id) if not isinstance(one.body, CheckpointBody)]
        return max(records, key=lambda one: getattr(one.body, "number", 1))

    def tip(self, by: bytes | None = None) -> Signed:
        return self.tips[device(self.seed(by))]


def made(store: Store, title: str = "the parser", says: Iterable[bytes] = ()) -> Made:
    """A session of the laptop, with a checkpoint for each text of `says`."""
    me = door.identity()
    body = CreateBody(
        session=None,
        by=me.id,
        after=None,
        seq=0,
        incarnation=store.incarnation,
        at_ms=1_700_000_000_000 + store.sessions_count(),
        family=FamilyId(bytes(16)),
    )
    create = lineage.sign(body, me.seed)
    store.create_session(create.session)
    store.statements.add(create.session, create.raw)
    found = Made(store=store, me=me, id=create.session, create=create, tips={me.id: create})
    if texts := list(says):
        found.work(texts, on=None)
    found.list(title=title, program="agent", owner=me.id, token=1)
    return found


@dataclass(frozen=True, kw_only=True)
class Apart:
    """A session whose laptop and desktop both went on: `fork`, then `here` (owner's line) and `there`."""

    made: Made
    fork: CheckpointId
    here: CheckpointId
    there: CheckpointId


def apart(
    store: Store,
    here: Iterable[bytes],
    there: Iterable[bytes],
    title: str = "the parser",
    by: bytes | None = DESKTOP,
) -> Apart:
    """Another device took over without the laptop's knowing, both went on, the laptop took over again."""
    found = made(store, title, [event("user", **{"from": "prompt", "text": "Fix it."}), turn(1, "Looking.")])
    fork = store.heads(found.id)[0]
    theirs = found.takeover(fork, prev=found.create, by=by, reason="the laptop is lost")
    end_there = found.work(there, on=fork, token=theirs, by=by)
    ours = found.takeover(fork, prev=theirs, reason="it is found")
    end_here = found.work(here, on=fork, token=ours)
    found.list(heads=2, token=3)
    return Apart(made=found, fork=fork, here=end_here, there=end_there)


def service(store: Store) -> ControlService:
    return ControlService(store=store, me=door.identity())


Wait = Callable[[], bool]


def waits(*acts: Callable[[], object]) -> Wait:
    """A wait that does one of `acts` each time, and then ends."""
    left = list(acts)

    def wait() -> bool:
        if not left:
            return False
        left.pop(0)()
        return True

    return wait


def ids(*statements: Signed | CheckpointId) -> list[str]:
    return [(one.id if isinstance(one, Signed) else StatementId(one)).hex() for one in statements]
