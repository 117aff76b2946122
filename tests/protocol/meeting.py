"""Two devices that pair, driven by hand: what each sends is carried over, and may be changed on its way."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import sha256

from hhd_protocol.crypto import device_id, public_key
from hhd_protocol.ids import DeviceId, GroupRecordId
from hhd_protocol.pairing import Card, Machine, Side
from hhd_protocol.pairing.machine import Answered, Ask, Ended, Event, Output, Paired, Received, Send
from hhd_protocol.pairing.messages import PAKE_BYTES
from hhd_protocol.statements import Role

NOW = 1_000_000
CODE = "code"


class Hashed:
    """Stands in for SPAKE2 where a key is wanted and no secrecy: the same code and messages give the same key."""

    def __init__(self, side: Side, code: str, salt: bytes = b"") -> None:
        self._side, self._code = side, code
        self._message = (b"A" if side is Side.GUESSER else b"B") + sha256(side.value.encode() + salt).digest()

    def start(self) -> bytes:
        return self._message

    def finish(self, message: bytes) -> bytes:
        if message[:1] == self._message[:1]:
            raise ValueError("of the same side")
        both = sorted((message, self._message))
        return sha256(self._code.encode() + both[0] + both[1]).digest()


assert len(Hashed(Side.SHOWER, "").start()) == PAKE_BYTES


def key(name: str) -> bytes:
    return public_key(name.encode().ljust(32, b"\0"))


def device(name: str) -> DeviceId:
    return device_id(key(name))


def card(name: str, **more: object) -> Card:
    fields: dict[str, object] = {"root": None, "others": 0, "full": False, "sessions": False, "role": Role.FULL}
    return Card(public=key(name), name=name, **{**fields, **more})  # type: ignore[arg-type]


@dataclass
class End:
    """One device of the two."""

    machine: Machine
    said: list[bytes] = field(default_factory=list)
    outputs: list[Output] = field(default_factory=list)
    carried: int = 0

    def tell(self, event: Event, now_ms: int = NOW) -> list[Output]:
        return self.put(self.machine.handle(event, now_ms))

    def put(self, outputs: list[Output]) -> list[Output]:
        self.outputs += outputs
        self.said += [one.raw for one in outputs if isinstance(one, Send)]
        return outputs

    def last(self, kind: type) -> object | None:
        return next((one for one in reversed(self.outputs) if isinstance(one, kind)), None)

    @property
    def ask(self) -> Ask | None:
        found = self.last(Ask)
        assert found is None or isinstance(found, Ask)
        return found

    @property
    def why(self) -> object:
        found = self.last(Ended)
        return None if found is None else found.why  # type: ignore[attr-defined]

    @property
    def paired(self) -> bool:
        return self.last(Paired) is not None


def end(
    side: Side,
    name: str,
    other: str,
    *,
    code: str = CODE,
    mine: Card | None = None,
    channel: bytes = b"",
    salt: bytes = b"",
) -> End:
    nonce = sha256(name.encode() + salt).digest()
    machine = Machine(
        side=side,
        card=mine or card(name),
        other=device(other),
        pake=Hashed(side, code, salt),
        nonce=nonce,
        now_ms=NOW,
        channel=channel,
    )
    made = End(machine)
    made.put(machine.begin())
    return made


Change = Callable[[bytes], list[bytes]]


def carry(one: End, other: End, change: Change = lambda raw: [raw]) -> None:
    """Carry what each says, and was not carried yet, to the other until nobody says anything more."""
    while any(end.carried < len(end.said) for end in (one, other)):
        for end, peer in ((one, other), (other, one)):
            while end.carried < len(end.said):
                end.carried += 1
                for part in change(end.said[end.carried - 1]):
                    peer.tell(Received(raw=part))


def two(**more: object) -> tuple[End, End]:
    """The laptop shows a code, which the desktop guesses."""
    return end(Side.SHOWER, "laptop", "desktop", mine=card("laptop", full=True), **more), end(  # type: ignore[arg-type]
        Side.GUESSER,
        "desktop",
        "laptop",
        **more,  # type: ignore[arg-type]
    )


def agree(*ends: End) -> None:
    for one in ends:
        one.tell(Answered(yes=True))


ROOT = GroupRecordId(b"r" * 32)
