"""What must hold in every world: the invariants of `protocol/spec/holding.md`, checked after each step and at the end.

The checks know everything that ever happened, on every disk, and none of it reaches the devices.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hhd_protocol.fencing import Token, View
from hhd_protocol.holding import Leg, Why
from hhd_protocol.ids import DeviceId, EffectId, Sha256, StatementId
from hhd_protocol.statements import (
    Checkpoint,
    EffectKind,
    Intent,
    Progress,
    Receipt,
    Record,
    RecordKind,
    Revocation,
    Role,
    Statement,
    Tombstone,
)

if TYPE_CHECKING:
    from tests.sim.basis import Basis
    from tests.sim.device import Device, Disk


@dataclass(frozen=True, kw_only=True)
class Run:
    """One outward act. `word`: the checkpoint in which a person asked for it anew, None if nobody did."""

    device: DeviceId
    token: StatementId
    asked_at: StatementId | None
    intent: StatementId


class Checks:
    """The watcher of one world."""

    def __init__(self, world: Basis) -> None:
        self.world = world
        self.statements: dict[StatementId, Statement] = {}
        self.runs: dict[tuple[EffectId, Sha256, StatementId | None], list[Run]] = {}
        self.forgotten: set[StatementId] = set()
        """Statements that a device signed and that a roll-back took from it."""
        self._gone: dict[DeviceId, set[StatementId]] = {}
        """What a device let go of with a removed session: a roll-back takes from it that it did."""
        self._acknowledged: dict[DeviceId, set[StatementId]] = {}
        self._last_token: dict[DeviceId, Token] = {}
        self._tips: dict[DeviceId, StatementId | None] = {}
        self._told: dict[DeviceId, set[DeviceId]] = {}
        """Who told a device, since its disk was last rolled back, that it has a checkpoint."""

    def revocations(self) -> list[Revocation]:
        return [s for s in self.statements.values() if isinstance(s, Revocation)]

    # After each step

    def signed(self, device: Device, statement: Statement) -> None:
        """Invariant 1: only who holds the token advances, and under one token there is one line."""
        assert statement.id not in self.statements, f"{device.name} signed the same statement twice"
        if device.part is not None and self._view(device).removed:
            leg = device.part.leg
            at_hand = leg is not None and bool(leg.unsaved or leg.replied)
            closes = at_hand and isinstance(statement, Checkpoint) and statement.closing
            harmless = isinstance(statement, Tombstone | Revocation | Receipt)
            assert harmless or closes, f"{device.name} brings back what was removed"
        token = statement.token if isinstance(statement, Checkpoint | Intent | Receipt) else None
        if token is not None:
            record = self.statements[token]
            assert isinstance(record, Record) and record.to == device.id, f"{device.name} acts under another's token"
            if not (isinstance(statement, Checkpoint) and statement.closing) and not isinstance(statement, Receipt):
                self._not_rolled_back(device, token)
        if not device.restored:
            for other in self.statements.values():
                assert (other.by, other.after) != (device.id, statement.after), f"{device.name}'s chain forks"
                if isinstance(statement, Checkpoint) and isinstance(other, Checkpoint) and not statement.closing:
                    same = (other.token, other.parents) == (statement.token, statement.parents)
                    assert not same or other.closing, f"{device.name} splits its line"
        if isinstance(statement, Record) and statement.kind is not RecordKind.CREATE:
            assert statement.prev is not None
            before = self.statements[statement.prev]
            assert isinstance(before, Record) and statement.number == before.number + 1, "a number does not follow"
            if statement.kind is RecordKind.RELEASE:
                self._released(device)
        self.statements[statement.id] = statement
        self._tips[device.id] = statement.id

    def _released(self, device: Device) -> None:
        """A release hands on all there is, and is signed by who knows what happened while it slept."""
        assert device.part is not None
        leg = device.part.leg
        assert leg is None or not (leg.unsaved or leg.replied), f"{device.name} releases, with work in no checkpoint"
        assert leg is None or leg.running is None, f"{device.name} releases, and its effect runs"
        self._has_heard(device, "releases")

    def _has_heard(self, device: Device, does: str) -> None:
        others = {d.id for d in self.world.list if d.role is Role.FULL and d is not device} - self._view(device).revoked
        if others & self._told.get(device.id, set()):
            assert device.answered & others or device.attached, (
                f"{device.name} woke, and {does} before anybody answered"
            )

    def stands(self, device: Device, statement: Statement) -> None:
        """Invariant 3: what a device signs stands on content that is whole here."""
        on = [*statement.parents] if isinstance(statement, Checkpoint) else []
        if isinstance(statement, Record) and statement.head is not None:
            on.append(statement.head)
        for head in on:
            assert head not in device.disk.bare, f"{device.name} stands on {self.world.name(head)} without its content"

    def loads(self, device: Device, head: StatementId | None) -> None:
        assert head not in device.disk.bare, f"{device.name} loads {self.world.name(head)} without its content"

    def kept(self, device: Device, leg: Leg | None, statement: Statement) -> None:
        """Work that is in no checkpoint is there until it is in one; `leg`: before `statement` was signed."""
        if leg is not None and (leg.unsaved or leg.replied) and not isinstance(statement, Checkpoint):
            assert device.part is not None
            now = device.part.leg
            same = now is not None and (now.token, now.unsaved, now.replied) == (leg.token, leg.unsaved, leg.replied)
            assert same, f"{device.name} drops work that is in no checkpoint"

    def _not_rolled_back(self, device: Device, token: StatementId) -> None:
        """Who knows that it forgot what it did under a token does nothing more under it."""
        if device.part is None:
            return
        known = device.part.known.statements
        mine: set[StatementId] = set()
        at = self._tips.get(device.id)
        while at is not None and at in known:
            mine.add(at)
            at = known[at].after
        for statement in known.values():
            under = statement.id == token or self._under(statement, token)
            lost = statement.by == device.id and statement.id not in mine
            assert not (under and lost), f"{device.name} goes on although its store was rolled back"

    def said(self, device: Device, statements: tuple[Statement, ...]) -> None:
        """What is persisted comes before what is sent: own statements that are sent are durable."""
        for statement in statements:
            if statement.by == device.id and statement.id not in device.disk.statements:
                assert statement.id in self.forgotten, f"{device.name} sends what it did not persist"

    def learned(self, device: Device) -> None:
        """Nothing an honest device signed is refused; numbers go back only where a revocation sealed the last one."""
        view = self._view(device)
        world = self.world
        assert not view.refused, f"{device.name} refuses {world.name(view.refused)}"
        last = self._last_token.get(device.id)
        if last is not None and view.token is not None and view.token.number < last.number:
            world.reached["number went back by a revocation"] += 1
            assert last.id in view.sealed, f"{device.name} goes from {world.name(last.id)} back to {view.token.number}"
        if view.token is not None:
            self._last_token[device.id] = view.token
        self._count(device, view)

    def _count(self, device: Device, view: View) -> None:
        reached = self.world.reached
        if view.competing:
            reached["fork"] += 1
        if view.token is not None and view.main is None and view.heads:
            reached["line split or not here"] += 1
        if view.uncertain:
            reached["uncertain effect"] += 1
        if view.evidence:
            reached["evidence"] += 1
        if view.held:
            reached["held"] += 1
        if view.sealed:
            reached["sealed"] += 1
        if device.id in view.revoked:
            reached["revoked itself"] += 1
        if view.owner_revoked:
            reached["owner revoked"] += 1
        if view.rolled_back:
            reached["chain forked"] += 1
        if view.token is not None:
            record = self.statements[view.token.id]
            if isinstance(record, Record) and record.kind is RecordKind.RELEASE:
                target = self.world.devices[record.to]
                if record.id not in target.disk.statements:
                    reached["release in flight"] += 1
            assert device.part is not None
            tied = [
                s
                for s in device.part.known.statements.values()
                if isinstance(s, Record) and s.number == view.token.number
            ]
            if len(tied) > 1:
                reached["tie"] += 1

    def refusal(self, device: Device, why: Why) -> None:
        if why is Why.ALONE:
            self.world.reached["wake alone"] += 1
        if why is Why.ROLLED_BACK:
            assert device.restored or device.let_go, (
                f"{device.name} takes itself for rolled back, and nobody touched its disk"
            )

    def ran(self, device: Device, effect: EffectId, request: Sha256) -> None:
        """Invariant 5: at most one run, or one for each time a person asked for it; with the limits of the README."""
        assert device.part is not None and device.part.leg is not None
        world, part = self.world, device.part
        leg = part.leg
        assert leg is not None
        intents = [
            s
            for s in device.disk.statements.values()
            if isinstance(s, Intent) and s.by == device.id and s.effect == effect and s.token == leg.token
        ]
        assert intents, f"{device.name} starts {world.name(effect)} before its intent is durable"
        asked_at, word = self._asked(part.known.statements, leg.head, effect)
        run = Run(device=device.id, token=leg.token, asked_at=asked_at, intent=intents[-1].id)
        view = self._view(device)
        assert view.token is not None and leg.token == view.token.id, f"{device.name} starts an effect while fenced"
        assert device.id not in view.revoked, f"{device.name} starts an effect and knows that it was revoked"
        assert not view.removed, f"{device.name} starts an effect of what was removed"
        self._has_heard(device, "runs")
        earlier = self.runs.setdefault((effect, request, word), [])
        if word is not None and self.runs.get((effect, request, None)):
            world.reached["second run: a person asked for it"] += 1
        if world.kinds[effect] is EffectKind.TOOL:
            for other in earlier:
                excuse = self._excuse(device, other, effect, asked_at)
                assert excuse, (
                    f"{device.name} runs {world.name(effect)} again, which {world.name(other.device)} ran by "
                    f"{world.name(other.intent)}"
                )
                world.reached[f"second run: {excuse}"] += 1
        earlier.append(run)
        world.reached["run"] += 1

    def _excuse(self, device: Device, other: Run, effect: EffectId, asked_at: StatementId | None) -> str | None:
        """Which of the documented limits allows that `device` runs again what `other` ran; None: none does."""
        assert device.part is not None
        known = device.part.known.statements
        if self._beaten_unknowingly(device):
            return "an old holder that has not learned"
        if other.asked_at not in known and not any(
            statement.by == other.device and self._mentions(statement, effect) and self._under(statement, other.token)
            for statement in known.values()
        ):
            return "no trace here"
        if other.intent in self.forgotten and other.intent not in known:
            return "an invisible roll-back"
        return None

    def _beaten_unknowingly(self, device: Device) -> bool:
        view = self._view(device)
        assert device.part is not None and view.token is not None
        known = device.part.known.statements
        for statement in self.statements.values():
            if statement.id in known:
                continue
            if isinstance(statement, Revocation):
                return True
            if isinstance(statement, Record) and statement.number >= view.token.number:
                return True
        return False

    @staticmethod
    def _under(statement: Statement, token: StatementId) -> bool:
        return isinstance(statement, Checkpoint | Intent | Receipt) and statement.token == token

    @staticmethod
    def _mentions(statement: Statement, effect: EffectId) -> bool:
        if isinstance(statement, Checkpoint):
            return effect in statement.effects or effect in statement.journal
        return isinstance(statement, Intent | Receipt) and statement.effect == effect

    @staticmethod
    def _asked(
        known: dict[StatementId, Statement] | object, head: StatementId | None, effect: EffectId
    ) -> tuple[StatementId | None, StatementId | None]:
        """Where the line that ends at `head` asked for the effect, and where a person last asked anew."""
        assert isinstance(known, dict)
        at, word = head, None
        while at is not None:
            checkpoint = known[at]
            assert isinstance(checkpoint, Checkpoint)
            said = checkpoint.effects.get(effect)
            if said is Progress.RERUN and word is None:
                word = at
            if said is Progress.ASKED:
                return at, word
            at = checkpoint.parents[0] if checkpoint.parents else None
        return None, word

    def acknowledged(self, device: Device, ids: frozenset[StatementId]) -> None:
        """Invariants 2 and 3: what is acknowledged is durable, with the records that it stands on."""
        for id in ids:
            assert id in device.disk.statements, f"{device.name} acknowledges what is not durable"
            assert id not in device.disk.bare, f"{device.name} acknowledges {self.world.name(id)} without its content"
            at: StatementId | None = id
            while at is not None:
                statement = device.disk.statements.get(at)
                assert statement is not None, f"{device.name} acknowledges {self.world.name(id)} without its records"
                at = (
                    statement.prev
                    if isinstance(statement, Record)
                    else statement.token
                    if isinstance(statement, Checkpoint)
                    else None
                )
        self._acknowledged.setdefault(device.id, set()).update(ids)

    def forgot(self, device: Device) -> None:
        """The device lost what was in memory; what it had acknowledged is still on its disk."""
        lost = self._acknowledged.get(device.id, set()) - device.disk.statements.keys()
        assert not lost or device.dead, f"{device.name} lost {self.world.name(lost)}, which it had acknowledged"
        # What was not durable was not acted on, so the number starts from what the disk says.
        self._last_token.pop(device.id, None)

    def told(self, device: DeviceId, peer: DeviceId, ids: Iterable[StatementId]) -> None:
        """A device heard that a peer has these."""
        if any(isinstance(self.statements[id], Checkpoint) for id in ids):
            self._told.setdefault(device, set()).add(peer)

    def let_go(self, device: Device, kept: Mapping[StatementId, Statement]) -> None:
        """Invariant 2: what a device lets go of is what a person removed who knew it; it promises none of it more."""
        stones = [one for one in kept.values() if isinstance(one, Tombstone)]
        assert device.part is not None
        for id, one in device.part.known.statements.items():
            if isinstance(one, Checkpoint):
                covered = any(id in stone.heads or id[:8] in stone.covers for stone in stones)
                assert covered, f"{device.name} lets go of {self.world.name(id)}, which nobody knew who removed it"
        device.let_go = True
        self._gone.setdefault(device.id, set()).update(device.part.known.statements.keys() - kept)
        self._told.pop(device.id, None)
        self._acknowledged.setdefault(device.id, set()).intersection_update(kept)
        self._last_token.pop(device.id, None)

    def restored(self, device: Device, backup: Disk) -> None:
        lost = (device.disk.statements.keys() | self._gone.get(device.id, set())) - backup.statements.keys()
        self.forgotten.update(id for id in lost if self.statements[id].by == device.id)
        acknowledged = self._acknowledged.get(device.id, set())
        acknowledged -= lost
        self._tips[device.id] = backup.tip
        self._told[device.id] = set(backup.acknowledged_by)
        self._last_token.pop(device.id, None)

    # At the end, when all that is alive has talked

    def at_the_end(self) -> None:
        """Invariant 6: one meaning everywhere, every line of work a head, nothing lost that somebody has."""
        devices = [device for device in self.world.list if device.part is not None]
        for device in devices:
            device.disk.sync()
            self.forgot(device)
        first = devices[0]
        assert first.part is not None
        everything = first.part.known.statements.keys()
        for device in devices[1:]:
            assert device.part is not None
            missing = everything ^ device.part.known.statements.keys()
            assert not missing, f"{device.name} and {first.name} differ in {self.world.name(missing)}"
            mine, theirs = self._view(device), self._view(first)
            assert mine == theirs, f"{device.name} and {first.name} read the same statements differently"
        view = self._view(first)
        self._every_line_is_a_head(first, view)
        self._only_what_was_known_is_removed(first, view)
        for device in devices:
            part = device.part
            assert part is not None
            assert not part.fenced or part.leg is None or part.leg.running is None, f"{device.name} runs on, fenced"
            assert not part.fenced or part.leg is None or not part.leg.unsaved, f"{device.name} keeps work in no head"
            if device.role is Role.FULL and view.token is not None:
                assert part.closing() is None, f"{device.name} owes a closing checkpoint"
        self._one_closing()

    def _every_line_is_a_head(self, device: Device, view: View) -> None:
        assert device.part is not None
        known = device.part.known.statements
        reached: set[StatementId] = set()
        stack = list(view.heads)
        while stack:
            id = stack.pop()
            if id not in reached:
                reached.add(id)
                checkpoint = known[id]
                assert isinstance(checkpoint, Checkpoint)
                stack.extend(checkpoint.parents)
        for statement in known.values():
            if isinstance(statement, Checkpoint) and statement.id not in reached:
                if statement.id in view.sealed:
                    assert statement.by in view.revoked, f"{self.world.name(statement.id)} is sealed, its signer is not"
                    continue
                assert statement.id in view.held, f"{self.world.name(statement.id)} is no head and behind none"
                missing = [parent for parent in statement.parents if parent not in known or parent in view.held]
                record = known.get(statement.token)
                assert missing or record is None or record.id in view.held, (
                    f"{self.world.name(statement.id)} is held and nothing is missing"
                )

    def _only_what_was_known_is_removed(self, device: Device, view: View) -> None:
        """Invariant 2: a session is gone only where a person who removed it knew every checkpoint."""
        assert device.part is not None
        if view.removed:
            known = device.part.known.statements.values()
            stones = [s for s in known if isinstance(s, Tombstone)]
            for s in known:
                if isinstance(s, Checkpoint):
                    covered = any(s.id in stone.heads or s.id[:8] in stone.covers for stone in stones)
                    assert covered, f"{self.world.name(s.id)} is gone, and who removed the session did not know it"

    def _one_closing(self) -> None:
        """Of each token there is one closing checkpoint; one that a removal took from all devices is none any more."""
        closed: set[tuple[DeviceId, StatementId]] = set()
        there = {id for device in self.world.list if device.part is not None for id in device.part.known.statements}
        for statement in self.statements.values():
            if isinstance(statement, Checkpoint) and statement.closing and statement.id in there:
                key = (statement.by, statement.token)
                twice = key in closed and not self.world.devices[statement.by].restored
                assert not twice, f"{self.world.name(statement.by)} closes {self.world.name(statement.token)} twice"
                closed.add(key)
                self.world.reached["closing"] += 1

    def one_owner(self, owner: DeviceId) -> None:
        for device in self.world.list:
            if device.part is not None:
                found = self._view(device).owner
                assert found == owner, f"{device.name} says that {self.world.name(found or b'nobody')} owns the session"

    @staticmethod
    def _view(device: Device) -> View:
        assert device.part is not None
        return device.part.known.view
