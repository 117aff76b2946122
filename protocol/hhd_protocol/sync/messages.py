"""What two devices say to each other while they sync, one value a message (`protocol/spec/sync.md`)."""

from __future__ import annotations

from dataclasses import dataclass, field

from hhd_protocol.ids import CheckpointId, EpochId, FamilyId, Incarnation, ObjectName, SessionId, Sha256, StatementId
from hhd_protocol.limits import OBJECT_BYTES_MAX, SYNC_LETTER_BYTES_MAX

VERSION = 3
VERSION_MIN, VERSION_BEFORE, VERSION_BARE = 1, 2, 3
"""Who says less than the first is not spoken with; who says less than the second knows no recipe that names an image
before (of form 3), and who says less than the third no `Bare`: neither is sent there."""
DIGEST_BYTES = 16
OBJECT, MODULE, LETTER = 0, 1, 2
"""What a part is of: a sealed object, a module (sealed in the family of the session it was asked for), a letter."""
SIZES_MAX = {OBJECT: OBJECT_BYTES_MAX, MODULE: OBJECT_BYTES_MAX, LETTER: SYNC_LETTER_BYTES_MAX}
"""By what it is, how long it may be."""


@dataclass(frozen=True, kw_only=True)
class Hello:
    """Asks what the receiver has that the sender lacks; `round` numbers the question, `root` is over `count` sessions.

    `holding`: why the sender takes no content now, in words; empty if it does.
    """

    version: int = VERSION
    incarnation: Incarnation
    round: int
    count: int
    root: bytes
    holding: str = ""


@dataclass(frozen=True, kw_only=True)
class Buckets:
    """The answer where the roots differ: a digest over each of 2**`bits` buckets of sessions."""

    round: int
    bits: int
    digests: bytes


@dataclass(frozen=True, kw_only=True)
class Entries:
    """What the asker has in the buckets that differ: ids and digests of sessions. `more`: another such follows."""

    round: int
    bits: int
    buckets: tuple[int, ...]
    sessions: tuple[SessionId, ...]
    digests: bytes
    more: bool = False


@dataclass(frozen=True, kw_only=True)
class Differ:
    """The sessions of those buckets that the answerer has, and has otherwise. `more`: another such follows."""

    round: int
    sessions: tuple[SessionId, ...]
    more: bool = False


@dataclass(frozen=True, kw_only=True)
class Ask:
    """What the asker has of one session: asks for the rest. `lacking`: checkpoints whose content it wants and lacks."""

    session: SessionId
    ends: tuple[StatementId, ...] = ()
    marks: tuple[StatementId, ...] = ()
    loose: tuple[StatementId, ...] = ()
    lacking: tuple[CheckpointId, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Compared:
    """The asker has asked for all that differs."""

    round: int


@dataclass(frozen=True, kw_only=True)
class Answered:
    """The answerer has sent all that it had and was asked for."""

    round: int


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One statement. `payload`: of a checkpoint, what its content is, None where the sender has only the record.

    `thinned`: the sender gave its content up; nobody has to ask for it.
    """

    raw: bytes = field(repr=False)
    payload: bytes | None = field(default=None, repr=False)
    thinned: bool = False


@dataclass(frozen=True, kw_only=True)
class Statements:
    """Statements of one session, records first; `objects`: sealed ones that the last of them brought."""

    session: SessionId
    entries: tuple[Entry, ...]
    objects: tuple[bytes, ...] = field(default=(), repr=False)


@dataclass(frozen=True, kw_only=True)
class Want:
    """Asks for objects and modules of one session, in this order."""

    session: SessionId
    objects: tuple[ObjectName, ...] = ()
    modules: tuple[Sha256, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Absent:
    """Of what was asked for, what is not here."""

    objects: tuple[ObjectName, ...] = ()
    modules: tuple[Sha256, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Part:
    """`content` at `offset` of something that has `total` bytes."""

    what: int
    name: bytes
    offset: int
    total: int
    content: bytes = field(repr=False)


@dataclass(frozen=True, kw_only=True)
class Rebuild:
    """An object that the receiver makes again out of one it has: how, in `recipe`, which is sealed (`sync.md`)."""

    name: ObjectName
    session: SessionId
    recipe: bytes = field(repr=False)


@dataclass(frozen=True, kw_only=True)
class Begin:
    """Asks for the rest of something of which the first `offset` bytes are here."""

    what: int
    name: bytes
    offset: int


@dataclass(frozen=True, kw_only=True)
class Acknowledge:
    """`statements` are durable at the sender, with the records they stand on; of `whole` the content is, too."""

    session: SessionId
    statements: tuple[StatementId, ...] = ()
    whole: tuple[CheckpointId, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Keys:
    """Keys of a session's family, each wrapped for the receiver; `epoch` is the one that is sealed under now."""

    session: SessionId
    family: FamilyId
    epoch: EpochId
    wrapped: tuple[bytes, ...] = field(repr=False)


@dataclass(frozen=True, kw_only=True)
class AskKeys:
    """Asks for the keys of a session's family."""

    session: SessionId


@dataclass(frozen=True, kw_only=True)
class Holding:
    """Why the sender takes no content of `session` now (None: of none), in words; empty: it does again."""

    why: str
    session: SessionId | None = None


@dataclass(frozen=True, kw_only=True)
class Had:
    """Records granting the session to the receiver that it acknowledged before, from another opening of its store."""

    session: SessionId
    records: tuple[StatementId, ...]


@dataclass(frozen=True, kw_only=True)
class Bare:
    """Checkpoints of a session of which the sender has no content, heads or not; what it said before counts no more."""

    session: SessionId
    checkpoints: tuple[CheckpointId, ...]


Message = (
    Hello
    | Buckets
    | Entries
    | Differ
    | Ask
    | Compared
    | Answered
    | Statements
    | Want
    | Absent
    | Part
    | Rebuild
    | Begin
    | Acknowledge
    | Keys
    | AskKeys
    | Holding
    | Had
    | Bare
)
