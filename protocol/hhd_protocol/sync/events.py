"""What happens to the sync of one device, and what it then does: the events and outputs of `machine.Sync`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from hhd_protocol.ids import CheckpointId, DeviceId, ObjectName, SessionId, Sha256, StatementId
from hhd_protocol.sync.messages import Message


@dataclass(frozen=True, kw_only=True)
class Opened:
    """The device started: `digests` of all sessions here. It asks all that it meets from now on."""

    digests: Mapping[SessionId, bytes]


@dataclass(frozen=True, kw_only=True)
class Woke:
    """The device slept, or a person wants it now: every peer is asked again."""


@dataclass(frozen=True, kw_only=True)
class Linked:
    """A link is up; one that was there before is no more.

    `left_out`: sessions that the peer is not to have, or that this device may not send.
    `sealed`: one of the two is a store-only member, so that nothing but sealed bytes goes over, by their names.
    """

    peer: DeviceId
    left_out: frozenset[SessionId] = frozenset()
    sealed: bool = False


@dataclass(frozen=True, kw_only=True)
class Piled:
    """What sealed bytes this device has, or would have, for store-only members: by name what they are."""

    pile: Mapping[bytes, int]


@dataclass(frozen=True, kw_only=True)
class Lost:
    """The link is gone."""

    peer: DeviceId


@dataclass(frozen=True, kw_only=True)
class Allowed:
    """What a peer is not to have changed."""

    peer: DeviceId
    left_out: frozenset[SessionId]


@dataclass(frozen=True, kw_only=True)
class Heard:
    """A message came."""

    peer: DeviceId
    message: Message


@dataclass(frozen=True, kw_only=True)
class Loaded:
    """What `Load` asked for: every statement of the session by the one it follows, in the order they came."""

    session: SessionId
    after: Mapping[StatementId, StatementId | None]
    lacking: tuple[CheckpointId, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Changed:
    """A session grew here, durably, or went (`digest` None); `fresh` in the order in which they became durable.

    `source`: the peer that they came from, None for what this device signed. `whole`: checkpoints whose content is here
    from now on. `lacking`: heads whose content is wanted and not here. `durable`: what is to be acknowledged now, what
    was here before included; nothing that is held for want of what it stands on. `removed`: a person removed the
    session everywhere, and nothing but that is here of it.
    """

    session: SessionId
    digest: bytes | None
    fresh: Mapping[StatementId, StatementId | None] = field(default_factory=dict)
    source: DeviceId | None = None
    whole: tuple[CheckpointId, ...] = ()
    lacking: tuple[CheckpointId, ...] = ()
    durable: tuple[StatementId, ...] = ()
    removed: bool = False


@dataclass(frozen=True, kw_only=True)
class Missing:
    """Content that this device wants and lacks, what is wanted first in front."""

    session: SessionId
    objects: tuple[ObjectName, ...] = ()
    modules: tuple[Sha256, ...] = ()
    source: DeviceId | None = None


@dataclass(frozen=True, kw_only=True)
class Arrived:
    """Something that was wanted is durable here; `source` gave it."""

    name: bytes
    source: DeviceId


@dataclass(frozen=True, kw_only=True)
class Broke:
    """The peer gave something that is not what it has to be."""

    peer: DeviceId
    why: str


@dataclass(frozen=True, kw_only=True)
class Hold:
    """Why this device takes no content now (of `session`, or of none): in words; empty: it does again."""

    why: str
    session: SessionId | None = None


@dataclass(frozen=True, kw_only=True)
class Tick:
    """Time passed."""


Event = (
    Opened | Woke | Linked | Lost | Allowed | Heard | Loaded | Changed | Piled | Missing | Arrived | Broke | Hold | Tick
)


@dataclass(frozen=True, kw_only=True)
class Load:
    """Read a session's statements and answer with `Loaded`."""

    session: SessionId


@dataclass(frozen=True, kw_only=True)
class Take:
    """Check what came, keep it in one transaction, and answer with `Changed` and `Missing`, or `Broke`."""

    peer: DeviceId
    message: Message


@dataclass(frozen=True, kw_only=True)
class Send:
    """Send a message."""

    peer: DeviceId
    message: Message


@dataclass(frozen=True, kw_only=True)
class SendBare:
    """Say `Bare` to a peer of each session that it may have of which some content is not here, and of no other."""

    peer: DeviceId


@dataclass(frozen=True, kw_only=True)
class SendStatements:
    """Send these statements of a session, records first; `eager`: with the objects that they brought, if small."""

    peer: DeviceId
    session: SessionId
    ids: tuple[StatementId, ...]
    eager: bool = False


@dataclass(frozen=True, kw_only=True)
class SendContent:
    """Send what was wanted, in this order, or say that it is absent."""

    peer: DeviceId
    session: SessionId
    objects: tuple[ObjectName, ...] = ()
    modules: tuple[Sha256, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Lacking:
    """Sealed bytes that a peer has and this device has not; which of them it wants is its own to say, by `Missing`."""

    peer: DeviceId
    names: tuple[bytes, ...]


@dataclass(frozen=True, kw_only=True)
class Answering:
    """All members asked since the device started, or woke: this one has answered."""

    peer: DeviceId


@dataclass(frozen=True, kw_only=True)
class Acknowledged:
    """A peer has these durably; `session` None: all that is here and not left out, statements and content."""

    peer: DeviceId
    session: SessionId | None
    statements: tuple[StatementId, ...] = ()
    whole: tuple[CheckpointId, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Cut:
    """End the link: the peer breaks the rules, as `why` says."""

    peer: DeviceId
    why: str


Output = Load | Take | Send | SendBare | SendStatements | SendContent | Lacking | Answering | Acknowledged | Cut
