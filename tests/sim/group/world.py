"""Five devices of a person in a seeded order of trouble: who adds and puts out whom, apart or together; a thief."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable

from tests.sim.group.device import SESSION, Device, decoded
from tests.sim.group.oracle import Oracle

from hhd.base.errors import RefusedError
from hhd_protocol.crypto import public_key
from hhd_protocol.errors import FormatError
from hhd_protocol.group import Add, Found, Group, GroupRecord, Revoke, resolve, sign
from hhd_protocol.group.causes import Causes
from hhd_protocol.ids import DeviceId, GroupRecordId, StatementId
from hhd_protocol.limits import (
    GROUP_DEVICES_MAX,
    GROUP_MEMBERSHIPS_MAX,
    GROUP_RECORDS_OF_ONE_MAX,
    GROUP_SEEN_MAX,
)
from hhd_protocol.statements import Checkpoint, Role

NAMES = ("laptop", "desktop", "tower", "phone", "tablet")
STEPS = (25, 45)
ROLES = (Role.FULL, Role.FULL, Role.FULL, Role.CONTROLLER, Role.STORE_ONLY)
CHECKED_EVERY = 6
FLOOD = GROUP_RECORDS_OF_ONE_MAX + 12


class World:
    def __init__(self, seed: int) -> None:
        self.seed, self.dice = seed, random.Random(seed)
        self.devices = [Device(name) for name in NAMES]
        self.parts = {device.id: 0 for device in self.devices}
        self.thief: Device | None = self.devices[self.dice.randrange(1, 5)] if self.dice.random() < 0.5 else None
        self.reached: Counter[str] = Counter()
        self.lines: list[str] = []
        self.now = 1_000
        self.puppets = 0
        self.ended: dict[tuple[DeviceId, GroupRecordId], set[GroupRecordId]] = {}
        self.root: GroupRecordId | None = None

    # Running

    def run(self) -> Counter[str]:
        first, second = self.devices[0], self.devices[1]
        self.pair(first, second, Role.FULL)
        self.root = first.root
        for _ in range(self.dice.randint(*STEPS)):
            self.now += 1
            self.step()
            if self.now % CHECKED_EVERY == 0:
                self.check()
        self.calm()
        self.check(everything=True)
        self.agree()
        return self.reached

    def story(self) -> str:
        return "\n".join(self.lines)

    def say(self, what: str, line: str) -> None:
        self.reached[what] += 1
        self.lines.append(f"{self.now}: {line}")

    def step(self) -> None:
        acts = (
            (self.meet, 9),
            (self.adds, 4),
            (self.revokes, 3),
            (self.signs, 5),
            (self.parted, 2),
            (self.allows, 2),
            (self.refounds, 1),
            (self.out_acts, 1),
            (self.steals, 4 if self.thief is not None else 0),
            (self.floods, 0.06 if self.thief is not None else 0),
        )
        act = self.dice.choices([act for act, _ in acts], [weight for _, weight in acts])[0]
        act()

    def honest(self) -> list[Device]:
        return [device for device in self.devices if device is not self.thief]

    def reach(self, one: Device, other: Device) -> bool:
        return self.parts[one.id] == self.parts[other.id]

    def two(self, devices: Iterable[Device] | None = None) -> tuple[Device, Device] | None:
        """Two devices that reach each other."""
        pairs = [
            (one, other)
            for one in (self.devices if devices is None else devices)
            for other in self.devices
            if one is not other and self.reach(one, other)
        ]
        return self.dice.choice(pairs) if pairs else None

    def signed(self, device: Device, before: int) -> None:
        """What `device` signed now, beyond `before` records, names all that it knew."""
        oracle, root = Oracle(device.records), device.root
        assert root is not None
        known = {one.id for one in device.records[:before] if one.id == root or oracle.is_good(one.id, root)}
        for record in device.records[before:]:
            if record.body.by == device.id and not isinstance(record.body, Found):
                assert known <= oracle.past(record.id, root), f"{device.name} does not name all that it knew"

    # What happens

    def pair(self, one: Device, other: Device, role: Role) -> None:
        """`one` takes `other` in; the answer may be lost."""
        before = len(one.records)
        one.membership.found(one.name, self.now)
        was = one.group is not None and other.id in one.group.devices
        one.membership.add(other.public, other.name, role, self.now)
        self.signed(one, before)
        self.say("added again" if was else "added", f"{one.name} adds {other.name} as {role.value}")
        if self.dice.random() < 0.1 and self.root is not None:
            self.say("the join was lost", f"{other.name} does not hear of it")
            return
        before = len(other.records)
        root = one.root
        assert root is not None
        try:
            other.membership.join(self.shuffled(one), root, self.now)
        except RefusedError as error:
            kind = "in another group" if "in a group with" in str(error) else "quarrel"
            self.say(kind, f"{other.name} refuses: {error}")
            return
        self.signed(other, before)
        one.membership.take(self.shuffled(other))

    def adds(self) -> None:
        found = self.two([one for one in self.devices if one.group is not None and one.full and one.live])
        if found is None:
            return
        one, other = found
        if one.group is not None and other.id in one.group.members and self.dice.random() < 0.8:
            return
        self.pair(one, other, self.dice.choice(ROLES))

    def revokes(self) -> None:
        able = [one for one in self.devices if one.group is not None and one.full and len(one.group.members) > 1]
        if not able:
            return
        one = self.dice.choice(able)
        assert one.group is not None
        whom = self.dice.choice(sorted(one.group.members.keys() - {one.id}))
        before = len(one.records)
        one.membership.revoke(whom, self.now)
        self.signed(one, before)
        self.say("revocation", f"{one.name} puts {self.name(whom)} out")

    def allows(self) -> None:
        able = [one for one in self.devices if one.group is not None and one.full and len(one.group.members) > 1]
        if able:
            one = self.dice.choice(able)
            assert one.group is not None
            whom = self.dice.choice(sorted(one.group.members.keys() - {one.id}))
            before = len(one.records)
            one.membership.allow(whom, self.dice.random() < 0.7, self.now)
            self.signed(one, before)
            self.say("allowed", f"{one.name} speaks of {self.name(whom)}")

    def signs(self) -> None:
        able = [one for one in self.devices if one.group is not None and (one.live or one is self.thief)]
        if able:
            one = self.dice.choice(able)
            made = one.signs(self.now)
            self.say("statement", f"{one.name} signs {made.id.hex()[:6]}")

    def parted(self) -> None:
        self.parts = {device.id: self.dice.randrange(self.dice.choice((1, 2, 2, 3))) for device in self.devices}
        self.say("partition", f"the network is {list(self.parts.values())}")

    def meet(self) -> None:
        found = self.two()
        if found is None:
            return
        one, other = found
        for giver, taker in ((one, other), (other, one)):
            if self.dice.random() < 0.2:
                self.say("message lost", f"{taker.name} does not hear {giver.name}")
                continue
            self.gives(giver, taker)

    def gives(self, giver: Device, taker: Device, *, all_of_it: bool = False) -> None:
        """Records first, then statements: some of them, twice, in any order, if the taker may listen."""
        if taker.group is None or giver.group is None or not taker.membership.trusted(giver.id):
            return
        records = self.shuffled(giver)
        if not all_of_it and self.dice.random() < 0.3:
            records = records[: self.dice.randint(0, len(records))]
            self.say("some records only", f"{giver.name} tells {taker.name} some")
        before = taker.group
        if taker.membership.take(records):
            self.lines.append(f"{self.now}: {taker.name} hears from {giver.name}")
            after = taker.group
            assert after is not None
            if taker.id in before.members and taker.id not in after.members:
                self.say("learnt that it is out", f"{taker.name} is out")
        taker.statements.update(giver.statements)

    def shuffled(self, device: Device) -> list[bytes]:
        raws = device.membership.records()
        self.dice.shuffle(raws)
        if raws and self.dice.random() < 0.3:
            self.reached["records twice"] += 1
            raws += raws[: self.dice.randint(1, len(raws))]
        return raws

    def refounds(self) -> None:
        grouped = [one for one in self.honest() if one.group is not None]
        out = [one for one in grouped if one.group is not None and not one.group.full]
        if not out and self.dice.random() < 0.1:
            out = grouped  # To leave a group.
        if not out:
            return
        one = self.dice.choice(out)
        before = len(one.records)
        one.membership.refound(one.name, self.now)
        self.signed(one, before)
        self.say("begun anew", f"{one.name} begins anew")

    def out_acts(self) -> None:
        """A device that knows that it is out is refused everything."""
        for one in self.honest():
            if one.group is not None and not one.live:
                before = one.membership.records()
                whom = self.dice.choice(self.devices)
                try:
                    if self.dice.random() < 0.5:
                        one.membership.add(whom.public, whom.name, Role.FULL, self.now)
                    else:
                        one.membership.revoke(whom.id, self.now)
                except RefusedError:
                    self.say("who is out may nothing", f"{one.name} is refused")
                    assert one.membership.records() == before, "nothing was kept"
                else:
                    raise AssertionError(f"{one.name} is out, and could")

    # The thief

    def forge(self, body: Add | Revoke | Found, seed: bytes) -> GroupRecord:
        record = sign(body, seed)
        return decoded(record.raw)

    def steals(self) -> None:
        """Somebody has a device with its key, and signs what they like."""
        thief = self.thief
        assert thief is not None
        if thief.group is None:
            return
        records = thief.records
        mine = [
            record
            for record in records
            if (isinstance(record.body, Add) and record.body.member == thief.public)
            or (isinstance(record.body, Found) and record.body.by == thief.id)
        ]
        everyone = [record for record in records if isinstance(record.body, Add | Found)]
        under = self.dice.choice(mine if self.dice.random() < 0.8 and mine else everyone)
        seen_of = [record for record in records if self.dice.random() < self.dice.choice((0.3, 1.0, 1.0))]
        ends = tuple(sorted(Causes(seen_of).ends())[: GROUP_SEEN_MAX - 1])
        kind = self.dice.choice(("add", "revoke", "revoke", "puppet", "found"))
        head = {"public": thief.public, "seen": ends, "under": under.id, "at_ms": self.now}
        made: GroupRecord
        if kind == "found":
            made = self.forge(Found(public=thief.public, seen=ends, name="thief", at_ms=self.now), thief.seed)
        elif kind == "revoke":
            whom = self.dice.choice(self.devices)
            given = [
                record.id
                for record in everyone
                if (record.body.member if isinstance(record.body, Add) else record.body.public) == whom.public
            ]
            if not given:
                return
            some = tuple(sorted(self.dice.sample(sorted(thief.statements), min(2, len(thief.statements)))))
            cutoffs = {SESSION: some} if some else {}
            named = self.dice.choice(self.devices) if self.dice.random() < 0.3 else whom
            body = Revoke(**head, device=named.id, memberships=_some(given), cutoffs=cutoffs)
            made = self.forge(body, thief.seed)
        elif kind == "puppet":
            self.puppets += 1
            seed = f"puppet {self.puppets}".encode().ljust(32, b"\0")
            add = self.forge(Add(**head, member=public_key(seed), name="puppet", role=Role.FULL), thief.seed)
            thief.store.group.raws.append(add.raw)
            victim = self.dice.choice(self.devices)
            given = [one.id for one in everyone if isinstance(one.body, Add) and one.body.member == victim.public]
            if not given:
                return
            turned = {**head, "public": public_key(seed), "under": add.id, "seen": tuple(sorted({*ends, add.id}))}
            body = Revoke(**turned, device=victim.id, memberships=_some(given))
            made = self.forge(body, seed)
        else:
            whom = self.dice.choice(self.devices)
            made = self.forge(Add(**head, member=whom.public, name="thief's", role=Role.FULL), thief.seed)
        thief.store.group.raws.append(made.raw)
        self.say(f"the thief: {kind}", f"the thief ({thief.name}) signs {kind} {made.id.hex()[:6]}")
        taker = self.dice.choice(self.honest())
        if taker.group is not None:
            damaged = bytearray(made.raw)
            damaged[self.dice.randrange(len(damaged))] ^= 1 << self.dice.randrange(8)
            before = taker.membership.records()
            try:
                taker.membership.take([bytes(damaged)])
            except FormatError:
                self.reached["damaged records refused"] += 1
            assert taker.membership.records() == before, "a damaged record was kept"
            if taker.membership.trusted(thief.id) and self.reach(taker, thief):
                taker.membership.take(self.shuffled(thief))

    def floods(self) -> None:
        """The thief signs without end."""
        thief = self.thief
        assert thief is not None
        taker = self.dice.choice(self.honest())
        if thief.group is None or taker.group is None or not taker.membership.trusted(thief.id):
            return
        mine = [
            record for record in taker.records if isinstance(record.body, Add) and record.body.member == thief.public
        ]
        if not mine:
            return
        head = {"public": thief.public, "seen": (), "under": mine[0].id}
        junk = [
            sign(Add(**head, at_ms=at, member=self.devices[0].public, name="x", role=Role.STORE_ONLY), thief.seed).raw
            for at in range(FLOOD)
        ]
        taker.membership.take(junk)
        kept = sum(record.body.by == thief.id and not isinstance(record.body, Revoke) for record in taker.records)
        assert kept <= GROUP_RECORDS_OF_ONE_MAX, "one device fills no more than its share"
        self.say("flood", f"the thief signs {FLOOD} records, of which {taker.name} keeps some")

    # What must hold

    def name(self, id: DeviceId) -> str:
        return next((device.name for device in self.devices if device.id == id), id.hex()[:6])

    def names(self, members: dict[DeviceId, Role]) -> str:
        return ", ".join(sorted(f"{self.name(id)} ({role.value})" for id, role in members.items()))

    def check(self, *, everything: bool = False) -> None:
        for device in self.honest() if everything else [self.dice.choice(self.honest())]:
            if device.group is not None:
                self.check_device(device, device.group)

    def check_device(self, device: Device, group: Group) -> None:
        root = device.root
        assert root is not None
        oracle = Oracle(device.records)
        found = oracle.answer(root)
        members = {id: one.live.role for id, one in group.members.items() if one.live is not None}
        assert members == found.members, f"{device.name} takes {self.names(members)} for members, not " + self.names(
            found.members
        )
        assert group.approvals == found.approvals, f"{device.name}: who may approve"
        revokes = {(one.id, record.id) for one in group.devices.values() for record in one.revokes if one.memberships}
        assert revokes == set(found.revokes), f"{device.name}: which revocations count"
        assert len(group.given) <= GROUP_DEVICES_MAX
        gone = self.ended.setdefault((device.id, root), set())
        live = {one.live.id for one in group.members.values() if one.live is not None}
        assert not gone & live, f"{device.name}: a membership that was ended is live again"
        gone.update(one.id for each in group.devices.values() for one in each.memberships if one.ended)
        self.check_statements(device, group, oracle)
        self.note(group)

    def check_statements(self, device: Device, group: Group, oracle: Oracle) -> None:
        """What somebody who revoked knew counts; what was signed after its signer knew of its end does not."""
        sealed = device.sealed()
        for id, statement in device.statements.items():
            one = group.devices.get(statement.by)
            if one is None or not one.revokes:
                assert id not in sealed
                continue
            named = {last for record in one.revokes for last in _cutoffs(record)}
            counts = any(id in _chain(device.statements, last, statement.by) for last in named)
            begun = _begin(device.statements, id)
            counts = counts or begun in one.anew
            assert (id in sealed) is not counts, f"{device.name}: a statement of {self.name(statement.by)}"
            if id in sealed:
                self.reached["sealed"] += 1
            elif begun in one.anew:
                self.reached["counts anew"] += 1
            if len(named) > 1 and counts:
                self.reached["cut-offs unite"] += 1

    def note(self, group: Group) -> None:
        self.reached["fallen"] += bool(group.fallen)
        self.reached["nobody is left"] += not group.members
        by = {(record.body.by, one.id) for one in group.devices.values() for record in one.revokes}
        self.reached["mutual revocation"] += any((whom, who) in by for who, whom in by)
        self.reached["ring"] += any((b, c) in by and (c, a) in by for a, b in by for x, c in by if x == b and c != a)
        self.reached["former members"] += any(not one.memberships for one in group.devices.values())

    # The end

    def calm(self) -> None:
        """Everybody reaches everybody, and all honest devices have talked, also with those that think they are out."""
        self.parts = dict.fromkeys(self.parts, 0)
        self.lines.append(f"{self.now}: the calm begins")
        for _ in range(12):
            before = [(len(device.records), len(device.statements)) for device in self.honest()]
            for one in self.honest():
                for other in self.honest():
                    if one is not other and one.root is not None and one.root == other.root:
                        other.membership.take(self.shuffled(one))
                        other.statements.update(one.statements)
            if before == [(len(device.records), len(device.statements)) for device in self.honest()]:
                return
        raise AssertionError("they never had told each other everything")

    def agree(self) -> None:
        if self.reached["flood"]:
            return  # Of who passed the bounds, each keeps what it can.
        for root in {device.root for device in self.honest() if device.root is not None}:
            same = [device for device in self.honest() if device.root == root]
            groups = [device.group for device in same]
            assert groups[0] is not None
            for device, group in zip(same, groups, strict=True):
                assert group is not None
                assert _meaning(group) == _meaning(groups[0]), f"{device.name} and {same[0].name} do not agree"
                assert device.sealed() == same[0].sealed(), f"{device.name}: other statements count"
                assert group.era in (None, device.store.group.era()), f"{device.name}: keys are of another era"
                records = device.records
                self.dice.shuffle(records)
                assert resolve(records, root=root) == group, "the order decides"
            self.reached["agreed"] += len(same) > 1
        roots = {device.root for device in self.honest()}
        self.reached["two groups"] += len(roots) > 1


def _meaning(group: Group) -> tuple[object, ...]:
    """What devices must agree on; not which records of strangers each happened to keep."""
    devices = {id: (one.live, one.role, one.name, one.revokes, one.anew) for id, one in group.devices.items()}
    return group.root, devices, group.approvals, group.era


def _cutoffs(record: GroupRecord) -> tuple[StatementId, ...]:
    assert isinstance(record.body, Revoke)
    return record.body.cutoffs.get(SESSION, ())


def _chain(statements: dict[StatementId, Checkpoint], last: StatementId, by: DeviceId) -> set[StatementId]:
    """`last` and what it follows in the chain of `by`."""
    found: set[StatementId] = set()
    at: StatementId | None = last
    while at is not None and at in statements and statements[at].by == by:
        found.add(at)
        at = statements[at].after
    return found


def _begin(statements: dict[StatementId, Checkpoint], at: StatementId) -> StatementId | None:
    """What the first statement of a chain follows."""
    following: StatementId | None = at
    while following is not None and following in statements:
        following = statements[following].after
    return following


def _some(given: list[GroupRecordId]) -> tuple[GroupRecordId, ...]:
    """As many memberships as one record may end: after a flood there are more."""
    return tuple(sorted(given)[:GROUP_MEMBERSHIPS_MAX])
