"""A simulated device: a disk that may lose or forget, a clock, and one part in one session."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from hhd_protocol.holding import Around, Clocks, Known, Part
from hhd_protocol.ids import DeviceId, EffectId, Sha256, StatementId
from hhd_protocol.statements import EffectKind, Progress, Role, Statement


@dataclass
class Disk:
    """What is durable. `unsynced` is written but lost in a crash, as everything is that came since the last sync."""

    statements: dict[StatementId, Statement] = field(default_factory=dict)
    unsynced: dict[StatementId, Statement] = field(default_factory=dict)
    tip: StatementId | None = None
    acknowledged_by: frozenset[DeviceId] = frozenset()
    denied: frozenset[StatementId] = frozenset()
    acknowledged: dict[DeviceId, dict[bytes, frozenset[StatementId]]] = field(default_factory=dict)
    """By member and incarnation: what that member said is durable there."""
    objects: set[bytes] = field(default_factory=set)
    """Content, where a world has any (`sync_world`)."""
    bare: frozenset[StatementId] = frozenset()
    """Checkpoints of which the record came, and the content did not yet."""
    letters: set[bytes] = field(default_factory=set)
    """Names of letters that were written here, or read, where a world has any (`sync.keeping`)."""
    lettered: set[StatementId] = field(default_factory=set)
    """Statements that are in letters that were written here."""
    pile: dict[bytes, int] = field(default_factory=dict)
    """What is kept where nothing but sealed bytes is: by name what it is."""

    def sync(self) -> None:
        self.statements.update(self.unsynced)
        self.unsynced.clear()

    def copy(self) -> Disk:
        return Disk(
            statements=dict(self.statements),
            tip=self.tip,
            acknowledged_by=self.acknowledged_by,
            denied=self.denied,
            acknowledged={device: dict(said) for device, said in self.acknowledged.items()},
            objects=set(self.objects),
            bare=self.bare,
            letters=set(self.letters),
            lettered=set(self.lettered),
            pile=dict(self.pile),
        )


@dataclass(frozen=True, kw_only=True)
class Guest:
    """The session's program at one checkpoint: where it is, and the effect that it waits for."""

    position: int = 0
    progress: Progress | None = None
    last_reply: bytes = b""


@dataclass
class Device:
    """One device; `part` is None while its process is down."""

    id: DeviceId
    name: str
    role: Role
    disk: Disk = field(default_factory=Disk)
    part: Part | None = None
    guest: Guest = field(default_factory=Guest)
    dead: bool = False
    asleep_until_ms: int | None = None
    boot_ms: int = 0
    """What the clock that counts sleep says when the world began; a reboot sets it anew."""
    slept_ms: int = 0
    clocks: Clocks = field(default_factory=lambda: Clocks(boot_ms=0, awake_ms=0))
    wall_ms: int = 0
    openings: int = 0
    woke_ms: int = 0
    answered: frozenset[DeviceId] = frozenset()
    asking: int = 0
    """Number of the question that it put to the others when it woke."""
    attached: bool = False
    backups: list[Disk] = field(default_factory=list)
    restored: bool = False
    let_go: bool = False
    """It let go of a session that was removed: what it signed of that last may be nowhere any more."""

    @property
    def up(self) -> bool:
        return self.part is not None and self.asleep_until_ms is None

    @property
    def incarnation(self) -> bytes:
        return self.id[:12] + self.openings.to_bytes(4, "big")

    def now_ms(self, world_ms: int) -> int:
        """The clock that counts sleep."""
        return self.boot_ms + world_ms

    def read_clocks(self, world_ms: int) -> Clocks:
        now = self.now_ms(world_ms)
        return Clocks(boot_ms=now, awake_ms=now - self.slept_ms)

    def open(
        self,
        session: StatementId,
        members: Mapping[DeviceId, Role],
        kinds: Mapping[EffectId, EffectKind],
        world_ms: int,
    ) -> None:
        """Start the process: everything comes from the disk, and the others are asked what they know."""
        self.openings += 1
        self.clocks = self.read_clocks(world_ms)
        self.part = Part(
            me=self.id,
            known=Known(session=session, members=members, statements=dict(self.disk.statements), kinds=kinds),
            tip=self.disk.tip,
            around=Around(woke_ms=0),
            acknowledged_by=self.disk.acknowledged_by,
            denied=self.disk.denied,
            bare=self.disk.bare,
        )
        self.guest = Guest()
        self.wake(world_ms)

    def wake(self, world_ms: int) -> None:
        self.woke_ms = self.now_ms(world_ms)
        self.answered = frozenset()
        self.attached = False
        self.asking += 1

    def crash(self) -> None:
        self.part = None
        self.asleep_until_ms = None
        self.disk.unsynced.clear()


def request_of(guest: Guest) -> Sha256:
    """What the guest asks: it depends on the reply before, so two lines ask different things at one place."""
    return Sha256((guest.last_reply + guest.position.to_bytes(4, "big")).rjust(32, b"\0")[-32:])
