"""What a world consists of: its devices, its links, what is under way, and the trace of all that happened."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, replace

from tests.sim.checks import Checks
from tests.sim.device import Device, Guest
from tests.sim.signing import CheapSigner, RealSigner, Signer

from hhd_protocol.fencing import View
from hhd_protocol.holding import (
    Around,
    Part,
)
from hhd_protocol.ids import DeviceId, EffectId, StatementId
from hhd_protocol.statements import EffectKind, Role, Statement

NAMES = ("laptop", "desktop", "server", "studio", "tablet")
POSITIONS_MAX = 64
MESSAGES_MAX = 400


@dataclass(frozen=True, kw_only=True)
class Message:
    """What travels. `have`: the sender's question, None for none; `answers`: the number of the question it answers;
    `lost`: what the receiver acknowledged before and does not have; `durable`: an acknowledgement."""

    source: DeviceId
    target: DeviceId
    statements: tuple[Statement, ...] = ()
    have: frozenset[StatementId] | None = None
    asking: int | None = None
    answers: int | None = None
    lost: frozenset[StatementId] = frozenset()
    durable: frozenset[StatementId] | None = None
    incarnation: bytes = b""


class Basis:
    """The state of a world, with what everything in it needs."""

    def __init__(
        self, seed: int, *, devices: int | None = None, calm: bool = False, real: bool = False, wide: bool = False
    ) -> None:
        """`wide`: here sessions are removed everywhere too, and content may come later than its record."""
        self.seed = seed
        self.rng = random.Random(seed)
        rng = self.rng
        self.now_ms = 0
        self.trace: list[tuple[object, ...]] = []
        self.reached: Counter[str] = Counter()
        self.names: dict[bytes, str] = {}
        self.signer: Signer = RealSigner() if real else CheapSigner()
        self.messages: list[Message] = []
        self.cut: set[frozenset[DeviceId]] = set()
        self.content: dict[StatementId, Guest] = {}
        self.crash_chance = 0.0 if calm else rng.choice([0, 0.01, 0.03, 0.1])
        self.loss_chance = 0.0 if calm else rng.choice([0, 0.05, 0.3])
        self.twice_chance = 0.0 if calm else rng.choice([0, 0.1, 0.3])
        self.lazy_chance = 0.0 if calm else rng.choice([0, 0.2, 0.8])
        """How often what came is not synced at once."""
        self.wide = wide
        self.bare_chance = rng.choice([0, 0.1, 0.4]) if wide and not calm else 0.0
        count = devices if devices is not None else rng.choice([2, 2, 3, 3, 4, 5])
        self.devices: dict[DeviceId, Device] = {}
        for name in NAMES[:count]:
            device = Device(id=self.signer.device(name), name=name, role=Role.FULL)
            device.boot_ms = rng.randrange(10**6)
            self.devices[device.id] = device
            self.names[device.id] = name
        if count > 2 and not calm and rng.random() < 0.2:
            self.list[-1].role = rng.choice([Role.STORE_ONLY, Role.CONTROLLER])
        self.members = {device.id: device.role for device in self.list}
        self.checks = Checks(self)
        first = self.list[0]
        first.openings = 1
        create = self.signer.create(first.id, first.incarnation)
        self.session = create.id
        self.names[create.id] = "create#1"
        self.kinds: dict[EffectId, EffectKind] = {}
        for position in range(POSITIONS_MAX):
            kind = rng.choices([EffectKind.TOOL, EffectKind.INPUT, EffectKind.REPEATABLE], [8, 1, 1])[0]
            self.kinds[self.signer.effect(position)] = EffectKind.TOOL if calm else kind
            self.names[self.signer.effect(position)] = f"effect{position}"
        first.disk.statements[create.id] = create
        first.disk.tip = create.id
        self.checks.signed(first, create)
        for device in self.list:
            device.open(self.session, self.members, self.kinds, self.now_ms)

    @property
    def list(self) -> list[Device]:
        return list(self.devices.values())

    def name(self, thing: object) -> str:
        """The thing in words, for the trace."""
        if isinstance(thing, bytes):
            return self.names.get(thing, thing.hex()[:8])
        if isinstance(thing, Device):
            return thing.name
        if isinstance(thing, frozenset | set | tuple | list):
            return "{" + ", ".join(sorted(self.name(one) for one in thing)) + "}"
        return str(thing)

    def note(self, *what: object) -> None:
        self.trace.append((self.now_ms, *what))

    def story(self) -> str:
        """The whole trace, a line an event."""
        return "\n".join(f"{entry[0]:>8} " + " ".join(self.name(one) for one in entry[1:]) for entry in self.trace)

    def _some(self, *, up: bool = True) -> Device | None:
        found = [d for d in self.list if not d.dead and d.up is up]
        return self.rng.choice(found) if found else None

    def crash(self, device: Device) -> None:
        self.note(device, "crashes")
        self.reached["crash"] += 1
        if device.part is not None and device.part.leg is not None and device.part.leg.running is not None:
            self.reached["crash while an effect ran"] += 1
        if device.disk.unsynced:
            self.reached["unsynced writes lost"] += 1
        device.crash()
        self.checks.forgot(device)

    def _part(self, device: Device) -> Part:
        """The part with its circumstances as they are now."""
        assert device.part is not None
        connected = frozenset(
            other.id
            for other in self.list
            if other is not device and other.role is Role.FULL and self.linked(device, other)
        )
        around = Around(woke_ms=device.woke_ms, connected=connected, answered=device.answered, attached=device.attached)
        if device.part.around != around:
            device.part = replace(device.part, around=around)
        return device.part

    def _view(self, device: Device) -> View:
        assert device.part is not None
        return device.part.known.view

    def linked(self, device: Device, other: Device) -> bool:
        return device.up and other.up and frozenset((device.id, other.id)) not in self.cut
