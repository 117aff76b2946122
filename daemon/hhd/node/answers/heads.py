"""The heads of a session, as the verbs answer them."""

from __future__ import annotations

from dataclasses import dataclass

from hhd.node.answers.device import Device


@dataclass(frozen=True, kw_only=True)
class Head:
    """One end of a session's work; `name` is what a person calls it, "" if nothing.

    `main`: the tip of the owner's line. `standing`: "head", or why it is none though it is kept: "held" (something it
    stands on is not here) or "sealed" (from a revoked device). `fork`: the checkpoint where it parts from the main
    line, for the main head where another parts from it last; None where there is none. `picked`: it, or a checkpoint
    past the fork that it stands on, is preferred: a line that goes on stays picked. `turns`, `effects` that were
    answered, `waiting` ones that were not, and `files`: past that fork. `files` is None where the content is gone.
    `files_from`: "captures" of the folder, which have whatever changed it, or "calls" of the write and edit tools.
    """

    id: str
    name: str
    device: Device
    at_ms: int
    token: int | None
    main: bool
    picked: bool
    archived: bool
    standing: str
    fork: str | None
    turns: int
    effects: int
    waiting: int
    files: tuple[str, ...] | None
    files_from: str


@dataclass(frozen=True, kw_only=True)
class Heads:
    """The heads of a session, the main one first.

    `removed`: it was removed on all devices, by one that did not know all that is here. `left_out`: how many are
    not among these because they are archived.
    """

    session: str
    title: str
    heads: tuple[Head, ...]
    removed: bool
    left_out: int = 0
