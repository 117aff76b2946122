"""The group: which devices of one person trust each other, from a set of signed records (`protocol/spec/group.md`).

    found = sign(Found(name="laptop", ...), seed)
    add = sign(Add(member=public_key, name="desktop", role=Role.FULL, under=found.id, ...), seed)
    group = resolve([found, add], root=found.id)

The answer is a function of the set: order, repetition, clocks and servers play no part. So devices that hold the same
records and follow the same root agree on who is a member, and on what of a revoked device still counts.
"""

from hhd_protocol.group.records import Add, Allow, AnyBody, Found, GroupRecord, Join, Revoke, decode, sign
from hhd_protocol.group.resolve import Device, Group, Membership, resolve

__all__ = [
    "Add",
    "Allow",
    "AnyBody",
    "Device",
    "Found",
    "Group",
    "GroupRecord",
    "Join",
    "Membership",
    "Revoke",
    "decode",
    "resolve",
    "sign",
]
