"""Why a device has no sessions to show: a member may keep sealed bytes alone, or nothing (`handoff.md`, roles)."""

from __future__ import annotations

from hhd.identity.key import Identity
from hhd.node.members import members
from hhd.store.store import Store
from hhd_protocol.statements import Role

_WHY = {
    Role.STORE_ONLY: (
        "This device is store-only: it keeps sealed bytes for your other devices and can read none of them, not even "
        "titles. Sessions are listed on a device that is full, or a controller."
    ),
    Role.CONTROLLER: (
        "This device is a controller: it keeps no sessions. While its daemon runs (hhd up), hhd ls and hhd show ask "
        "the devices that do, and hhd attach, send, pause, resume and approve reach them."
    ),
}


def why(store: Store, me: Identity) -> str:
    """Return the reason in a sentence; "" where sessions are kept here, or this device is in no group any more."""
    member = members(store, me).get(me.id)
    role = None if member is None else member.now
    return "" if role is None or store.sessions() else _WHY.get(role, "")


def here() -> str:
    """Return the same of this device; nothing is made where there is no store."""
    from hhd.node import this_device
    from hhd.node.store import opened

    me = this_device.known_identity()
    if me is None:
        return ""
    with opened(me) as store:
        return why(store, me)
