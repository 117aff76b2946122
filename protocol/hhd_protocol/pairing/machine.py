"""Two devices meet: one side of it as a machine, events in, ordered outputs out (`pairing.md`).

The code is guessed once, by SPAKE2 (an injected object: it rolls dice). Neither side tells anything before the other
has proven the key that comes of it. Both then hold each other's card, committed to before either nonce was known, so
that who sits in between, and even knows the code, cannot search for keys that show the same words on both screens.
What the key and the words rest on includes the devices that the channel itself proved.
"""

from __future__ import annotations

import enum
import hmac
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Protocol

from hhd_protocol.codec import Value, decode, encode
from hhd_protocol.crypto import NONCE_BYTES as SEAL_NONCE_BYTES
from hhd_protocol.crypto import derive, seal, unseal
from hhd_protocol.errors import FormatError
from hhd_protocol.ids import DeviceId, GroupRecordId
from hhd_protocol.limits import GROUP_RECORDS_MAX, PAIRING_MS_MAX, PAIRING_RECORDS_BYTES_MAX
from hhd_protocol.pairing.cards import NONCE_BYTES, Card, Plan, Refusal, Side, card_of, plan
from hhd_protocol.pairing.messages import (
    Done,
    Hello,
    No,
    Opening,
    Records,
    Sealed,
    Words,
    Yes,
    batches,
    decode_message,
    decode_words,
    encode_message,
    encode_words,
)
from hhd_protocol.pairing.words import words_of

WORDS_SHOWN = 3
"""24 bits; who sits in between has one try at them for each time that it guesses a code."""


class Pake(Protocol):
    """One side of SPAKE2 over one code, used once."""

    def start(self) -> bytes:
        """Return the message for the other side."""

    def finish(self, message: bytes) -> bytes:
        """Return the 32-byte key; another code there gives another key. Raises ValueError for what is no message."""


class Fault(enum.Enum):
    """Why it came to nothing."""

    WRONG_CODE = "wrong-code"
    """The other side does not know the code that is shown here, or ended it when it saw ours."""
    RULES = "rules"
    """What the other side sent breaks the rules, or was changed on its way."""
    OTHER_KEY = "other-key"
    """The other side speaks for another device than the one that the channel leads to."""
    DECLINED = "declined"
    """The person here said no."""
    DECLINED_THERE = "declined-there"
    """The person there said no, or the device there could not."""
    LATE = "late"
    """It took too long."""
    CLOSED = "closed"
    """The channel ended in between."""
    FAILED_HERE = "failed-here"
    """This device could not do its part."""


# Events


@dataclass(frozen=True, kw_only=True)
class Received:
    """A message came."""

    raw: bytes = field(repr=False)


@dataclass(frozen=True, kw_only=True)
class Answered:
    """The person here compared the words and answered."""

    yes: bool


@dataclass(frozen=True, kw_only=True)
class Introduced:
    """`Introduce` was done, durably: these are all records of the group that `root` founded."""

    root: GroupRecordId
    records: tuple[bytes, ...] = field(repr=False)


@dataclass(frozen=True, kw_only=True)
class Joined:
    """`Join` was done, durably: these are all records of this side."""

    root: GroupRecordId
    records: tuple[bytes, ...] = field(repr=False)


@dataclass(frozen=True, kw_only=True)
class Failed:
    """`Introduce`, `Join` or `Take` was not possible; nothing was changed."""


@dataclass(frozen=True, kw_only=True)
class Closed:
    """The channel ended."""


@dataclass(frozen=True, kw_only=True)
class Passed:
    """Time passed."""


Event = Received | Answered | Introduced | Joined | Failed | Closed | Passed

# Outputs


@dataclass(frozen=True, kw_only=True)
class Send:
    """Send this message."""

    raw: bytes = field(repr=False)


@dataclass(frozen=True, kw_only=True)
class Ask:
    """Show the words and what is about to happen to the person here, who has to answer."""

    words: tuple[str, ...]
    mine: Side
    other: Card
    plan: Plan


@dataclass(frozen=True, kw_only=True)
class Introduce:
    """Sign that this device is a member, durably; then comes `Introduced`."""

    public: bytes
    name: str
    plan: Plan


@dataclass(frozen=True, kw_only=True)
class Join:
    """Become a member by these records, durably; then comes `Joined`."""

    root: GroupRecordId
    records: tuple[bytes, ...] = field(repr=False)


@dataclass(frozen=True, kw_only=True)
class Take:
    """Keep these records of the other side."""

    records: tuple[bytes, ...] = field(repr=False)


@dataclass(frozen=True, kw_only=True)
class Paired:
    """Both are members of one group now, and both know it."""

    other: Card
    plan: Plan


@dataclass(frozen=True, kw_only=True)
class Ended:
    """It came to nothing, and nothing comes after it. `introduced`: the other side was made a member all the same."""

    why: Fault | Refusal
    introduced: bool = False


Output = Send | Ask | Introduce | Join | Take | Paired | Ended


class _Stage(enum.Enum):
    HELLO = "hello"
    OPENING = "opening"
    ASKING = "asking"
    GIVING = "giving"
    TAKING = "taking"
    OVER = "over"


class Machine:
    """One side of one pairing."""

    def __init__(
        self, *, side: Side, card: Card, other: DeviceId, pake: Pake, nonce: bytes, now_ms: int, channel: bytes = b""
    ) -> None:
        """`other`: the device that the channel leads to; `channel`: what else binds to the channel, the same on both
        sides. `nonce`: 32 random bytes, used this once."""
        assert len(nonce) == NONCE_BYTES
        self._side, self._card, self._other, self._pake = side, card, other, pake
        self._opening = encode([nonce, card.value()])
        mine, theirs = (card.device, other) if side is Side.GUESSER else (other, card.device)
        self._binding = encode(["hhd pairing", mine, theirs, channel])
        self._until_ms = now_ms + PAIRING_MS_MAX
        self._stage = _Stage.HELLO
        self._hellos: dict[Side, bytes] = {}
        self._openings: dict[Side, bytes] = {side: self._opening}
        self._commitment = b""
        self._key = b""
        self._counts = {Side.SHOWER: 0, Side.GUESSER: 0}
        self._answers: dict[Side, bool] = {}
        self._plan: Plan | None = None
        self._their_card: Card | None = None
        self._came: list[bytes] = []
        self._came_bytes = 0
        self._introduced = False

    def begin(self) -> list[Output]:
        """What is said first: by the guesser; who shows the code waits."""
        return [self._hello()] if self._side is Side.GUESSER else []

    def deadline(self) -> int | None:
        """When `Passed` would end it, None once it is over."""
        return None if self._stage is _Stage.OVER else self._until_ms

    def handle(self, event: Event, now_ms: int) -> list[Output]:
        """Take one event in; the outputs are to be carried out in their order."""
        if self._stage is _Stage.OVER:
            return []
        if now_ms >= self._until_ms:
            return self._end(Fault.LATE)
        try:
            match event:
                case Received():
                    return self._received(event.raw)
                case Answered() if self._stage is _Stage.ASKING and self._side not in self._answers:
                    return self._answered(event.yes)
                case Introduced() if self._stage is _Stage.GIVING and self._introducing:
                    self._introduced, self._stage = True, _Stage.TAKING
                    return self._give(event.root, event.records)
                case Joined() if self._stage is _Stage.GIVING and not self._introducing:
                    return [*self._give(event.root, event.records), self._paired()]
                case Failed():
                    said: list[Output] = [self._say(No())] if self._key else []
                    return said + self._end(Fault.FAILED_HERE)
                case Closed():
                    return self._end(Fault.WRONG_CODE if self._stage is _Stage.OPENING else Fault.CLOSED)
        except FormatError:  # Seals that do not open are some of these.
            return self._end(Fault.RULES)
        return []

    def _received(self, raw: bytes) -> list[Output]:
        message = decode_message(raw)
        match message:
            case Hello() if self._stage is _Stage.HELLO:
                return self._take_hello(message, raw)
            case Opening() if self._stage is _Stage.OPENING:
                return self._take_opening(message)
            case Sealed() if self._stage in (_Stage.ASKING, _Stage.GIVING, _Stage.TAKING):
                return self._take_words(decode_words(self._opened(message.box)))
        raise FormatError("a message of pairing came out of turn")

    # The key, and who is there

    def _hello(self) -> Send:
        raw = encode_message(Hello(pake=self._pake.start(), commitment=sha256(self._opening).digest()))
        self._hellos[self._side] = raw
        return Send(raw=raw)

    def _take_hello(self, hello: Hello, raw: bytes) -> list[Output]:
        outputs: list[Output] = [] if self._side is Side.GUESSER else [self._hello()]
        try:
            secret = self._pake.finish(hello.pake)
        except ValueError as error:
            raise FormatError("the half of a key is none") from error
        self._hellos[self._side.other], self._commitment = raw, hello.commitment
        said = self._binding + self._hellos[Side.GUESSER] + self._hellos[Side.SHOWER]
        self._key = derive(secret, "pairing", sha256(said).digest())
        self._stage = _Stage.OPENING
        return [*outputs, self._open()] if self._side is Side.GUESSER else outputs

    def _open(self) -> Send:
        box = self._sealed(self._opening)
        return Send(raw=encode_message(Opening(mac=self._mac(self._side, box), box=box)))

    def _take_opening(self, opening: Opening) -> list[Output]:
        if not hmac.compare_digest(opening.mac, self._mac(self._side.other, opening.box)):
            return self._end(Fault.WRONG_CODE)
        raw = self._opened(opening.box)
        if sha256(raw).digest() != self._commitment:
            raise FormatError("what was committed to is not what was opened")
        card = _card_in(raw)
        if card.device != self._other:
            return self._end(Fault.OTHER_KEY)
        self._openings[self._side.other], self._their_card = raw, card
        outputs: list[Output] = [] if self._side is Side.GUESSER else [self._open()]
        shower, guesser = (card, self._card) if self._side is Side.GUESSER else (self._card, card)
        agreed = plan(shower, guesser)
        if isinstance(agreed, Refusal):
            return outputs + self._end(agreed)
        self._plan, self._stage = agreed, _Stage.ASKING
        return [*outputs, Ask(words=self._words(), mine=self._side, other=card, plan=agreed)]

    def _words(self) -> tuple[str, ...]:
        said = [self._binding, *(self._hellos[side] for side in Side), *(self._openings[side] for side in Side)]
        return words_of(sha256(b"hhd pairing words\0" + encode(list[Value](said))).digest()[:WORDS_SHOWN])

    # What both persons say, and what follows

    @property
    def _introducing(self) -> bool:
        return self._plan is not None and self._plan.introducer is self._side

    def _answered(self, yes: bool) -> list[Output]:
        if not yes:
            return [self._say(No()), *self._end(Fault.DECLINED)]
        self._answers[self._side] = True
        return [self._say(Yes()), *self._go_on()]

    def _take_words(self, words: Words) -> list[Output]:
        match words:
            case No():
                return self._end(Fault.DECLINED_THERE)
            case Yes() if self._side.other not in self._answers:
                self._answers[self._side.other] = True
                return self._go_on()
            case Records() if self._stage is _Stage.TAKING:
                self._came_bytes += sum(len(raw) for raw in words.raws)
                if (
                    len(self._came) + len(words.raws) > GROUP_RECORDS_MAX
                    or self._came_bytes > PAIRING_RECORDS_BYTES_MAX
                ):
                    raise FormatError("more records came than a group has")
                self._came += words.raws
                return []
            case Done() if self._stage is _Stage.TAKING and words.count == len(self._came):
                return self._taken(words.root)
        raise FormatError("a sealed message of pairing came out of turn")

    def _go_on(self) -> list[Output]:
        if len(self._answers) < 2:
            return []
        assert self._plan is not None and self._their_card is not None
        if not self._introducing:
            self._stage = _Stage.TAKING
            return []
        self._stage = _Stage.GIVING
        return [Introduce(public=self._their_card.public, name=self._their_card.name, plan=self._plan)]

    def _taken(self, root: GroupRecordId) -> list[Output]:
        records = tuple(self._came)
        if self._introducing:
            return [Take(records=records), self._paired()]
        self._stage = _Stage.GIVING
        return [Join(root=root, records=records)]

    def _give(self, root: GroupRecordId, records: tuple[bytes, ...]) -> list[Output]:
        sent: list[Output] = [self._say(batch) for batch in batches(records)]
        return [*sent, self._say(Done(root=root, count=len(records)))]

    def _paired(self) -> Paired:
        assert self._plan is not None and self._their_card is not None
        self._stage = _Stage.OVER
        return Paired(other=self._their_card, plan=self._plan)

    def _end(self, why: Fault | Refusal) -> list[Output]:
        self._stage = _Stage.OVER
        return [Ended(why=why, introduced=self._introduced)]

    # Seals

    def _say(self, words: Words) -> Send:
        return Send(raw=encode_message(Sealed(box=self._sealed(encode_words(words)))))

    def _sealed(self, plain: bytes) -> bytes:
        return seal(derive(self._key, self._side.value), self._nonce(self._side), plain)

    def _opened(self, box: bytes) -> bytes:
        return unseal(derive(self._key, self._side.other.value), self._nonce(self._side.other), box)

    def _nonce(self, side: Side) -> bytes:
        """Each key seals one stream of messages in order: the nonce counts them, so none comes twice or is left out."""
        self._counts[side] += 1
        return self._counts[side].to_bytes(SEAL_NONCE_BYTES, "little")

    def _mac(self, side: Side, box: bytes) -> bytes:
        return derive(self._key, f"confirm {side.value}", sha256(box).digest())


def _card_in(raw: bytes) -> Card:
    match decode(raw):
        case [bytes(nonce), card] if len(nonce) == NONCE_BYTES:
            return card_of(card)
    raise FormatError("what was committed to is no nonce with a card")
