"""Devices of one person whose syncs are wired to each other without a network: messages are carried by hand.

What goes over is kept as bytes, so a test can cut a wire anywhere, look for what must not be there, and say what a
hostile peer says.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.node.circles import NOW, Owned, identity
from tests.store.conftest import Memory

from hhd.identity.key import Identity
from hhd.node import listing, programs, sessions
from hhd.node.doors import Doors
from hhd.node.group import Membership
from hhd.node.lineages import Lineage, lineage_of
from hhd.node.members import members
from hhd.node.removal import Remover
from hhd.node.signing import Pen
from hhd.node.sync.engine import Engine
from hhd.node.sync.out import Out
from hhd.store.checkpoints import Checkpoint
from hhd.store.line import Line
from hhd.store.store import Limits, Store
from hhd_protocol.ids import CheckpointId, DeviceId, Incarnation, SessionId
from hhd_protocol.lineage import Signed
from hhd_protocol.statements import Progress, Role


@dataclass
class Wired:
    """One device with its sync."""

    owned: Owned
    engine: Engine
    fenced: set[SessionId] = field(default_factory=set)
    cuts: list[str] = field(default_factory=list)
    answered: set[DeviceId] = field(default_factory=set)

    @property
    def id(self) -> DeviceId:
        return self.owned.me.id

    @property
    def store(self) -> Store:
        return self.owned.store


class Person:
    """A person's devices, each with a store of its own; `limits` by name."""

    def __init__(
        self,
        folder: Path,
        *names: str,
        limits: dict[str, Limits] | None = None,
        roles: dict[str, Role] | None = None,
    ) -> None:
        self.folder, self.now_ms = folder, 1_000_000
        self.limits, self.roles = limits or {}, roles or {}
        self.devices: dict[DeviceId, Wired] = {}
        self.wires: deque[tuple[DeviceId, DeviceId, bytes]] = deque()
        self.seen: list[bytes] = []
        """Everything that went over."""
        self.links: set[frozenset[DeviceId]] = set()
        self.names = names
        for name in names:
            self._open(name)
        first, *others = self.devices.values()
        for other in others:
            first.owned.adds(other.owned, self.roles.get(other.owned.name, Role.FULL))
        for one in self.devices.values():
            one.owned.hears(*(other.owned for other in self.devices.values() if other is not one))

    def _open(self, name: str, **more: object) -> Wired:
        me = identity(name)
        store = self.store_of(name)
        owned = Owned(name=name, me=me, store=store, group=Membership(store, me))
        engine = Engine(
            lambda: self.store_of(name),
            me,
            now_ms=lambda: self.now_ms,
            incarnation=Incarnation(store.random(16)),
            **more,  # type: ignore[arg-type]
        )
        made = self.devices[me.id] = Wired(owned=owned, engine=engine)
        engine.open()
        return made

    def store_of(self, name: str) -> Store:
        limits = self.limits.get(name, Limits(free_bytes_min=0))
        return Store.open(self.folder / name, seed=identity(name).seed, limits=limits)

    def __getitem__(self, name: str) -> Wired:
        return self.devices[identity(name).id]

    def restart(self, name: str, **more: object) -> Wired:
        """End the daemon of a device as a kill does, and start it again."""
        before = self[name]
        self.cut(name)
        held = before.engine._held
        if held.is_open:
            held.store.close()
        before.store.close()
        return self._open(name, **more)

    def close(self) -> None:
        for one in self.devices.values():
            one.engine.rest()
            one.store.close()

    def link(self, one: str, other: str) -> None:
        pair = self[one], self[other]
        self.links.add(frozenset(each.id for each in pair))
        for each, peer in (pair, pair[::-1]):
            kinds = {self.roles.get(name, Role.FULL) for name in (one, other)}
            self._do(each, each.engine.linked(peer.id, sealed=Role.STORE_ONLY in kinds))

    def cut(self, name: str, other: str | None = None) -> None:
        """Cut the links of a device, or the one to `other`; what is on the way is lost."""
        for pair in [pair for pair in self.links if self[name].id in pair]:
            if other is not None and self[other].id not in pair:
                continue
            self.links.discard(pair)
            self.wires = deque(wire for wire in self.wires if frozenset(wire[:2]) != pair)
            a, b = pair
            for x, y in ((a, b), (b, a)):
                self._do(self.devices[x], self.devices[y].engine and self.devices[x].engine.lost(y))

    def noticed(self, name: str, session: SessionId) -> None:
        one = self[name]
        self._do(one, one.engine.noticed(session))

    def _do(self, one: Wired, out: Out) -> None:
        for peer, raw in out.messages:
            self._put(one.id, peer, raw)
        one.fenced |= out.fenced
        one.answered |= out.answered
        for peer, why in out.cuts:
            one.cuts.append(why)
            self.links.discard(frozenset((one.id, peer)))
            other = self.devices[peer]
            self.wires = deque(w for w in self.wires if frozenset(w[:2]) != frozenset((one.id, peer)))
            self._do(other, other.engine.lost(one.id))

    def _put(self, source: DeviceId, target: DeviceId, raw: bytes) -> None:
        if frozenset((source, target)) in self.links:
            self.seen.append(raw)
            self.wires.append((source, target, raw))

    def do(self, name: str, act: Callable[[Engine], Out]) -> None:
        one = self[name]
        self._do(one, act(one.engine))

    def pump(
        self,
        most: int = 1_000_000,
        *,
        until: Callable[[], bool] = lambda: False,
        together: Callable[[], int] = lambda: 1,
    ) -> bool:
        """Carry messages, parts when nothing else waits, until all is quiet (True), or `most` were carried.

        `together`: how many of those that wait are given to a device at once.
        """
        for _ in range(most):
            if until():
                return False
            if not self.wires and not self._parts():
                return True
            source, target, raw = self.wires.popleft()
            raws, count = [raw], together()
            while len(raws) < count and self.wires and self.wires[0][:2] == (source, target):
                raws.append(self.wires.popleft()[2])
            one = self.devices[target]
            self._do(one, one.engine.heard(source, *raws))
        return False

    def _parts(self) -> bool:
        for pair in list(self.links):
            for source, target in (tuple(pair), tuple(pair)[::-1]):
                raw = self.devices[source].engine.next_part(target)
                if raw is not None:
                    self._put(source, target, raw)
                    return True
        return False

    # Sessions

    def create(self, name: str, prompt: str = "go") -> SessionId:
        """A session of the agent, not begun."""
        args = programs.encode_args({"prompt": prompt})
        return sessions.create(self[name].store, self[name].owned.me, program="agent", args=args)

    def takes_over(self, name: str, session: SessionId) -> None:
        """The device takes the session, to go on from its main head."""
        Grown(self[name].store, self[name].owned.me, session, Memory(0)).takes_over()


@dataclass
class Grown:
    """A session that is worked on in one store: memory that changes, words that are said."""

    store: Store
    me: Identity
    session: SessionId
    memory: Memory
    line: Line | None = None
    doors: Doors | None = None

    def step(
        self,
        changed: list[int] | None = None,
        said: bytes = b"",
        *,
        effects: Mapping[int, Progress] | None = None,
        turn: bool = False,
    ) -> CheckpointId:
        """One checkpoint, signed under the token that this device has; `effects`: what it says of them."""
        numbers = self.memory.edit(4) if changed is None else changed
        store = self.store
        with store.transaction():
            doors = self.doors = self.doors or Doors(store, self.me, self.session)
            doors.look()
            assert doors.may_append() is None, doors.may_append()
            token, main = doors.part.known.view.token, doors.part.known.view.main
            assert token is not None
            pen = Pen(store, self.me, self.session, doors)
            signed: list[Signed] = []

            def sign(bare: Checkpoint) -> bytes:
                signed.append(pen.checkpoint(bare, token=token.id, effects=effects or {}))
                return signed[0].raw

            if self.line is None or self.line.head != main:
                self.line = Line(store, self.session, None if main is None else CheckpointId(main))
            made = self.line.checkpoint(
                snapshot=self.memory.snapshot(),
                changed=numbers,
                logs={"words": said} if said else {},
                sign=sign,
                turn=turn,
            )
            pen.written(signed[0])
            return made

    def takes_over(self) -> None:
        """This device takes the session, to go on from its main head."""
        with self.store.transaction():
            doors = Doors(self.store, self.me, self.session)
            view = doors.part.known.view
            assert view.token is not None and view.main is not None
            pen = Pen(self.store, self.me, self.session, doors)
            number, head = view.token.number + 1, CheckpointId(view.main)
            pen.takeover(prev=view.token.id, number=number, head=head, reason="a person said so")


@dataclass
class Work:
    """Somebody works on a session at a device of `person`."""

    person: Person
    name: str
    session: SessionId
    memory: Memory
    grown: Grown | None = None

    def step(
        self, changed: list[int] | None = None, said: bytes = b"", *, tell: bool = True, turn: bool = False
    ) -> CheckpointId:
        """One checkpoint; the device's sync hears of it."""
        one = self.person[self.name]
        if self.grown is None or self.grown.store is not one.store:
            self.grown = Grown(one.store, one.owned.me, self.session, self.memory)
        made = self.grown.step(changed, said, turn=turn)
        if tell:
            self.person.noticed(self.name, self.session)
        return made


@contextmanager
def person(
    folder: Path, *names: str, limits: dict[str, Limits] | None = None, roles: dict[str, Role] | None = None
) -> Iterator[Person]:
    """Devices of one group, each with a store in `folder`; the first one is full."""
    made = Person(folder, *names, limits=limits, roles=roles)
    try:
        yield made
    finally:
        made.close()


__all__ = ["NOW", "Person", "Role", "Wired", "Work", "person"]


def same(people: Person, session: SessionId, *names: str) -> None:
    """All devices hold the same statements and content, and read them alike."""
    views = set()
    for name in names:
        one = people[name]
        found = lineage_of(one.store, session, members(one.store, one.owned.me))
        views.add((frozenset(found.known.statements), found.view.main, found.view.owner, frozenset(found.view.heads)))
        heads = found.view.heads
        assert heads <= set(one.store.checkpoint_ids(session)), f"{name} lacks the content of a head"
    assert len(views) == 1


def scribble(work: Work) -> tuple[list[int], list[bytes]]:
    """Change 200 bytes in each of the same twenty pages; return their numbers and what they were."""
    hot = list(range(20))
    old = [work.memory.pages[number] for number in hot]
    for number, page in zip(hot, old, strict=True):
        at = work.memory.dice.randrange(4096 - 200)
        work.memory.pages[number] = page[:at] + work.memory.text()[:200] + page[at + 200 :]
    return hot, old


def remove_everywhere(people: Person, name: str, session: SessionId) -> None:
    """A person says so at a device."""
    one = people[name]
    remover = Remover(store=one.store, me=one.owned.me)

    def read() -> Lineage:
        return lineage_of(one.store, session, members(one.store, one.owned.me))

    listed = listing.get(one.store, session)
    assert listed is not None
    remover.remove(remover.would(listed, read(), everywhere=True), session, read)
