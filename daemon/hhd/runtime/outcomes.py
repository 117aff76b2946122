"""What a caller asks of a running guest, and how a run can end."""

from __future__ import annotations

from dataclasses import dataclass

from hhd_protocol.abi import EffectRequest
from hhd_protocol.limits import MEMORY_BYTES_MAX, TRANSCRIPT_BYTES_MAX


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What one guest may use of this device.

    `memory_bytes`: linear memory; growing past it fails inside the guest, so a session keeps one value for life.
    `transcript_bytes`: what it may still emit. `stuck_seconds`: processor time without reaching an interrupt check
    after which it counts as stuck. `cpu_seconds`: processor time of one `run`, None for no limit.
    """

    memory_bytes: int = MEMORY_BYTES_MAX
    transcript_bytes: int = TRANSCRIPT_BYTES_MAX
    stuck_seconds: float = 10.0
    cpu_seconds: float | None = None


@dataclass(frozen=True, kw_only=True)
class Slice:
    """How far to run: exactly `checks` interrupt checks, or about `milliseconds`, whichever comes first."""

    checks: int | None = None
    milliseconds: float | None = None

    def __post_init__(self) -> None:
        assert self.checks is None or self.checks >= 1, "a slice makes progress"
        assert self.milliseconds is None or self.milliseconds >= 0


class StopFlag:
    """Asks a running guest to pause at its next look; may be set from a signal handler or another thread."""

    def __init__(self) -> None:
        self.is_set = False

    def set(self) -> None:
        """Ask; a request stays until a new flag is used."""
        self.is_set = True


@dataclass(frozen=True, kw_only=True)
class Interrupted:
    """The slice is over or a stop was asked for; the guest stands at an interrupt check."""


@dataclass(frozen=True, kw_only=True)
class Waiting:
    """The guest asked something of the world and stands in that call until it is answered."""

    effect: EffectRequest


@dataclass(frozen=True, kw_only=True)
class Finished:
    """The program ran to its end."""


@dataclass(frozen=True, kw_only=True)
class Failed:
    """The instance is of no further use; the snapshot it came from stays good. `reason` is one sentence, safe to print.

    `stuck`: the guest could not be stopped and still runs on a thread of this process, which should end soon.
    `too_deep`: only the pause failed, for there were more calls on the stack than a pause has room for; from the same
    snapshot, another slice may end at a better place.
    """

    reason: str
    stuck: bool = False
    too_deep: bool = False


Outcome = Interrupted | Waiting | Finished | Failed
