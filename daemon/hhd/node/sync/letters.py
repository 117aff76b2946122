"""Sealed bytes that come over a link of which one end only stores: kept as they are there, opened at any other."""

from __future__ import annotations

import hashlib
import logging
from functools import partial

from hhd.node.sync.held import Held
from hhd.node.sync.intake import NoKeys, Taken
from hhd.node.sync.statements import STASHED_MAX, Fresh, StatementsIn
from hhd.node.sync.talk import Talk
from hhd_protocol.errors import FormatError
from hhd_protocol.ids import DeviceId, ObjectName, SessionId, Sha256
from hhd_protocol.sync.events import Arrived, Lacking, Missing, Piled
from hhd_protocol.sync.messages import LETTER, MODULE
from hhd_protocol.sync.wants import NO_SESSION

log = logging.getLogger(__name__)


class LettersIn:
    """Takes sealed bytes into `held`, and what letters say through `statements`."""

    def __init__(self, held: Held, talk: Talk, statements: StatementsIn) -> None:
        self._held, self._talk, self._statements = held, talk, statements
        self._waiting: dict[bytes, bytes] = {}
        """Letters that came before one that they stand on."""

    def lacking(self, output: Lacking) -> None:
        """Ask for what a peer of this kind has and is to be here."""
        wanted, only_stores = self._held.sealed.wanted(output.names), self._held.only_stores
        objects = tuple(map(ObjectName, wanted)) if only_stores else ()
        letters = () if only_stores else tuple(map(Sha256, wanted))
        self._talk.feed(Missing(session=NO_SESSION, objects=objects, modules=letters, source=output.peer))

    def take(self, peer: DeviceId, what: int, name: bytes, raw: bytes) -> None:
        """Sealed bytes came; raises FormatError."""
        owned: dict[SessionId, list[Fresh]] = {}
        try:
            taken, again = self._taken(what, name, raw, owned)
        except BaseException:
            self._statements.not_told(owned)
            raise
        self._talk.feed(Arrived(name=name, source=peer))
        for one in taken:
            self._statements.took(one, peer, owned.pop(one.session, []))
        self._statements.not_told(owned)
        if again:
            self._talk.feed(Piled(pile=self._held.sealed.pile(self._talk.machine.peers[peer].left_out)))

    def _taken(
        self, what: int, name: bytes, raw: bytes, owned: dict[SessionId, list[Fresh]]
    ) -> tuple[list[Taken], bool]:
        """Keep them in one transaction; what of it is to be told, and whether all letters are to be read once more.

        `owned`: takes what others on this device had added to the sessions.
        """
        store, only_stores = self._held.store, self._held.only_stores
        taken: list[Taken] = []
        again = False
        with store.transaction():
            store.insist_on_room(len(raw))
            if only_stores:
                self._held.sealed.keep(what, name, raw)
            elif hashlib.sha256(raw).digest() != name:
                raise FormatError("sealed bytes are not those of their name")
            elif what == MODULE and name in self._statements.modules:
                module, session, epoch = self._statements.modules[name]
                self._held.content.take_module(module, store.session(session).family, epoch, raw)
                bare = list(self._held.index.seen(store, session).bare)
                taken = [self._held.intake.content(session, bare, partial(self._catch_up, session, owned))]
            elif what == LETTER:
                taken, again = self._read(name, raw, owned)
                if again:
                    store.piles.forget_read()
        return taken, again

    def _catch_up(self, session: SessionId, owned: dict[SessionId, list[Fresh]]) -> None:
        if session not in owned:  # What came in this transaction is nobody else's.
            self._statements.catch_up(session, owned.setdefault(session, []))

    def settle(self, peer: DeviceId) -> None:
        """Say what is here now, once a peer gave all that it was asked for."""
        if self._held.only_stores and not self._talk.machine.wants.waits_for(peer):
            self._talk.feed(Piled(pile=self._held.sealed.pile(())))

    def _read(self, name: bytes, raw: bytes, owned: dict[SessionId, list[Fresh]]) -> tuple[list[Taken], bool]:
        """Take in what a letter says, and others that waited for it; and whether all are to be read once more.

        They are where one shows that a removed session is alive, since those before it were read and not kept.
        Who keeps a letter cannot know what is in it, so nothing in it costs the link.
        """
        held = self._held
        found: list[Taken] = []
        waiting = {name: raw, **self._waiting}
        self._waiting = {}
        grew, again = True, False
        while grew:
            grew = False
            for one, content in list(waiting.items()):
                try:
                    letter = held.sealed.read(content)
                    with held.store.part():
                        taken = None
                        if letter is not None and letter.by != held.me.id:
                            taken = held.intake.letter(letter, partial(self._catch_up, letter.session, owned))
                except (FormatError, NoKeys) as error:
                    log.warning("sync: a letter is not read: %s", error)
                    letter = taken = None
                again = again or (taken is not None and taken.outlived)
                if taken is not None and not held.intake.has_session(taken.session) and not taken.removed:
                    continue  # An earlier one has the record that created it.
                del waiting[one]
                held.store.piles.note_read(one)
                if letter is not None and taken is not None:
                    grew = True
                    found.append(taken)
                    for module, ref in letter.modules:
                        self._statements.modules[ref.name] = module, letter.session, ref.epoch
        self._waiting = dict(list(waiting.items())[-STASHED_MAX:])
        return found, again
