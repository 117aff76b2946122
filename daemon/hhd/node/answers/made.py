"""What was made of a session: another, or a file."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from hhd.base.files import Buffer
from hhd.node.answers.device import Device


@dataclass(frozen=True, kw_only=True)
class Forked:
    """A new session of the same family: from which session and checkpoint, if that is known here or said.

    `fresh`: False where it was there already. `by`: the device that sealed the capsule it was made of, None if none
    did. `folder`: where it goes on on this device unless another is named, "" where one has to be.
    """

    session: str
    title: str
    state: str
    origin: str | None
    checkpoint: str | None
    fresh: bool = True
    by: Device | None = None
    folder: str = ""


@dataclass(frozen=True, kw_only=True)
class Exporting:
    """A session as a capsule file: at which checkpoint, and sealed to which device (None: to none).

    `size`: bytes of the file, 0 where that is not known yet.
    """

    session: str
    title: str
    checkpoint: str
    to: Device | None
    sealed: bool
    size: int = 0


@dataclass(frozen=True, kw_only=True)
class Exported(Exporting):
    """The same with the file itself, in `parts`."""

    parts: Iterable[Buffer]


@dataclass(frozen=True, kw_only=True)
class Released:
    """A session was released to a device, for a file in `parts`; `fresh`: False where that was done before."""

    session: str
    title: str
    to: Device
    fresh: bool
    parts: Iterable[Buffer]


@dataclass(frozen=True, kw_only=True)
class Received:
    """A session was taken from a release file that the device `by` made; its files are in `folder` ("": none are).

    `instead`: why that is not the folder where they belong; `notes`: what else to say of them.
    """

    session: str
    title: str
    by: Device
    state: str
    folder: str
    instead: str
    notes: tuple[str, ...]
