"""What may be asked of sessions, one method a verb: the same whoever asks, a terminal here or a socket.

Arguments and answers are plain values (`hhd.node.answers`); what is told as it comes is an iterator. What cannot be
done is a UserError. Who asks names sessions, heads, checkpoints and devices as `hhd.node.naming` says.

What only one verb needs is imported by that verb: a terminal asks for one and ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from hhd.base import passing
from hhd.base.errors import RefusedError, UsageError
from hhd.identity.key import Identity
from hhd.node import listing, naming, registry, transcripts
from hhd.node.devices import Devices
from hhd.node.listing import Listed
from hhd.node.members import members
from hhd.store.store import Store
from hhd_protocol.bodies import CheckpointBody
from hhd_protocol.ids import CheckpointId, SessionId

if TYPE_CHECKING:
    from hhd.node.answers.decided import Asked, Decided, Uncertain
    from hhd.node.answers.device import Device
    from hhd.node.answers.difference import Difference
    from hhd.node.answers.heads import Heads
    from hhd.node.answers.logged import Logged
    from hhd.node.answers.made import Exported, Forked, Received, Released
    from hhd.node.answers.removal import Removal
    from hhd.node.answers.shown import Shown
    from hhd.node.answers.takeover import Takeable, TakenOver
    from hhd.node.answers.transferred import Transferred
    from hhd.node.answers.wished import Wished
    from hhd.node.heads import HeadsOf
    from hhd.node.lineages import Lineage
    from hhd.node.logbook import Logbook, Position
    from hhd.node.pending import Pending
    from hhd.node.removal import Remover
    from hhd.node.taking_over import Taker
    from hhd.node.wishes import Wishes


@dataclass(frozen=True, kw_only=True)
class ControlService:
    """The verbs on the sessions in `store`, asked of this device, `me`."""

    store: Store
    me: Identity

    # Looking

    def show(self, name: str, *, head: str | None = None) -> Shown:
        """Return where a session stands, at its main head or at `head`."""
        from hhd.node import findings
        from hhd.node.answers.shown import Shown
        from hhd.node.handoff import notes as handoff_notes

        found = self._session(name)
        handed, notes = handoff_notes.last(self.store, found.id)
        at = self._head(found, head)
        token = None
        if at is not None and (signed := self.store.checkpoint(at).signed()) is not None:
            token = getattr(signed.body, "token", None)
        return Shown(
            session=found.id.hex(),
            title=found.title,
            program=found.program,
            state=found.state.value,
            waiting=found.waiting,
            owner=self._devices.shown(found.owner),
            token=found.token if token is None or head is None else None,
            head=None if at is None else at.hex(),
            heads=found.heads_shown,
            archived=found.archived,
            at_ms=found.at_ms,
            turns=found.turns,
            folder=found.folder,
            suspects=findings.count(self.store, found.id),
            handed=None if handed is None else self._devices.shown(handed),
            notes=notes,
        )

    def transcript(self, name: str, *, head: str | None = None, start: int = 0) -> Iterator[bytes]:
        """Yield what a session said, in parts, from byte `start` on; raises ThinnedError where that is gone."""
        found = self._session(name)
        at = self._head(found, head)
        if at is not None:
            yield from transcripts.parts(self.store, self.store.checkpoint(at), start)

    def transcript_bytes(self, name: str) -> int:
        """Return how many bytes a session has said; raises ThinnedError where that is gone."""
        at = self._head(self._session(name), None)
        return 0 if at is None else transcripts.size(self.store, self.store.checkpoint(at))

    def log(self, name: str, *, since: str | None = None, newest: int | None = None) -> list[Logged]:
        """Return every statement of a session that came after the position `since`; the last `newest` of them."""
        return self._logged(self._logbook(self._session(name).id), since, newest)[0]

    def follow(
        self, name: str, *, since: str | None = None, newest: int | None = None, wait: Callable[[], bool]
    ) -> Iterator[Logged]:
        """Yield the same, and then what comes, until `wait`, which waits a moment, returns False."""
        book = self._logbook(self._session(name).id)
        told, position = self._logged(book, since, newest)
        yield from told
        yield from book.follow(position, wait)

    def _logged(self, book: Logbook, since: str | None, newest: int | None) -> tuple[list[Logged], Position]:
        from hhd.node.logbook import Position

        if since is None and newest is not None:
            return book.newest(newest)
        told, position = book.since(Position() if since is None else Position.parse(since))
        return told if newest is None else told[max(0, len(told) - newest) :], position

    def heads(self, name: str, *, with_archived: bool = False) -> Heads:
        """Return the heads of a session; those that are archived only `with_archived`."""
        found = self._session(name)
        of = self._heads_of(found)
        from hhd.node.answers.heads import Heads

        shown = of.all() if with_archived else of.listed()
        return Heads(
            session=found.id.hex(),
            title=found.title,
            heads=shown,
            removed=bool(of.lineage.view.beyond_removal),
            left_out=len(of.lineage.tips) - len(shown),
        )

    def diff(self, name: str, one: str | None = None, other: str | None = None) -> Difference:
        """Return what two heads did apart; those two of a session that has two, if none is named."""
        found = self._session(name)
        if one is not None and other is not None:
            ids = self.store.checkpoint_ids(found.id)
            names = self._head_names(found)
            pair = [naming.checkpoint_of(ids, each, names) for each in (one, other)]
        else:
            heads = self._two_heads(found) or self._lineage(found.id).heads
            if one is not None:
                pair = [*(head for head in heads[:1]), naming.head(heads, one, self._head_names(found))]
            elif len(heads) == 2:
                pair = heads
            else:
                raise self._not_two(found, len(heads))
        if pair[0] == pair[1]:
            raise UsageError("These are one head, and not two; name another.")
        from hhd.node.difference import Comparison

        return Comparison(store=self.store, listed=found, devices=self._devices).of(pair[0], pair[1])

    # Wishing

    def rename(self, name: str, title: str | None, *, head: str | None = None) -> Wished:
        """Give a session a title, or its `head` a name; None: take it away (then its first words are its title)."""
        found = self._session(name)
        if head is None:
            return self._wishes.rename(found.id, title)
        of = self._heads_of(found)
        tip = naming.head([tip.id for tip in of.lineage.tips], head, of.names())
        if title is None:  # The name may be of an older checkpoint on its line.
            tip = of.named_at(tip)
        return self._wishes.name_head(found.id, tip, title)

    def archive(self, name: str, *, undo: bool = False, head: str | None = None) -> Wished:
        """Hide a session from lists, or its `head` from the list of its heads; `undo`: show it again."""
        found = self._session(name)
        if head is None:
            return self._wishes.archive(found.id, not undo)
        of = self._heads_of(found)
        tip = naming.head([tip.id for tip in of.lineage.tips], head, of.names())
        if tip == of.lineage.view.main and not undo:
            shown = found.id.hex()[: naming.ID_SHOWN]
            raise RefusedError(f"Session {shown} goes on from this head, so it is always listed; archive the session.")
        return self._wishes.archive_head(found.id, tip, not undo)

    def pick(self, name: str, head: str | None) -> Wished:
        """Say which head of a session is preferred, None: none of them. It moves nothing."""
        found = self._session(name)
        chosen = None
        if head is not None:
            of = self._heads_of(found)
            chosen = naming.head(of.lineage.heads, head, of.names())
        wished = self._wishes.pick(found.id, chosen)
        return replace(wished, before=None if found.picked is None else found.picked.hex(), after=_hex(chosen))

    # Making another

    def fork(self, name: str, *, at: str | None = None) -> Forked:
        """Make a session of the same family that begins at the checkpoint `at`, or at the main head."""
        found = self._session(name)
        checkpoint = self._head(found, at)
        if checkpoint is None:
            raise RefusedError(f"Session {found.id.hex()[: naming.ID_SHOWN]} has no checkpoint to begin from yet.")
        from hhd.node import sessions

        made = sessions.create_fork(self.store, self.me, found.id, checkpoint)
        return self._forked(made, origin=found.id, checkpoint=checkpoint)

    def insist_on_release(self, name: str, to: str) -> None:
        """Raise RefusedError where `release` would refuse whatever state the session is in: before that is paused."""
        from hhd.node import release_file

        release_file.insist(self.store, self.me, self._session(name).id, naming.device(self._devices.all(), to))

    def release(self, name: str, to: str) -> Released:
        """Release a session to the device `to`, for a file; the same again returns the same release, while it is open.

        Durable when this returns; what is not paused is refused.
        """
        from hhd.node import release_file
        from hhd.node.answers.made import Released

        found = self._session(name)
        target = naming.device(self._devices.all(), to)
        grant, fresh = release_file.release_to(self.store, self.me, found.id, target)
        return Released(
            session=found.id.hex(),
            title=found.title,
            to=self._devices.shown(target),
            fresh=fresh,
            parts=release_file.parts(self.store, self.me, grant),
        )

    def receive(self, raw: bytes, path: Path) -> Received:
        """Take the session that the release file `raw`, which lies at `path`, hands to this device; its files appear.

        Once: raises RefusedError where it was taken, is for another device, or is beaten by another record.
        """
        from hhd.node import release_file
        from hhd.node.answers.made import Received
        from hhd.node.handoff import steps as handoff_steps

        bundle, by = release_file.opened(raw, path, self.me)
        grant = release_file.receive(self.store, self.me, bundle, by, path)
        handoff_steps.settle(self.store, self.me, grant.session)
        folder, instead, notes = release_file.arrived(self.store, self.me, grant)
        listed = listing.get(self.store, grant.session) or listing.described(self.store, grant.session)
        return Received(
            session=grant.session.hex(),
            title=listed.title,
            by=self._devices.shown(grant.by),
            state=listed.state.value,
            folder=folder,
            instead=instead,
            notes=notes,
        )

    def export(
        self,
        name: str,
        *,
        head: str | None = None,
        to: str | None = None,
        passphrase: bytes | None = None,
        embed: bool = True,
    ) -> Exported:
        """Return a session as a capsule file, in parts; sealed to the device `to`, or with `passphrase`."""
        if to is not None and passphrase is not None:
            raise UsageError("A capsule is sealed to a device or with a passphrase, not both.")
        found = self._session(name)
        checkpoint = self._head(found, head)
        if checkpoint is None:
            raise RefusedError(f"Session {found.id.hex()[: naming.ID_SHOWN]} has no checkpoint to export yet.")
        from hhd.node import exporting
        from hhd.node.answers.made import Exported
        from hhd.node.exporting import Seal

        seal, target = None, None
        if to is not None:
            target = naming.device(self._devices.all(), to)
            seal = Seal(to_public=self._devices.members[target].public)
        elif passphrase is not None:
            seal = Seal(passphrase=passphrase)
        return Exported(
            session=found.id.hex(),
            title=found.title,
            checkpoint=checkpoint.hex(),
            to=None if target is None else self._devices.shown(target),
            sealed=seal is not None,
            parts=exporting.exported(self.store, self.me, found.id, checkpoint, seal, embed=embed),
        )

    def import_capsule(
        self, raw: bytes, path: Path, *, passphrase: bytes | None = None, module: bytes | None = None
    ) -> Forked:
        """Make a session of the capsule file `raw`, which lies at `path`; the same one again finds that session."""
        from hhd.node import capsule_file, importing, sealed_file
        from hhd.node.own import Register
        from hhd_protocol import capsule

        by, own = None, Register().find(bytes(raw[32:64])) is not None
        content: bytes | memoryview = raw
        if capsule.is_sealed(raw):
            opened = sealed_file.opened(raw, path, passphrase=passphrase)
            content, by, own = opened.content, self._devices.shown(opened.by), opened.by == self.me.id
        elif passphrase is not None:
            raise UsageError(f"{path} is not sealed; leave --passphrase-fd out.")
        value = capsule_file.decode(content, path)
        passing.begin("storing", len(raw))  # About so much: it is compressed there as it is here.
        made, fresh = importing.imported(self.store, self.me, value, own=own, module=module)
        said = value.origin
        return self._forked(
            made,
            origin=None if said is None else said.session,
            checkpoint=None if said is None else said.checkpoint,
            fresh=fresh,
            by=by,
        )

    # Deciding

    def uncertain(self, name: str, effect: str | None = None) -> Uncertain:
        """Return the effect that may have run, to be shown before a person settles it."""
        from hhd.node.pending import effect_number

        return self._pending(name).told(effect_number(effect))

    def settle(self, name: str, effect: str | None, *, how: str, output: str = "", shown: str | None = None) -> Decided:
        """Note what a person says of the effect that may have run; `how`: ran (with `output`), did-not-run or again.

        `shown`: the digest of the text of it that they saw, None where their word is by itself.
        """
        from hhd.node.pending import effect_number, how_settled

        return self._pending(name).settle(effect_number(effect), how_settled(how), output, shown=shown)

    def asked(self, name: str, effect: str | None = None, *, folder: Path | None = None) -> Asked:
        """Return what a person would be asked before the effect that waits is run in `folder`."""
        from hhd.node.pending import effect_number

        return self._pending(name).asked(effect_number(effect), folder)

    def decide(
        self,
        name: str,
        effect: str | None = None,
        *,
        shown: str,
        agreed: bool,
        message: str = "",
        folder: Path | None = None,
    ) -> Decided:
        """Note a person's answer to what they were `shown`."""
        from hhd.node.pending import effect_number

        return self._pending(name).decide(effect_number(effect), folder, shown=shown, agreed=agreed, message=message)

    # Removing

    def removal(self, name: str, *, everywhere: bool = False) -> Removal:
        """Say what removing a session would destroy: to be shown to the person, and given to `remove`."""
        found = self._session(name)
        return self._remover.would(found, self._lineage(found.id), everywhere=everywhere)

    def remove(self, shown: Removal) -> Removal:
        """Remove the session that the person was `shown`; refused if it has changed since."""
        found = self._session(shown.session)
        return self._remover.remove(shown, found.id, lambda: self._lineage(found.id))

    # From device to device

    def takeable(self, name: str, *, head: str | None = None) -> Takeable:
        """Say what taking a session over would mean: to be shown to the person, and given to `take_over`."""
        found = self._session(name)
        return self._taker.would(found, None if head is None else self._head(found, head))

    def take_over(self, shown: Takeable, reason: str) -> TakenOver:
        """Take the session over that the person was `shown`, for a `reason` in their words; its files appear here."""
        from hhd.node import reason as reasons

        words = reasons.judged(reason)
        found = self._session(shown.session)
        return self._taker.take_over(found, shown, words)

    def transfers(self) -> list[Transferred]:
        """Return every handoff that this device has or had a part in, newest first."""
        from hhd.node import transferred

        return transferred.listed(self.store, self._devices)

    # How names are meant

    def _session(self, name: str) -> Listed:
        try:
            found = naming.session(self.store, name)
        except RefusedError as error:
            from hhd.node import no_sessions

            error.args = (f"{error} {no_sessions.why(self.store, self.me)}".rstrip(),)
            raise
        return listing.now(found, self.store)

    def _head(self, found: Listed, name: str | None) -> CheckpointId | None:
        """The head that `name` means, the main one without; None for a session that has no checkpoint yet."""
        if name is not None:
            return naming.checkpoint(self.store, found.id, name, self._head_names(found))
        if found.heads == 1:  # Then it is the last checkpoint that came, since parents come first.
            return next(reversed(self.store.checkpoint_ids(found.id)), None)
        lineage = self._lineage(found.id)
        if lineage.view.main is not None:
            return CheckpointId(lineage.view.main)
        if lineage.heads:
            raise RefusedError(
                f"Session {found.id.hex()[: naming.ID_SHOWN]} has {len(lineage.heads)} heads and none of them leads; "
                "name one (hhd heads lists them)."
            )
        return None

    def _heads_of(self, found: Listed) -> HeadsOf:
        from hhd.node import head_facts
        from hhd.node.heads import HeadsOf

        return HeadsOf(
            store=self.store,
            lineage=self._lineage(found.id),
            devices=self._devices,
            facts=head_facts.of(self.store, found.id),
            picked=found.picked,
        )

    def _head_names(self, found: Listed) -> naming.Names:
        """What the heads of a session are called; where none has a name, its lineage is not read."""
        from hhd.node import head_facts

        return self._heads_of(found).names() if head_facts.of(self.store, found.id).named else {}

    def _two_heads(self, found: Listed) -> list[CheckpointId]:
        """The two heads of a session that clearly has two, the one under the higher token first; else none.

        Two ends of members' work are two heads; which of them is the owner's, the whole lineage would say more slowly.
        """
        from hhd.node.ends import ends

        tips = ends(self.store, found.id)
        if found.heads != 2 or len(tips) != 2:
            return []
        numbered = []
        for tip in tips:
            signed = self.store.statements.get(found.id, tip)
            body = None if signed is None else signed.body
            if not isinstance(body, CheckpointBody) or body.by not in self._devices.members:
                return []
            record = self.store.statements.get(found.id, body.token)
            numbered.append((0 if record is None else getattr(record.body, "number", 1), tip))
        return [tip for _, tip in sorted(numbered, reverse=True)]

    def _not_two(self, found: Listed, count: int) -> Exception:
        shown = found.id.hex()[: naming.ID_SHOWN]
        if count < 2:
            return RefusedError(f"Session {shown} has one head only, so there is nothing to compare.")
        return UsageError(f"Session {shown} has {count} heads; name two of them (hhd heads {shown} lists them).")

    # What the verbs rest on

    @cached_property
    def _devices(self) -> Devices:
        names, _ = registry.device_names(self.store.shared)
        return Devices(me=self.me.id, members=members(self.store, self.me), names=names)

    def _pending(self, name: str) -> Pending:
        from hhd.node.pending import Pending

        return Pending(store=self.store, me=self.me, session=self._session(name).id)

    @property
    def _remover(self) -> Remover:
        from hhd.node.removal import Remover

        return Remover(store=self.store, me=self.me)

    @property
    def _taker(self) -> Taker:
        from hhd.node.taking_over import Taker

        return Taker(store=self.store, me=self.me, devices=self._devices)

    def _forked(
        self,
        made: SessionId,
        *,
        origin: bytes | None,
        checkpoint: bytes | None,
        fresh: bool = True,
        by: Device | None = None,
    ) -> Forked:
        from hhd.node import here
        from hhd.node.answers.made import Forked

        listed = listing.get(self.store, made) or listing.described(self.store, made)
        noted = here.noted(self.store, made)
        return Forked(
            session=made.hex(),
            title=listed.title,
            state=listed.state.value,
            origin=_hex(origin),
            checkpoint=_hex(checkpoint),
            fresh=fresh,
            by=by,
            folder="" if noted is None or noted.folder is None else str(noted.folder),
        )

    @property
    def _wishes(self) -> Wishes:
        from hhd.node.wishes import Wishes

        return Wishes(store=self.store, devices=self._devices)

    def _lineage(self, session: SessionId) -> Lineage:
        from hhd.node.lineages import lineage_of

        return lineage_of(self.store, session, members(self.store, self.me))

    def _logbook(self, session: SessionId) -> Logbook:
        from hhd.node.logbook import Logbook

        return Logbook(store=self.store, session=session, read=lambda: self._lineage(session), devices=self._devices)


def _hex(id: bytes | None) -> str | None:
    return None if id is None else id.hex()
