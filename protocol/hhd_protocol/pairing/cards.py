"""What two devices that pair tell each other of themselves, and what follows from it: who takes in whom, as what."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from hhd_protocol.codec import Value
from hhd_protocol.crypto import device_id
from hhd_protocol.errors import FormatError
from hhd_protocol.ids import DeviceId, GroupRecordId
from hhd_protocol.limits import GROUP_DEVICES_MAX, TITLE_BYTES_MAX
from hhd_protocol.statements import Role

NONCE_BYTES = 32


class Side(enum.Enum):
    """Who shows the code, and who guesses it."""

    SHOWER = "shower"
    GUESSER = "guesser"

    @property
    def other(self) -> Side:
        """The other one."""
        return Side.GUESSER if self is Side.SHOWER else Side.SHOWER


class Refusal(enum.Enum):
    """Why two devices that know each other do not pair; both find it out from the same two cards."""

    BOTH_GROUPED = "both-grouped"
    NOT_FULL = "not-full"
    OWN_SESSIONS = "own-sessions"
    SAME = "same"


@dataclass(frozen=True, kw_only=True)
class Card:
    """A device of itself: `root` of the group that it is a live member of, None if of none; `others` it has there.

    `full`: it may add a device. `sessions`: it has some of its own. `role`: what a person asked for who joins; of the
    guesser it is not looked at.
    """

    public: bytes
    name: str
    root: GroupRecordId | None
    others: int
    full: bool
    sessions: bool
    role: Role

    @property
    def device(self) -> DeviceId:
        """The device's id."""
        return device_id(self.public)

    def value(self) -> Value:
        """The form that is sent."""
        return [self.public, self.name, self.root, self.others, self.full, self.sessions, self.role.value]


def card_of(value: Value) -> Card:
    """Return the card that was sent; raises FormatError."""
    match value:
        case [bytes(public), str(name), None | bytes() as root, int(others), bool(full), bool(sessions), str(role)]:
            sound = len(public) == 32 and (root is None or len(root) == 32) and type(others) is int
            if sound and 0 <= others < GROUP_DEVICES_MAX and role in _ROLES and _is_name(name):
                return Card(
                    public=public,
                    name=name,
                    root=None if root is None else GroupRecordId(root),
                    others=others,
                    full=full,
                    sessions=sessions,
                    role=_ROLES[role],
                )
    raise FormatError("what a device tells of itself is not in the form it should be")


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Who takes in whom: `introducer` signs for `joiner`, which becomes `role`."""

    introducer: Side
    joiner: Card
    role: Role


def plan(shower: Card, guesser: Card) -> Plan | Refusal:
    """Say what comes of two cards.

    Who has other devices takes in who has none; else who shows the code does, unless it may not.
    """
    if shower.device == guesser.device:
        return Refusal.SAME
    cards = {Side.SHOWER: shower, Side.GUESSER: guesser}
    grouped = [side for side, card in cards.items() if card.root is not None and card.others]
    if len(grouped) == 2 and shower.root != guesser.root:
        return Refusal.BOTH_GROUPED
    able = Side.SHOWER if shower.full or not guesser.full else Side.GUESSER
    introducer = grouped[0] if len(grouped) == 1 else able
    if not cards[introducer].full:
        return Refusal.NOT_FULL
    joiner = cards[introducer.other]
    if joiner.sessions and shower.role is not Role.FULL:
        return Refusal.OWN_SESSIONS
    return Plan(introducer=introducer, joiner=joiner, role=shower.role)


def _is_name(name: str) -> bool:
    return 1 <= len(name.encode("utf-8", "surrogatepass")) <= TITLE_BYTES_MAX


_ROLES = {role.value: role for role in Role}
