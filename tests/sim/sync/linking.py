"""The links of a world that syncs: each end sees them begin and end in its own time, its machine hears of it later.

What drives a machine is the product's own `hhd_protocol.sync.links`, told as `protocol/spec/sync.md`, Links, says. In
some worlds links take the place of one another while the ones before still carry messages, ends are seen late and in
any order, what is for a machine waits for its turn, and so does what it said.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from tests.sim.device import Device
from tests.sim.world import World

from hhd_protocol.ids import DeviceId, Incarnation
from hhd_protocol.sync import Sync, decode_message, encode_message
from hhd_protocol.sync.events import Event, Heard, Linked, Lost, Output, SendBare, Woke
from hhd_protocol.sync.links import Links, Stamp
from hhd_protocol.sync.messages import Answered, Bare, Hello, Message, Part, Statements, Want

TWO = frozenset[DeviceId]
BEGIN, END, LOST = "begin", "end", "lost"


@dataclass(eq=False)
class Connection:
    """A link between two processes; `ends`: those that have not seen its end, `attended`: those that saw its begin."""

    number: int
    pair: TWO
    ends: set[DeviceId]
    attended: set[DeviceId] = field(default_factory=set)
    dead: bool = False
    """Nothing gets through any more; what arrived before may be read."""

    def other(self, end: DeviceId) -> DeviceId:
        (other,) = self.pair - {end}
        return other


@dataclass(frozen=True, kw_only=True)
class Wire:
    """A message under way on a link."""

    source: DeviceId
    target: DeviceId
    raw: bytes
    link: Connection
    bare: bytes = b""
    """What goes just before it of content that is not there, and is lost or comes twice with it."""


@dataclass(frozen=True, kw_only=True)
class Reply:
    """The machine says that a peer answered what was asked; `asking`: since which start or wake."""

    asking: int


@dataclass(kw_only=True)
class Driver:
    """What drives the machine of one process: `lane` is what waits for its turn, `out` what was said in those past."""

    openings: int
    machine: Sync
    links: Links[Connection] = field(default_factory=Links)
    lane: deque[Callable[[], None]] = field(default_factory=deque)
    out: deque[tuple[Stamp[Connection], list[tuple[DeviceId, Message | Reply]]]] = field(default_factory=deque)
    saying: list[tuple[DeviceId, Message | Reply]] | None = None
    """What is said in the turn that is now; None between turns."""
    busy: bool = False
    """It is at work for long: what is given waits, and so does what was said."""


class Linking(World):
    """A world whose devices have links, and drive their machines."""

    def __init__(
        self, seed: int, *, devices: int | None = None, calm: bool = False, real: bool = False, wide: bool = False
    ) -> None:
        super().__init__(seed, devices=devices, calm=calm, real=real, wide=wide)
        self.wires: list[Wire] = []
        self.links: dict[TWO, Connection] = {}
        """The link that stays, of each two that reach one another."""
        self.links_made = 0
        self.drivers: dict[DeviceId, Driver] = {}
        self.unseen: list[tuple[Device, Connection, str]] = []
        """What a device has still to see of a link, or to tell of it to its machine."""
        self.apart = random.Random(f"links {seed}")  # Of its own, so that worlds without stay what they were.
        self.late_chance = 0.0 if calm else self.apart.choice([0, 0, 0.2, 0.5])
        self.hellos: dict[tuple[DeviceId, DeviceId, int], int] = {}
        """By device, peer and number of the round: since which start or wake it was asked."""
        self.hearing = 0
        """The number of the round that an answer is to."""

    # What is up

    def refresh(self) -> None:
        """Machines are made and dropped with processes, links with what is reachable."""
        for device in self.everyone():
            made = self.drivers.get(device.id)
            if device.part is None:
                self.drivers.pop(device.id, None)
            elif made is None or made.openings != device.openings:
                machine = Sync(incarnation=Incarnation(device.incarnation))
                self.drivers[device.id] = Driver(openings=device.openings, machine=machine)
                for pair in [pair for pair in self.links if device.id in pair]:
                    self.break_link(pair, gone=device)
                self.opens(device)
        up = {
            frozenset((one.id, other.id))
            for one in self.everyone()
            for other in self.everyone()
            if one is not other and self.linked(one, other)
        }
        for pair in [pair for pair in self.links if pair not in up]:
            self.break_link(pair)
        for pair in sorted(up - self.links.keys(), key=sorted):
            self.connect(pair)

    def opens(self, device: Device) -> None:
        """A process began: its machine learns what is here."""
        raise NotImplementedError

    def everyone(self) -> list[Device]:
        """Who is linked."""
        return self.list

    def found(self, device: DeviceId) -> Device:
        return self.devices[device]

    def sealed(self, one: DeviceId, other: DeviceId) -> bool:
        """Whether one of the two only stores."""
        return False

    def machine(self, device: Device) -> Sync:
        return self.drivers[device.id].machine

    def driver(self, device: Device) -> Driver | None:
        """What drives the machine of the process that is up now."""
        made = self.drivers.get(device.id)
        return None if made is None or device.part is None or made.openings != device.openings else made

    # Links begin and end

    def late(self) -> bool:
        return self.late_chance > 0 and self.apart.random() < self.late_chance

    def connect(self, pair: TWO) -> Connection:
        self.links_made += 1
        link = self.links[pair] = Connection(number=self.links_made, pair=pair, ends=set(pair))
        for end in sorted(pair):
            self.sees(self.found(end), link, BEGIN)
        return link

    def break_link(self, pair: TWO, *, gone: Device | None = None) -> None:
        """Nothing more gets over it; whoever lives sees that, now or later. `gone`: whose process was another."""
        link = self.links.pop(pair)
        link.dead = True
        if any(link is wire.link and isinstance(self.opened(wire), Part | Statements) for wire in self.wires):
            self.reached["link cut in the middle"] += 1
        kept = {end for end in pair if self.late()}  # Their system has what came, and they may read it yet.
        self.wires = [wire for wire in self.wires if wire.link is not link or wire.target in kept]
        for end in sorted(pair):
            if (gone is not None and end == gone.id) or self.driver(self.found(end)) is None:
                link.ends.discard(end)
            else:
                self.sees(self.found(end), link, END)

    def replace_any(self) -> None:
        """A better link takes the place of one that lives, or both dialled at once: for a while there are two."""
        self.refresh()
        if not self.links:
            return
        pair = self.apart.choice(sorted(self.links, key=sorted))
        old = self.links[pair]
        self.links_made += 1
        fresh = self.links[pair] = Connection(number=self.links_made, pair=pair, ends=set(pair))
        self.reached["link takes the place of another"] += 1
        firsts = set()
        for end in sorted(pair):
            steps = [(fresh, BEGIN), (old, END)]
            self.apart.shuffle(steps)
            firsts.add(steps[0][1])
            for link, what in steps:
                self.sees(self.found(end), link, what)
        if len(firsts) == 2:
            self.reached["ends see a replaced link each in another order"] += 1

    def sees(self, device: Device, link: Connection, what: str) -> None:
        """Something happened to a link at one end, which sees it now or later."""
        if self.late():
            self.unseen.append((device, link, what))
        else:
            self.see(device, link, what)

    def see_any(self) -> None:
        if self.unseen:
            self.see(*self.unseen.pop(self.apart.randrange(len(self.unseen))))

    def see(self, device: Device, link: Connection, what: str) -> None:
        made, peer = self.driver(device), link.other(device.id)
        if made is None:
            link.ends.discard(device.id)
        elif what == BEGIN and device.id in link.ends:
            before = made.links.current(peer)
            if before is not None and before.number >= link.number:
                return
            if before is not None:
                self.reached["link begun before the end of the other was seen"] += 1
            made.links.begin(peer, link)
            link.attended.add(device.id)
            self.act(device, lambda: self._begun(device, made, link))
        elif what == END and device.id in link.ends:
            link.ends.discard(device.id)
            self.wires = [wire for wire in self.wires if wire.link is not link or wire.target != device.id]
            if made.links.end(peer, link):
                self.sees(device, link, LOST)
        elif what == LOST:
            self.act(device, lambda: self._ended(device, made, link))

    def _begun(self, device: Device, made: Driver, link: Connection) -> None:
        peer = link.other(device.id)
        made.links.told(peer, link)
        self.begun(device, peer)
        self.happens(device, Linked(peer=peer, sealed=self.sealed(device.id, peer)))
        if self.driver(device) is made and made.saying is not None:
            said = [one for to, one in made.saying if to == peer and isinstance(one, Want)]
            asked = made.machine.wants.waits_for(peer) - sum(len(one.objects) + len(one.modules) for one in said)
            assert asked <= 0, f"{device.name} waits for what it asked over a link that is no more"

    def begun(self, device: Device, peer: DeviceId) -> None:
        """The machine is about to be told of a link."""

    def _ended(self, device: Device, made: Driver, link: Connection) -> None:
        peer = link.other(device.id)
        if made.links.ended(peer, link):
            self.happens(device, Lost(peer=peer))
        else:
            self.reached["end told after the begin of the next"] += 1

    # One device

    def act(self, device: Device, doing: Callable[[], None]) -> None:
        """Have the machine's side do something once its turn comes, after all that was given before."""
        made = self.driver(device)
        if made is not None:
            made.lane.append(doing)
            made.busy |= self.late()
            if not made.busy:
                self.take_turns(device)

    def turn_any(self) -> None:
        device = self._some()
        if device is not None:
            self.take_turns(device)

    def take_turns(self, device: Device) -> None:
        if (made := self.driver(device)) is not None:
            made.busy = False
        while (made := self.driver(device)) is not None and made.saying is None:
            if not made.lane:
                self.send_out(device, made)
                return
            self._turn(device, made, made.lane.popleft())

    def _turn(self, device: Device, made: Driver, doing: Callable[[], None]) -> None:
        made.saying = []
        doing()
        made.out.append((made.links.stamp(), made.saying))
        made.saying = None
        made.busy |= self.late()
        if not made.busy:
            self.send_out(device, made)

    def send_out(self, device: Device, made: Driver) -> None:
        """What was said goes out, over the links that it was said for."""
        while made.out:
            stamp, saying = made.out.popleft()
            before: dict[DeviceId, bytes] = {}
            for peer, said in saying:
                if isinstance(said, Bare):
                    before[peer] = encode_message(said)
                elif isinstance(said, Reply):
                    self.answered(device, made, peer, said, stamp)
                elif (link := made.links.over(peer, stamp)) is None:
                    self.reached["said for a link that is no more"] += 1
                elif peer in link.ends and not link.dead:
                    raw, bare = encode_message(said), before.pop(peer, b"")
                    self.wires.append(Wire(source=device.id, target=peer, raw=raw, link=link, bare=bare))

    def answered(self, device: Device, made: Driver, peer: DeviceId, reply: Reply, stamp: Stamp[Connection]) -> None:
        if made.openings != device.openings:
            return
        if not made.links.is_awake(stamp):
            self.reached["answer carried out after a wake"] += 1
            return
        assert reply.asking == device.asking, f"{device.name} woke, and takes an answer to what it asked before"
        device.answered |= {peer}

    def happens(self, device: Device, event: Event) -> None:
        """Give the machine an event and carry out what it says, in order."""
        made = self.driver(device)
        if made is None:
            return
        if made.saying is None:
            self._turn(device, made, lambda: self._happens(device, made, event))
        else:
            self._happens(device, made, event)

    def _happens(self, device: Device, made: Driver, event: Event) -> None:
        for output in made.machine.handle(event, device.now_ms(self.now_ms)):
            if self.driver(device) is not made:
                return
            crashes = not isinstance(output, SendBare)  # It is one with what it is said before.
            if crashes and self.crash_chance and self.rng.random() < self.crash_chance / 8:
                self.crash(device)
                return
            self.carry(device, made.machine, output)

    def carry(self, device: Device, machine: Sync, output: Output) -> None:
        raise NotImplementedError

    def post(self, device: Device, peer: DeviceId, said: Message | Reply) -> None:
        """What is said goes out when the turn is over."""
        made = self.drivers[device.id]
        assert made.saying is not None
        if isinstance(said, Hello):
            self.hellos[device.id, peer, said.round] = device.asking
        made.saying.append((peer, said))

    def ask_everybody(self, device: Device) -> None:
        self.refresh()
        made = self.driver(device)
        if device.up and made is not None:
            if self.late_chance and self.apart.random() < 0.7:  # What came meanwhile is read before it notices.
                for wire in [wire for wire in self.wires if wire.target == device.id][:4]:
                    self.wires.remove(wire)
                    made.lane.append(partial(self._heard, device, made, wire))
            wake = made.links.woke()
            self.act(device, lambda: self._woke(device, made, wake))

    def _woke(self, device: Device, made: Driver, wake: int) -> None:
        self.happens(device, Woke())
        made.links.wakes(wake)

    # Messages

    def opened(self, wire: Wire) -> Message:
        return decode_message(wire.raw)

    def deliver_any(self) -> None:
        self.refresh()
        for _ in range(self.rng.choice([1, 1, 3, 8])):
            if self.wires:
                self.deliver_one()

    def deliver_one(self) -> None:
        out_of_order = self.rng.random() < self.reorder_chance
        at = self.rng.randrange(len(self.wires)) if out_of_order else 0
        if at:
            self.reached["out of order"] += 1
        again = self.rng.random() < self.twice_chance
        if again:
            self.reached["message twice"] += 1
        wire = self.wires[at] if again else self.wires.pop(at)
        if self.rng.random() < self.loss_chance / 2:
            self.reached["message lost"] += 1
            return
        self.hear(wire)

    @property
    def reorder_chance(self) -> float:
        return 0.3 if self.twice_chance else 0.0

    def hear(self, wire: Wire) -> None:
        """A message arrives at a process that reads the link that it came over."""
        device, link = self.found(wire.target), wire.link
        made = self.driver(device)
        if made is None or not device.up or device.id not in link.ends:
            return
        if device.id not in link.attended:
            self.reached["message before its link was attended to"] += 1
            self.see(device, link, BEGIN)  # It is read when that was done, and never where another link came first.
        if device.id in link.attended:
            self.act(device, lambda: self._heard(device, made, wire))

    def _heard(self, device: Device, made: Driver, wire: Wire) -> None:
        if not made.links.hears(wire.source, wire.link):
            self.reached["message of a replaced link let go"] += 1
            return
        if made.links.current(wire.source) is not wire.link:
            self.reached["message of a replaced link taken"] += 1
        if wire.bare:
            self.happens(device, Heard(peer=wire.source, message=decode_message(wire.bare)))
        message = self.opened(wire)
        if isinstance(message, Hello):
            self.reached["round"] += 1
        if isinstance(message, Answered):
            self.hearing = message.round
        self.happens(device, Heard(peer=wire.source, message=message))

    def drain(self) -> None:
        for _ in range(20_000):
            if not self.wires:
                return
            self.hear(self.wires.pop(0))
        raise AssertionError("the devices talk for ever")

    def catch_up(self) -> None:
        """From now on everything is seen and told at once, and so is what was not yet."""
        self.late_chance = 0.0
        while self.unseen:
            self.see_any()
        for device in self.everyone():
            self.take_turns(device)
