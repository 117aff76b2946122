"""What devices sign about their group: founded, added, joined, revoked, allowed (`protocol/spec/group.md`).

Each record carries the public key of its signer, so that a signature can be checked without knowing the signer: bytes
of no good signature are refused as they come, and nothing that is kept was not signed by whom it names.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TypedDict

from hhd_protocol import crypto
from hhd_protocol.codec import Value, encode
from hhd_protocol.codec import decode as decode_value
from hhd_protocol.errors import FormatError, NewerVersionError, TooLargeError
from hhd_protocol.ids import DeviceId, GroupRecordId, SessionId, StatementId
from hhd_protocol.limits import (
    GROUP_CUTOFF_ENDS_MAX,
    GROUP_MEMBERSHIPS_MAX,
    GROUP_RECORD_BYTES_MAX,
    GROUP_SEEN_MAX,
    STATEMENT_COUNT_MAX,
    TITLE_BYTES_MAX,
)
from hhd_protocol.statements import Role

VERSION = 1
PURPOSE = "group"
"""What the signature is over, beside the body."""

ID_BYTES, PUBLIC_BYTES = 32, 32


@dataclass(frozen=True, kw_only=True)
class Body:
    """What all records have.

    `public`: the Ed25519 key of the signer. `seen`: the ends of all records that the signer knew, ascending. `under`:
    the membership that it speaks as (the id of the record that made it a member); None where it founds. `at_ms`: wall
    clock, for showing only.
    """

    public: bytes
    seen: tuple[GroupRecordId, ...] = ()
    under: GroupRecordId | None
    at_ms: int

    @property
    def by(self) -> DeviceId:
        """The device that signs."""
        return crypto.device_id(self.public)


@dataclass(frozen=True, kw_only=True)
class Found(Body):
    """The signer begins a group as its first full member; `former`: the root of the group that it begins anew."""

    under: GroupRecordId | None = None
    name: str
    former: GroupRecordId | None = None


@dataclass(frozen=True, kw_only=True)
class Add(Body):
    """The signer, a full member, makes the device of the key `member` one of the group."""

    member: bytes
    name: str
    role: Role


@dataclass(frozen=True, kw_only=True)
class Join(Body):
    """The signer takes the membership `under`; `former`: the root of the group that it was alone in until then."""

    former: GroupRecordId | None = None


@dataclass(frozen=True, kw_only=True)
class Revoke(Body):
    """The signer, a full member, ends `memberships` of `device`.

    `cutoffs`: in each session, the last statements of the device that still count, each with all that it follows in
    the device's own chain. Where a session is not named nothing of the device counts there.
    """

    device: DeviceId
    memberships: tuple[GroupRecordId, ...]
    cutoffs: Mapping[SessionId, tuple[StatementId, ...]] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, kw_only=True)
class Allow(Body):
    """The signer lets the device that `membership` made a member approve for the signer, or no longer."""

    membership: GroupRecordId
    approve: bool


AnyBody = Found | Add | Join | Revoke | Allow


@dataclass(frozen=True, kw_only=True)
class GroupRecord:
    """A record as it is sent and stored, its signature found to hold; `id` is the SHA-256 of `raw`."""

    raw: bytes = field(repr=False)
    id: GroupRecordId
    body: AnyBody


def sign(body: AnyBody, seed: bytes) -> GroupRecord:
    """Return `body` signed by the device of `seed`, whose key it must carry; raises FormatError past a bound."""
    assert body.public == crypto.public_key(seed), "a device signs what it says itself"
    message = _encode_body(body)
    if _decode_body(message) != body:
        raise FormatError("a record of the group cannot be said in its form")
    return decode(encode([message, crypto.sign(seed, PURPOSE, message)]))


def decode(raw: bytes, *, checked: bool = False) -> GroupRecord:
    """Return the record that `raw` is; raises FormatError, SealError if its signature does not hold.

    `checked`: it did when these very bytes were kept, and a seal of this device has kept them since.
    """
    if len(raw) > GROUP_RECORD_BYTES_MAX:
        raise TooLargeError(f"a record of {len(raw)} bytes passes the bound of {GROUP_RECORD_BYTES_MAX}")
    match decode_value(raw):
        case [bytes(message), bytes(signature)] if len(signature) == crypto.SIGNATURE_BYTES:
            body = _decode_body(message)
            if not checked:
                crypto.verify(body.public, PURPOSE, message, signature)
            return GroupRecord(raw=raw, id=GroupRecordId(sha256(raw).digest()), body=body)
    raise FormatError("a record of the group is not a body with a signature")


def _encode_body(body: AnyBody) -> bytes:
    head: list[Value] = [VERSION, _KINDS[type(body)], body.public, b"".join(body.seen), body.under, body.at_ms]
    try:
        return encode(head + _fields(body))
    except UnicodeEncodeError as error:
        raise FormatError("a text in a record of the group holds half a character") from error


def _fields(body: AnyBody) -> list[Value]:
    match body:
        case Found():
            return [body.name, body.former]
        case Add():
            return [body.member, body.name, body.role.value]
        case Join():
            return [body.former]
        case Revoke():
            cutoffs: dict[Value, Value] = {session: b"".join(ends) for session, ends in body.cutoffs.items()}
            return [body.device, b"".join(body.memberships), cutoffs]
        case Allow():
            return [body.membership, body.approve]


class _Head(TypedDict):
    public: bytes
    seen: tuple[GroupRecordId, ...]
    under: GroupRecordId | None
    at_ms: int


def _decode_body(raw: bytes) -> AnyBody:
    fields = decode_value(raw, bytes_max=GROUP_RECORD_BYTES_MAX)
    if not isinstance(fields, list) or not fields or type(fields[0]) is not int:
        raise FormatError("a record of the group is not a list that begins with its version")
    if fields[0] > VERSION:
        raise NewerVersionError("a record of the group is of a newer version than this program knows")
    match fields:
        case [1, str(kind), bytes(public), bytes(seen), None | bytes() as under, int(at_ms), *rest]:
            head: _Head = {
                "public": _key(public),
                "seen": _ids(seen, GROUP_SEEN_MAX),
                "under": _id_or_none(under),
                "at_ms": _count(at_ms),
            }
            body = _decoded(kind, head, rest)
            if body is not None:
                if (under is None) is not isinstance(body, Found):
                    raise FormatError("only who founds a group is no member yet")
                return body
    raise FormatError("the fields of a record of the group are not as its version says")


def _decoded(kind: str, head: _Head, rest: list[Value]) -> AnyBody | None:
    match kind, rest:
        case "found", [str(name), None | bytes() as former]:
            return Found(**head, name=_name(name), former=_id_or_none(former))
        case "add", [bytes(member), str(name), str(role)]:
            if role not in _ROLES:
                raise FormatError("a record of the group gives a role that there is not")
            return Add(**head, member=_key(member), name=_name(name), role=_ROLES[role])
        case "join", [None | bytes() as former]:
            return Join(**head, former=_id_or_none(former))
        case "revoke", [bytes(device), bytes(memberships), dict(cutoffs)] if memberships:
            ended = _ids(memberships, GROUP_MEMBERSHIPS_MAX)
            return Revoke(**head, device=DeviceId(_id(device)), memberships=ended, cutoffs=_cutoffs(cutoffs))
        case "allow", [bytes(membership), bool(approve)]:
            return Allow(**head, membership=_id(membership), approve=approve)
    return None


def _cutoffs(pairs: dict[Value, Value]) -> Mapping[SessionId, tuple[StatementId, ...]]:
    found: dict[SessionId, tuple[StatementId, ...]] = {}
    for session, ends in pairs.items():
        if not isinstance(session, bytes) or not isinstance(ends, bytes) or not ends:
            raise FormatError("a cut-off is not a session with statements")
        of = _ids(ends, GROUP_CUTOFF_ENDS_MAX)
        found[SessionId(StatementId(_id(session)))] = tuple(StatementId(one) for one in of)
    return found


def _ids(joined: bytes, count_max: int) -> tuple[GroupRecordId, ...]:
    """Return the ids that are `joined`: each once, ascending, so that one set has one form."""
    if len(joined) % ID_BYTES or len(joined) > count_max * ID_BYTES:
        raise FormatError("ids in a record of the group are cut off, or too many")
    found = [GroupRecordId(joined[at : at + ID_BYTES]) for at in range(0, len(joined), ID_BYTES)]
    if any(one >= other for one, other in itertools.pairwise(found)):
        raise FormatError("ids in a record of the group do not ascend")
    return tuple(found)


def _id(raw: bytes) -> GroupRecordId:
    if len(raw) != ID_BYTES:
        raise FormatError("an id in a record of the group is of the wrong length")
    return GroupRecordId(raw)


def _id_or_none(raw: bytes | None) -> GroupRecordId | None:
    return None if raw is None else _id(raw)


def _key(raw: bytes) -> bytes:
    if len(raw) != PUBLIC_BYTES:
        raise FormatError("a key in a record of the group is of the wrong length")
    return raw


def _count(number: int) -> int:
    if type(number) is not int or not 0 <= number <= STATEMENT_COUNT_MAX:
        raise FormatError("a number in a record of the group is out of range")
    return number


def _name(text: str) -> str:
    if not 1 <= len(text.encode("utf-8", "surrogatepass")) <= TITLE_BYTES_MAX:
        raise FormatError("a name in a record of the group is empty or too long")
    return text


_KINDS: Mapping[type, str] = {Found: "found", Add: "add", Join: "join", Revoke: "revoke", Allow: "allow"}
_ROLES = {role.value: role for role in Role}
