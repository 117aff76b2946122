"""Where a session runs, who of the other members may be at it, and what is known here of one that is out of reach."""

from __future__ import annotations

from dataclasses import dataclass

from hhd.base.errors import RefusedError, UserError
from hhd.node import findings, naming, sessions
from hhd.node.control import ControlService
from hhd.node.group import Membership
from hhd.node.handoff.steps import devices_of
from hhd.node.members import members
from hhd.node.relay import listing as relay_listing
from hhd.node.relay.ports import Home
from hhd.node.store_access import StoreAccess
from hhd.node.sync.wishes import TABLE as WISHES
from hhd.node.sync.wishes import Wishes
from hhd.store.errors import MissingError
from hhd.store.store import Store
from hhd_protocol import relay
from hhd_protocol.crypto import device_text
from hhd_protocol.ids import DeviceId, SessionId
from hhd_protocol.statements import Role

KEPT_MAX = 1000
"""Of sessions that somebody elsewhere asked for: whether they are held back."""

_MAY = (Role.FULL, Role.CONTROLLER)


@dataclass(frozen=True, kw_only=True)
class Standing:
    """How a peer stands to a session: `why` as in `relay.md`, "" where it may be at it; `name`: what it is called;
    `word`: what a person can type for it.
    """

    why: str
    name: str
    approves: bool = False
    word: str = ""


class Homes:
    """Each question is one look at the store, as it is then: what a person took back counts at once."""

    def __init__(self, store: StoreAccess, me: DeviceId) -> None:
        self._store, self.me = store, me
        self._kept: dict[tuple[DeviceId, SessionId], tuple[object, bool]] = {}

    async def meant(self, name: str) -> Home:
        """Where the session that `name` means runs; raises UsageError, RefusedError."""
        return await self._store.look(lambda control: self._home(control, naming.session(control.store, name).id))

    async def of(self, session: SessionId) -> Home:
        """Where a session runs; raises RefusedError where there is none any more."""

        def look(control: ControlService) -> Home:
            try:
                control.store.session(session)
            except MissingError:
                raise RefusedError(f"Session {session.hex()[:12]} is not on this device any more.") from None
            return self._home(control, session)

        return await self._store.look(look)

    def _home(self, control: ControlService, session: SessionId) -> Home:
        owner = sessions.view(control.store, control.me, session).owner or self.me
        return Home(session=session, device=owner, name=_named(control, owner), here=owner == self.me)

    async def called(self, device: DeviceId) -> str:
        """What a device is called."""
        return await self._store.look(lambda control: _named(control, device))

    async def standing(self, peer: DeviceId, session: SessionId, *, owner: bool = True) -> Standing:
        """How `peer` stands to a session; `owner`: also whether it runs here."""

        def look(control: ControlService) -> Standing:
            name = _named(control, peer)
            if not self._may(control, peer, session):
                return Standing(why="unknown", name=name)
            if owner and not self._home(control, session).here:
                return Standing(why="elsewhere", name=name)
            return Standing(
                why="",
                name=name,
                approves=Membership(control.store, control.me).may_approve(peer),
                word=devices_of(control.store, control.me).word(peer),
            )

        return await self._store.look(look)

    def _may(self, control: ControlService, peer: DeviceId, session: SessionId) -> bool:
        member = members(control.store, control.me).get(peer)
        if member is None or member.now not in _MAY:
            return False
        try:
            control.store.session(session)
        except MissingError:
            return False
        return not self._held_back(control.store, peer, session)

    def _held_back(self, store: Store, peer: DeviceId, session: SessionId) -> bool:
        """Whether a session is not to be shown to `peer`; found anew once something is otherwise that it follows from.

        The store is opened anew for each look, and what reads its shared document cannot be kept beyond that.
        """
        words, count = store.rows.get(WISHES, b"", peer), findings.count(store, session)
        follows_from = (store.shared.mark(), words, count, peer in store.arrived.knowing(session))
        kept = self._kept.get((peer, session))
        if kept is None or kept[0] != follows_from:
            if len(self._kept) >= KEPT_MAX:
                self._kept.clear()
            kept = follows_from, Wishes(self.me).leaves_out(store, peer, session)
            self._kept[peer, session] = kept
        return kept[1]

    async def rows(self, peer: DeviceId, at_work: frozenset[SessionId]) -> relay.Rows | None:
        """Return what lists have of the sessions that `peer` may be at, None where it may be at none whatever."""

        def look(control: ControlService) -> relay.Rows | None:
            member = members(control.store, control.me).get(peer)
            if member is None or member.now not in _MAY:
                return None
            return relay_listing.rows_for(control, peer, at_work)

        return await self._store.list(look)

    async def find(self, peer: DeviceId, name: str) -> SessionId | None:
        """Return the session that runs here and that `name` means, None where there is none that `peer` may be at."""

        def look(control: ControlService) -> SessionId | None:
            try:
                session = naming.session(control.store, name).id
            except UserError:  # Which of several it means would be told of sessions that it may not know of.
                return None
            here = self._may(control, peer, session) and self._home(control, session).here
            return session if here else None

        return await self._store.look(look)

    async def out_of_reach(self, home: Home) -> RefusedError:
        """Return what is said of a session whose home has no link to this device: what is known, and the way on."""

        def look(control: ControlService) -> str:
            try:
                found = control.takeable(home.session.hex())
            except UserError:
                return "Nothing of it is here that could be gone on with."
            return (
                f"The last checkpoint of it here is {span(found.age_ms)} old. To go on with that here, without what "
                f"{home.name} did since: hhd takeover {home.shown} --reason TEXT"
            )

        try:
            known = await self._store.look(look)
        except (UserError, OSError):
            known = ""
        said = f"Session {home.shown} is {home.name}'s to run, which is not connected now; nothing was changed."
        return RefusedError(f"{said} {known}".rstrip())


def span(milliseconds: int) -> str:
    """A length of time in words, as coarse as a person wants it."""
    seconds = max(0, milliseconds) // 1000
    for size, word in ((86_400, "day"), (3_600, "hour"), (60, "minute")):
        if seconds >= size:
            count = seconds // size
            return f"{count} {word}{'' if count == 1 else 's'}"
    return f"{seconds} second{'' if seconds == 1 else 's'}"


def _named(control: ControlService, device: DeviceId) -> str:
    return devices_of(control.store, control.me).named(device) or device_text(device)[:19]
