"""The group as the verbs answer it."""

from __future__ import annotations

from dataclasses import dataclass

from hhd.node.answers.device import Device


@dataclass(frozen=True, kw_only=True)
class Grouped:
    """A member now: `approves`: it may approve for this device; `added_by`: the device that took it in, None for who
    founded the group; `joined`: it said itself that it took it."""

    id: str
    name: str
    here: bool
    role: str
    approves: bool
    added_by: Device | None
    at_ms: int
    joined: bool


@dataclass(frozen=True, kw_only=True)
class Gathering:
    """The devices of a person: `members` now, this one first; `former` ones, which were put out; `fallen` ones, which
    were added by a device that was put out, unseen by who put it out. `out`: this device itself was put out."""

    members: list[Grouped]
    former: list[Device]
    fallen: list[Device]
    out: bool


@dataclass(frozen=True, kw_only=True)
class Unpaired:
    """A device was put out. `sessions`: those that it had, by id: they can be taken over. `introduced`: members that it
    had added, which stay."""

    device: Device
    sessions: list[str]
    introduced: list[Device]


@dataclass(frozen=True, kw_only=True)
class Allowed:
    """Whether a device may approve for this one, before and now."""

    device: Device
    before: bool
    after: bool


@dataclass(frozen=True, kw_only=True)
class Named:
    """A device has another name; `questions`: what two devices said without knowing of each other, in sentences."""

    device: Device
    before: str | None
    questions: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Refounded:
    """The group was begun anew, of this device alone; `left`: members of the one it left."""

    device: Device
    left: list[Device]
