"""The verbs on sessions that change something: what a person wishes, decides, makes, hands on and removes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from hhd.base import passing
from hhd.base.errors import RefusedError, UsageError
from hhd.node import listing, naming
from hhd.node.control_ground import Ground
from hhd_protocol.ids import SessionId

if TYPE_CHECKING:
    from hhd.node.answers.decided import Decided
    from hhd.node.answers.device import Device
    from hhd.node.answers.made import Forked, Received, Released
    from hhd.node.answers.removal import Removal
    from hhd.node.answers.takeover import Takeable, TakenOver
    from hhd.node.answers.wished import Wished
    from hhd.node.wishes import Wishes


class Changing(Ground):
    """What may be done with the sessions in the store; what is said to have happened is durable."""

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

    # Deciding

    def settle(self, name: str, effect: str | None, *, how: str, output: str = "", shown: str | None = None) -> Decided:
        """Note what a person says of the effect that may have run; `how`: ran (with `output`), did-not-run or again.

        `shown`: the digest of the text of it that they saw, None where their word is by itself.
        """
        from hhd.node.pending import effect_number, how_settled

        return self._pending(name).settle(effect_number(effect), how_settled(how), output, shown=shown)

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

    # From device to device

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

    def take_over(self, shown: Takeable, reason: str) -> TakenOver:
        """Take the session over that the person was `shown`, for a `reason` in their words; its files appear here."""
        from hhd.node import reason as reasons

        words = reasons.judged(reason)
        found = self._session(shown.session)
        return self._taker.take_over(found, shown, words)

    # Removing

    def remove(self, shown: Removal) -> Removal:
        """Remove the session that the person was `shown`; refused if it has changed since."""
        found = self._session(shown.session)
        return self._remover.remove(shown, found.id, lambda: self._lineage(found.id))

    # What the verbs rest on

    @property
    def _wishes(self) -> Wishes:
        from hhd.node.wishes import Wishes

        return Wishes(store=self.store, devices=self._devices)

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


def _hex(id: bytes | None) -> str | None:
    return None if id is None else id.hex()
