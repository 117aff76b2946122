"""What the two devices of a handoff say to each other, and its one encoding (`protocol/spec/handoff.md`, Messages).

Each message names its handoff, so that it may come twice, late or out of order. Which device says it the link tells, or
the seal of a release file.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import ClassVar, cast, get_args

from hhd_protocol import mapping
from hhd_protocol.codec import Value, decode, encode
from hhd_protocol.errors import FormatError, NewerVersionError, TooLargeError
from hhd_protocol.handoff.stages import Act, Happening
from hhd_protocol.ids import CheckpointId, DeviceId, SessionId, StatementId, TransferId
from hhd_protocol.limits import (
    HANDOFF_MESSAGE_BYTES_MAX,
    HANDOFF_NAMES_MAX,
    HANDOFF_TEXT_BYTES_MAX,
    STATEMENT_BYTES_MAX,
    STATEMENT_COUNT_MAX,
)

VERSION = 1
ID_BYTES, TRANSFER_BYTES = 32, 16


@dataclass(frozen=True, kw_only=True)
class Needs:
    """What a session wants of a device that is to run it: looked at there before anything here is stopped.

    `size_bytes`: sealed, that are to be stored at most. `memory_bytes`: that the program may take. `module`: the
    program, by hash. `tools`: what its commands were, by name. `model`: the name of the model in use, None for none or
    for the target's own choice; never a key. `sandboxed`: its commands run behind walls here. `folder`: last part of
    the folder's name, for showing. `remotes`, `root`: hints which repository it works in. `formats`: what it is kept
    in, each a name and a version. `named`: programs that the rules of the person name at the source.
    """

    size_bytes: int
    memory_bytes: int
    module: bytes | None = None
    tools: tuple[str, ...] = ()
    model: str | None = None
    sandboxed: bool = False
    folder: str = ""
    remotes: tuple[str, ...] = ()
    root: bytes | None = None
    formats: tuple[str, ...] = ()
    named: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Message:
    """What all messages have: which handoff, of which session."""

    is_about: ClassVar[Happening]
    transfer: TransferId
    session: SessionId


@dataclass(frozen=True, kw_only=True)
class Offer(Message):
    """May this session come to you? `hhd`: the release that the source runs, for showing; `head`: its end now."""

    is_about = Happening.OFFER
    hhd: str
    token: StatementId
    head: CheckpointId
    needs: Needs


@dataclass(frozen=True, kw_only=True)
class Admit(Message):
    """It can run here. `where`: the folder, for showing; `notes`: what will be otherwise than at the source."""

    is_about = Happening.ADMIT
    where: str = ""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class RefuseOffer(Message):
    """It cannot: `why` in a sentence, `way` what a person does about it."""

    is_about = Happening.REFUSE
    why: str
    way: str = ""


@dataclass(frozen=True, kw_only=True)
class Prepare(Message):
    """All of `head` is with you; load it, and run nothing."""

    is_about = Happening.PREPARE
    head: CheckpointId


@dataclass(frozen=True, kw_only=True)
class LoadedThere(Message):
    """`head` is complete here, its program is loaded; the gate is shut."""

    is_about = Happening.LOADED_THERE
    head: CheckpointId


@dataclass(frozen=True, kw_only=True)
class ReleaseTo(Message):
    """It is yours: the signed release."""

    is_about = Happening.RELEASE
    statement: bytes


@dataclass(frozen=True, kw_only=True)
class Took(Message):
    """The release is durable here, and the session may run here: the release again."""

    is_about = Happening.TOOK
    statement: bytes


@dataclass(frozen=True, kw_only=True)
class Closed(Message):
    """The source knows that it was taken."""

    is_about = Happening.CLOSED


@dataclass(frozen=True, kw_only=True)
class Already(Message):
    """You had taken it: the release. Who asks for it now was rolled back since."""

    is_about = Happening.ALREADY
    statement: bytes


@dataclass(frozen=True, kw_only=True)
class Ask(Message):
    """How does it stand?"""

    is_about = Happening.ASK


@dataclass(frozen=True, kw_only=True)
class Abort(Message):
    """It was given up before anything was released."""

    is_about = Happening.ABORT
    why: str = ""


@dataclass(frozen=True, kw_only=True)
class Superseded(Message):
    """A record beats the release."""

    is_about = Happening.SUPERSEDED


AnyMessage = (
    Offer | Admit | RefuseOffer | Prepare | LoadedThere | ReleaseTo | Took | Closed | Already | Ask | Abort | Superseded
)


@dataclass(frozen=True, kw_only=True)
class Aside:
    """What is said beside a handoff: it is in no journal, and no stage depends on it."""

    kind: ClassVar[str]
    transfer: TransferId
    session: SessionId


@dataclass(frozen=True, kw_only=True)
class Probe(Aside):
    """Could this session come to you? It is answered like an offer, with the same id, and nothing is kept."""

    kind = "probe"
    hhd: str
    token: StatementId
    head: CheckpointId
    needs: Needs


@dataclass(frozen=True, kw_only=True)
class Inquire(Aside):
    """Could the session that you have go to the device `to`? Nothing moves for it; `told` answers it.

    Said on a channel of its own alone (the spec, Inquiries): on the one of handoffs it breaks the rules.
    """

    kind = "inquire"
    to: DeviceId


@dataclass(frozen=True, kw_only=True)
class Please(Aside):
    """A person at this device wants the session that you have at the device `to`."""

    kind = "please"
    to: DeviceId
    cancel_running: bool = False
    deadline_ms: int = 0


@dataclass(frozen=True, kw_only=True)
class Told(Aside):
    """How a handoff that was asked for with `please` stands, for showing; `status`: how it ended, once it is over.

    `notes`: what is otherwise than it was, once it is over. Those that were written before there were any have none.
    """

    kind = "told"
    stage: str
    sentence: str
    way: str = ""
    over: bool = False
    status: int = 0
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Rehearse(Aside):
    """All of `head` is with you: make ready what a run from it will need, and run nothing. It is not paused yet."""

    kind = "rehearse"
    head: CheckpointId


@dataclass(frozen=True, kw_only=True)
class Rehearsed(Aside):
    """That is done, as far as it can be: what it takes from now on is short."""

    kind = "rehearsed"
    head: CheckpointId


@dataclass(frozen=True, kw_only=True)
class Begun(Aside):
    """What was taken runs here now, or `runs` is false and `notes` say why; they say what else is otherwise, too."""

    kind = "begun"
    runs: bool
    notes: tuple[str, ...] = ()


AnyAside = Probe | Inquire | Please | Told | Rehearse | Rehearsed | Begun


def _name(kind: type[AnyMessage | AnyAside]) -> str:
    return kind.kind if issubclass(kind, Aside) else kind.is_about.value


_KINDS: dict[str, type[AnyMessage | AnyAside]] = {_name(kind): kind for kind in get_args(AnyMessage | AnyAside)}
_COMMON = ("transfer", "session")
_LENGTHS = {"transfer": TRANSFER_BYTES} | dict.fromkeys(("session", "token", "head", "module", "to"), ID_BYTES)


def encode_message(message: AnyMessage | AnyAside) -> bytes:
    """Return the one encoding of `message`; raises FormatError where a bound is passed."""
    said: dict[Value, Value] = {
        field.name: mapping.to_value(getattr(message, field.name))
        for field in fields(message)
        if field.name not in _COMMON
    }
    if isinstance(message, Told) and not message.notes:  # As it was before there were any: then older hhd reads it.
        del said["notes"]
    raw = encode([VERSION, _name(type(message)), message.transfer, message.session, said])
    decode_message(raw)
    return raw


def decode_message(raw: bytes) -> AnyMessage | AnyAside:
    """Return the message that `raw` encodes; raises FormatError (TooLargeError, NewerVersionError)."""
    match decode(raw, bytes_max=HANDOFF_MESSAGE_BYTES_MAX):
        case [int(version), *_] if type(version) is int and version > VERSION:
            raise NewerVersionError(f"a handoff message of version {version}; this hhd knows {VERSION}")
        case [int(version), str(name), bytes(transfer), bytes(session), dict(said)] if type(version) is int:
            kind = _KINDS.get(name)
            if version != VERSION or kind is None:
                raise FormatError("a handoff message of no kind that there is")
            if kind is Told and said.get("notes") == []:
                raise FormatError("a handoff message says that there are no notes")
            later: dict[Value, Value] = {"notes": []} if kind is Told else {}
            given: dict[Value, Value] = {**later, **said, "transfer": transfer, "session": session}
            if len(given) != len(later.keys() | said.keys()) + 2:
                raise FormatError("a handoff message names its handoff twice")
            message = cast(AnyMessage | AnyAside, mapping.from_value(kind, given))
            _insist(message)
            return message
    raise FormatError("this is no handoff message")


def act_of(message: AnyMessage) -> Act:
    """The act that sends `message`."""
    return Act(message.is_about.value)


def _insist(record: object) -> None:
    """Raise FormatError where a field passes its bound."""
    for field in fields(record):  # type: ignore[arg-type]
        value = getattr(record, field.name)
        if isinstance(value, Needs):
            _insist(value)
        elif isinstance(value, bytes):
            wanted = _LENGTHS.get(field.name)
            if wanted is not None and len(value) != wanted:
                raise FormatError(f"the {field.name} of a handoff message has {len(value)} bytes")
            if len(value) > STATEMENT_BYTES_MAX:
                raise TooLargeError(f"the {field.name} of a handoff message has {len(value)} bytes")
        elif isinstance(value, bool):
            continue
        elif isinstance(value, int):
            if not 0 <= value <= STATEMENT_COUNT_MAX:
                raise FormatError(f"the {field.name} of a handoff message is {value}")
        elif isinstance(value, tuple):
            if len(value) > HANDOFF_NAMES_MAX:
                raise TooLargeError(f"a handoff message has {len(value)} {field.name}")
            for one in value:
                _insist_on_text(one, field.name)
        elif isinstance(value, str):
            _insist_on_text(value, field.name)


def _insist_on_text(text: str, name: str) -> None:
    if len(text.encode("utf-8", "surrogatepass")) > HANDOFF_TEXT_BYTES_MAX:
        raise TooLargeError(f"the {name} of a handoff message has more than {HANDOFF_TEXT_BYTES_MAX} bytes")
