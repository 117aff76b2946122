"""The sync of this device: the pure machine joined with the store, without any network.

    engine = Engine(open_store, me)
    out = engine.linked(peer)              # and heard, noticed, ticked …: what there is to send, and what happened
    raw = engine.next_part(peer)           # of content that the peer asked for, None if there is none

Used by one thread. Everything that a peer gave goes through `Intake`; what is sent is read when its turn comes. Content
that came is kept in few transactions; what is acknowledged was durable before.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from hhd.base.errors import UserError
from hhd.identity.key import Identity
from hhd.node.members import note_others
from hhd.node.sync.arrivals import FULL, Arrivals
from hhd.node.sync.freshness import Freshness
from hhd.node.sync.held import Held
from hhd.node.sync.intake import Intake
from hhd.node.sync.keys import KeysTold
from hhd.node.sync.letters import LettersIn
from hhd.node.sync.out import Out
from hhd.node.sync.recipes import Recipes
from hhd.node.sync.serving import Serving
from hhd.node.sync.statements import StatementsIn
from hhd.node.sync.talk import Counted, Talk
from hhd.node.sync.together import Together
from hhd.store.errors import BusyError, DamagedStoreError, FullStoreError
from hhd.store.store import Store
from hhd_protocol.errors import FormatError
from hhd_protocol.ids import CheckpointId, DeviceId, Incarnation, ObjectName, SessionId
from hhd_protocol.limits import SYNC_AGAIN_MS, SYNC_BARE_SESSIONS_MAX, SYNC_IDS_MAX
from hhd_protocol.sync import Sync, decode_message
from hhd_protocol.sync import events as happenings
from hhd_protocol.sync.events import Event, Output
from hhd_protocol.sync.messages import (
    OBJECT,
    Absent,
    AskKeys,
    Bare,
    Begin,
    Had,
    Keys,
    Message,
    Part,
    Rebuild,
    Statements,
    Want,
)
from hhd_protocol.sync.wants import NO_SESSION

log = logging.getLogger(__name__)

NOTED_IN_TURN = 8
"""How often one after the other it is written down what was learnt of some sessions."""
LOOKED_AT_ONCE = 25
"""Sessions: a step that comes meanwhile waits 5 ms for them, however many there are, and once they were looked at 1."""
ROOM_MS = 2_000
"""Between two looks whether a disk that was full has room again; twice as long each time that what came filled it."""


class Screen(Protocol):
    """What is not to go to a device."""

    def left_out(self, store: Store, device: DeviceId, revisions: Mapping[SessionId, bytes]) -> frozenset[SessionId]:
        """Return all such sessions; `revisions`: of all that there are."""

    def leaves_out(self, store: Store, device: DeviceId, session: SessionId) -> bool:
        """Whether it is one."""


class Engine:
    """The sync of the device `me`; `open_store` opens its store, which is held open until `rest`."""

    def __init__(
        self,
        open_store: Callable[[], Store],
        me: Identity,
        *,
        now_ms: Callable[[], int],
        incarnation: Incarnation,
        screen: Screen | None = None,
        session_bytes_max: int | None = None,
    ) -> None:
        self._me, self._screen = me, screen
        self.machine = Sync(incarnation=incarnation)
        self._held, self._talk = Held(open_store, me), Talk(self.machine, now_ms, self._carry)
        self._keys = KeysTold(self._held, self._talk)
        self._serving = Serving(self._held, self._talk, self._keys)
        begun: dict[ObjectName, tuple[bytes, DeviceId]] = {}
        self._statements = StatementsIn(self._held, self._talk, begun)
        self._letters = LettersIn(self._held, self._talk, self._statements)
        self._arrivals = Arrivals(
            self._held, self._talk, begun, self._statements, self._letters, session_bytes_max=session_bytes_max
        )
        self._together = Together(self._held, self._talk, self._statements, self._arrivals, self._wrong)
        self.freshness = Freshness(self.machine, self._held.index)
        self._room_looked_ms, self._room_apart_ms = 0, ROOM_MS

    # What stands behind it

    @property
    def store(self) -> Store:
        """The store, opened if it is not."""
        return self._held.store

    @property
    def intake(self) -> Intake:
        """What takes in what comes."""
        return self._held.intake

    @property
    def recipes(self) -> Recipes:
        """What makes objects again out of their parents."""
        return self._held.recipes

    @property
    def counted(self) -> dict[DeviceId, Counted]:
        """What went over each peer's links since this began."""
        return self._talk.counted

    def coalesce(self, on: bool) -> None:
        """With `on` no content goes along with statements unasked."""
        self._serving.eager = not on

    @property
    def folds_due(self) -> bool:
        """Whether `fold` has something to do, once nothing else has."""
        return bool(self._held.unfolded)

    def fold(self) -> None:
        """Do what was put off while others waited."""
        self._held.fold()

    def rest(self) -> None:
        """Let go of the store: what holds it open all day stops its repair."""
        self._serving.rest()
        if self._held.is_open:
            self.note_freshness()
            self._arrivals.write()
        self._held.rest()

    # What happens

    def open(self) -> Out:
        """Look at all sessions; nothing else may be asked before."""
        index, store = self._held.index, self.store
        note_others(store, self._me)
        bare = index.open(store)
        self.freshness.touched(bare)
        out = self._happens(happenings.Opened(digests=index.digests))
        self._left_out(self._me.id)  # What is found is kept: who links is not kept waiting for it.
        for session in bare:  # What was under way when the process before ended.
            self._statements.took(self.intake.content(session, list(index.seen(store, session).bare)), None)
        self._statements.at_work.update(one for one in store.statements.removed() if self.intake.has_session(one))
        self._arrivals.sweep()
        for session, why in list(self._arrivals.full(self._me.id)):
            out.join(self.hold(why, session))
        return out

    def linked(self, peer: DeviceId, *, sealed: bool = False) -> Out:
        """A link is up, or another one than before; `sealed`: this device or the peer only stores."""
        before = self.lost(peer) if peer in self.machine.peers else Out()
        return before.join(self._linked(peer, sealed=sealed))

    def _linked(self, peer: DeviceId, *, sealed: bool) -> Out:
        self._serving.linked(peer)
        self._arrivals.linked(peer)
        self._talk.of(peer)
        left_out = self._left_out(peer)
        if not sealed:
            return self._happens(happenings.Linked(peer=peer, left_out=left_out))
        self.freshness.piled()
        out = self._happens(happenings.Piled(pile=self._held.sealed.pile(left_out)))
        return out.join(self._happens(happenings.Linked(peer=peer, left_out=left_out, sealed=True)))

    def piled(self) -> Out:
        """Look what a store-only device is to have by now, or has."""
        out = Out()
        self.freshness.piled()
        for one in list(self.machine.peers.values()):
            if one.sealed:
                out.join(self._happens(happenings.Piled(pile=self._held.sealed.pile(one.left_out))))
        return out

    def lost(self, peer: DeviceId) -> Out:
        """The link is gone."""
        self._serving.lost(peer)
        out = self._collected(self._arrivals.flush)
        self.note_freshness()
        self.freshness.lost(peer)
        return out.join(self._happens(happenings.Lost(peer=peer)))

    def heard(self, peer: DeviceId, *raws: bytes) -> Out:
        """Messages came that waited together, on either channel; statements among them are kept together.

        One that the store cannot take in now costs no other one, nor what was to be said to that.
        """
        out = Out()
        try:
            for raw in raws:
                try:
                    out.join(self._heard(peer, raw))
                except BusyError:
                    raise
                except UserError as error:
                    out.trouble = str(error)
            return out.join(self._settled(peer))
        except UserError as error:
            out.trouble = str(error)
            return out
        finally:
            self._together.forget()  # Nothing of this peer is taken for what the next one says.

    def _heard(self, peer: DeviceId, raw: bytes) -> Out:
        if peer not in self.machine.peers:
            return Out()
        self._talk.of(peer).received += len(raw)
        try:
            message = decode_message(raw)
        except FormatError as error:
            return self._settled(peer).join(self._happens(happenings.Broke(peer=peer, why=str(error))))
        if isinstance(message, Absent) and any(self.recipes.was_given(name) for name in message.objects):
            self.recipes.refused.add(peer)
        before = Out() if self._waits(peer, message) else self._settled(peer)
        if peer not in self.machine.peers:
            return before  # What came before this cost the link.
        self.freshness.heard(peer, message)
        return before.join(self._happens(happenings.Heard(peer=peer, message=message)))

    def _waits(self, peer: DeviceId, message: Message) -> bool:
        """Whether a message is taken together with what came before it and comes after it."""
        asked = isinstance(message, Rebuild) and self.machine.wants.asked(message.name) == peer
        return isinstance(message, Statements | Rebuild) and not asked

    def _settled(self, peer: DeviceId) -> Out:
        """What came is taken, before anything else happens."""
        return self._collected(lambda: self._together.settle(peer))

    def noticed(self, session: SessionId) -> Out:
        """Somebody on this device added to a session."""
        self.store.families.reread()
        out = Out()
        if self._compared_again(session, out):
            out.join(self._ask_all_again())
        self._arrivals.sweep()
        return out

    def _compared_again(self, session: SessionId, out: Out) -> bool:
        """Tell peers what is new of a session; say whether that is not known, so that they are to find out."""
        index = self._held.index
        held = index.holds(session)
        self._screen_one(session)
        if held and not index.is_behind(self.store, session):
            return False  # It was told of already.
        with self.store.snapshot():
            fresh = index.news(self.store, session)
            event = self._statements.changed(session, fresh, None, self.store.arrived.revision(session))
        out.join(self._happens(event))
        return not held and event.digest is not None

    def to_look_at(self) -> list[list[SessionId]]:
        """Return all sessions, some together: who looks at them may do something else in between."""
        every = self._held.index.all(self.store)
        return [every[at : at + LOOKED_AT_ONCE] for at in range(0, len(every), LOOKED_AT_ONCE)] or [[]]

    def looked(self, at: Iterable[SessionId] | None = None) -> Out:
        """Look whether others wrote to these sessions without a word, all of them if None, and tell of it."""
        self.store.families.reread()
        out, is_asked = Out(), False
        for session in self._held.index.changed(self.store, self._held.index.all(self.store) if at is None else at):
            is_asked |= self._compared_again(session, out)
        return out.join(self._ask_all_again() if is_asked else self._happens(happenings.Tick()))

    @property
    def at_work(self) -> bool:
        """Whether sessions are kept here that were removed everywhere, since they are, or were, at work."""
        return bool(self._statements.at_work)

    def let_go(self) -> Out:
        """Let go of those of them whose work has ended."""
        out, statements = Out(), self._statements
        for session in list(statements.at_work):
            if self.store.is_advanced(session):
                continue
            taken = self.intake.let_go(session)
            if taken is None or not self.intake.has_session(session):
                statements.at_work.discard(session)
            if taken is not None:
                self._held.index.reread(session)
                out.join(self._happens(statements.changed(session, {}, None, taken.revision, taken)))
                out.changed.add(session)
        return out.join(self._ask_all_again()) if out.changed else out

    def ticked(self) -> Out:
        """Time passed."""
        out = self._collected(self._arrivals.flush)
        self._arrivals.sweep()
        self._look_for_room(out)
        return out.join(self._happens(happenings.Tick()))

    def _look_for_room(self, out: Out) -> None:
        """Take content again where the disk was full, and is not any more."""
        if self.machine.holding.get(None) != FULL:
            self._room_apart_ms = ROOM_MS
            return
        self._room_looked_ms = self._talk.now_ms()
        if self._arrivals.has_room():
            self._room_apart_ms = min(2 * self._room_apart_ms, SYNC_AGAIN_MS)
            out.join(self._happens(happenings.Hold(why="")))

    def woke(self) -> Out:
        """The device slept: all that is known may be old."""
        return self._happens(happenings.Woke())

    def regrouped(self) -> Out:
        """Who is a member changed: what could not be judged before comes in the next round."""
        self.intake.forget()
        return self.rescreened().join(self._ask_all_again())

    def _ask_all_again(self) -> Out:
        for peer in self.machine.peers.values():
            peer.asked_ms = -(10**9)
        return self._happens(happenings.Tick())

    def rescreened(self) -> Out:
        """What peers are to have may be another than before."""
        out = Out()
        for peer, one in list(self.machine.peers.items()):
            left_out = self._left_out(peer)
            self.freshness.touched(one.left_out ^ left_out)
            out.join(self._happens(happenings.Allowed(peer=peer, left_out=left_out)))
        return out

    def _left_out(self, peer: DeviceId) -> frozenset[SessionId]:
        if self._screen is None:
            return frozenset()
        return self._screen.left_out(self.store, peer, self._held.index.revisions)

    def _screen_one(self, session: SessionId) -> None:
        """Before a session goes to a peer the first time, and until all of that went, look whether it may."""
        for peer, one in self.machine.peers.items():
            if self._screen is not None and self._screen.leaves_out(self.store, peer, session):
                one.left_out |= {session}

    def note_freshness(self, *, times: int = NOTED_IN_TURN) -> None:
        """Write down for lists what was learnt of other devices, so many times of some sessions."""
        for _ in range(times):
            if self.freshness.waits:
                with self._held.putting_off(0):  # In the middle of a first sync it is not this that folds the log.
                    self.freshness.keep(self.store)

    def hold(self, why: str, session: SessionId | None = None) -> Out:
        """Take no content now, of `session` or of any; empty: again."""
        return self._happens(happenings.Hold(why=why, session=session))

    def deadline_ms(self) -> int | None:
        """When to say `ticked`."""
        due = self.machine.deadline()
        if self.machine.holding.get(None) != FULL:
            return due
        room = self._room_looked_ms + self._room_apart_ms
        return room if due is None else min(due, room)

    def next_part(self, peer: DeviceId) -> bytes | None:
        """Return the next part of what a peer asked for; None if there is nothing."""
        return self._serving.next_part(peer)

    # Questions

    def fresh(self, session: SessionId, device: DeviceId) -> bool:
        """Whether all that is here of a session is durable on `device`, as it said."""
        return session in self.machine.digests and self.machine.is_level(device, session)

    def acknowledged(self, session: SessionId) -> dict[DeviceId, CheckpointId]:
        """Return by peer the newest checkpoint of a session that it has with its content, as far as it said."""
        found = {peer: known[session] for peer, known in self._keys.known.items() if session in known}
        level = [peer for peer in self.machine.peers if self.fresh(session, peer)]
        main = self.intake.view(session).main if level else None
        if main is not None:
            found.update(dict.fromkeys(level, CheckpointId(main)))
        return found

    # Carrying out

    def _happens(self, event: Event) -> Out:
        """Give the machine an event, do what it says, and return what is left to do for who has the network."""
        return self._collected(lambda: self._talk.feed(event))

    def _collected(self, act: Callable[[], None]) -> Out:
        try:
            out = self._talk.collected(act)
        finally:
            self._held.trim()
        self.freshness.touched(out.changed)
        return out

    def _carry(self, output: Output) -> None:
        """Do what the machine says."""
        talk = self._talk
        match output:
            case happenings.Load(session=session):
                seen = self._held.index.seen(self.store, session)
                talk.feed(happenings.Loaded(session=session, after=seen.after, lacking=seen.heads_lacking))
            case happenings.Send(peer=peer, message=message):
                talk.send(peer, message)
                for name in message.objects if isinstance(message, Want) else ():
                    if here := self._arrivals.begun.begun(name):  # A cut came in the middle of it.
                        talk.send(peer, Begin(what=OBJECT, name=name, offset=here))
            case happenings.SendBare(peer=peer):
                self._say_bare(peer)
            case happenings.SendStatements():
                self._serving.statements(output)
            case happenings.SendContent():
                self._serving.content(output)
            case happenings.Take(peer=peer, message=message):
                self._take(peer, message)
            case happenings.Lacking():
                self._letters.lacking(output)
            case happenings.Answering(peer=peer):
                talk.out.answered.add(peer)
            case happenings.Acknowledged():
                self._keys.acknowledged(output)
                self.freshness.acknowledged(output)
            case happenings.Cut(peer=peer, why=why):
                log.warning("sync: the link to device %s ends: %s", peer.hex()[:16], why)
                self._serving.lost(peer)
                talk.out.cuts.append((peer, why))

    def _say_bare(self, peer: DeviceId) -> None:
        """Say which content is not here: a comparison names heads alone, and they may have come first."""
        index, left_out = self._held.index, self.machine.peers[peer].left_out
        bare = sorted(index.bare - left_out)
        is_all = len(bare) <= SYNC_BARE_SESSIONS_MAX
        for session in bare[:SYNC_BARE_SESSIONS_MAX]:
            try:
                lacking = tuple(index.without_content(self.store, session))[:SYNC_IDS_MAX]
            except DamagedStoreError:  # `hhd check` names it; all others are compared.
                is_all = False
                continue
            if lacking:
                self._talk.send(peer, Bare(session=session, checkpoints=lacking))
        if not is_all:
            self._talk.send(peer, Bare(session=NO_SESSION, checkpoints=()))

    def _take(self, peer: DeviceId, message: Message) -> None:
        """Take in what the machine let through."""
        try:
            match message:
                case Keys():
                    self.intake.keys(peer, message)
                    self._statements.keys_came(message.session)
                case AskKeys(session=session):
                    if peer in self.machine.peers and session not in self.machine.peers[peer].left_out:
                        self._keys.tell_keys(peer, session, again=True)
                case Statements():
                    self._together.add(message)
                case Part():
                    self._arrivals.take(peer, message)
                case Rebuild(name=name):
                    if self.machine.wants.asked(name) == peer:
                        self._arrivals.take_recipe(peer, message)
                    else:
                        self._together.add(message)
                case Begin():
                    self._serving.go_on_with(peer, message)
                case Had():
                    self._keys.had(message)
                case _:
                    self._talk.feed(happenings.Broke(peer=peer, why="it says what has no place in sync"))
        except (FullStoreError, FormatError) as error:
            self._wrong(peer, error)

    def _wrong(self, peer: DeviceId, error: UserError | FormatError) -> None:
        """What a peer gave was not taken: it breaks the rules, or the store cannot keep it now."""
        match error:
            case FormatError():
                self._talk.feed(happenings.Broke(peer=peer, why=str(error)))
            case FullStoreError():
                log.warning("sync: nothing more is taken: %s", error)
                self._arrivals.drop()
                self._talk.feed(happenings.Hold(why=FULL))
            case _:
                self._talk.out.trouble = str(error)
