"""What a takeover would do, and did, as the verbs answer it."""

from __future__ import annotations

from dataclasses import dataclass

from hhd.node.answers.device import Device


@dataclass(frozen=True, kw_only=True)
class Doubt:
    """An effect that may have run elsewhere: its number, what it is, and what is known of it, in lines."""

    effect: int
    op: str
    text: str


@dataclass(frozen=True, kw_only=True)
class Takeable:
    """What a person is shown before a session is taken over.

    `owner`: the device that has it now; None where no record says. `token`: its number. `head`: the checkpoint to go on
    from, `by` who made it; `main`: it is the owner's last one, as far as is known here. `age_ms`: how old that is;
    counted from when it came here, by this device's clock, if `clock` is "ours"; where that is not known, by the clock
    of the device that made it ("theirs"). `behind`: checkpoints after it that are known here, without their content.
    `folder`: where the files of that moment belong here, "" where that is not known; `capture`: those files, "" if none
    were captured. `handoff`: the stage of the open handoff that it ends, "" for none. `heads`: how many there are.
    """

    session: str
    title: str
    owner: Device | None
    token: int
    head: str
    main: bool
    by: Device
    age_ms: int
    clock: str
    behind: int
    heads: int
    doubts: tuple[Doubt, ...]
    capture: str
    folder: str
    handoff: str


@dataclass(frozen=True, kw_only=True)
class TakenOver:
    """A session was taken over, with the files of its head in `folder` ("": none were captured, or none could appear).

    `instead`: why that is not the folder where it belongs; `notes`: what else to say of the files; `uncertain`: the
    session waits for a word on what may have run.
    """

    session: str
    title: str
    token: int
    head: str
    folder: str
    instead: str
    notes: tuple[str, ...]
    uncertain: bool
