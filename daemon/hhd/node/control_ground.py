"""What every verb on sessions rests on: what names mean here, and what of the store it works with.

What only some verbs need is imported by them: a terminal asks for one and ends.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from hhd.base.errors import RefusedError
from hhd.identity.key import Identity
from hhd.node import listing, naming, registry
from hhd.node.devices import Devices
from hhd.node.listing import Listed
from hhd.node.members import members
from hhd.store.store import Store
from hhd_protocol.ids import CheckpointId, SessionId

if TYPE_CHECKING:
    from hhd.node.heads import HeadsOf
    from hhd.node.lineages import Lineage
    from hhd.node.pending import Pending
    from hhd.node.removal import Remover
    from hhd.node.taking_over import Taker


@dataclass(frozen=True, kw_only=True)
class Ground:
    """The sessions in `store`, as this device, `me`, is asked of them."""

    store: Store
    me: Identity

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

    # What the verbs work with

    @cached_property
    def _devices(self) -> Devices:
        names, _ = registry.device_names(self.store.shared)
        return Devices(me=self.me.id, members=members(self.store, self.me), names=names)

    def _lineage(self, session: SessionId) -> Lineage:
        from hhd.node.lineages import lineage_of

        return lineage_of(self.store, session, members(self.store, self.me))

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
