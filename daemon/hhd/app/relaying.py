"""Sessions at other devices, and terminals of other devices at sessions here: the daemon's part, made."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hhd.node.handoff.handoffs import Handoffs
    from hhd.node.peers import Peers
    from hhd.node.relay.relays import Relays
    from hhd.node.sync.syncing import Syncing
    from hhd.node.workers import Workers


def part(workers: Workers, peers: Peers, syncing: Syncing, handing: Handoffs) -> Relays:
    """Make the part, and let it hear what may change where a session runs, or who may be at it."""
    from hhd.node.relay.listing import Lister
    from hhd.node.relay.relays import Relays
    from hhd_protocol.statements import Role

    me = peers.roll.me.id
    made = Relays(me=me, peers=peers, workers=workers)
    made.moving = handing.moving
    made.keeps = lambda: me not in peers.roll.members or peers.roll.is_full(me)
    made.controls = lambda: (own := peers.roll.members.get(me)) is not None and own.now is Role.CONTROLLER
    others = peers.roll
    made.lister = Lister(
        peers=peers, keepers=lambda: [one for one in others.others if others.is_full(one)], called=peers.called
    )
    handing.on_stage.append(made.look)
    syncing.fenced.append(made.look)
    syncing.wished.append(made.look_again)
    peers.roll.on_change(made.look_again)
    return made
