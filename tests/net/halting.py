"""A daemon that stops where it is, like a process that gets SIGSTOP, the moment a handoff has come to a stage.

    python -m tests.net.halting daemon             # instead of `python -m hhd daemon`

The stage is durable then, and nothing more was done for it: no message of it was sent. Which stage, says the file ORDER
in the device's data folder (`place`); the daemon answers with the file HALTED before it stops, and stops once. The
product is as it is; only here, in this process, its notice of a stage is wrapped, and it waits less.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path

from hhd_protocol.handoff import Handoff, Side, Stage

ORDER, HALTED = "halt-at", "halted-at"


def place(side: Side, stage: Stage) -> str:
    """A stage at one side, as the two files name it."""
    return f"{side.value} {stage.value}"


def order(data: Path, where: str) -> None:
    """Let the daemon whose data is in `data` stop when it comes to `where`, the next time."""
    (data / HALTED).unlink(missing_ok=True)
    written = data / f"{ORDER}.new"
    written.write_text(where)
    written.rename(data / ORDER)


def called_off(data: Path) -> None:
    """Let it not stop."""
    (data / ORDER).unlink(missing_ok=True)
    (data / HALTED).unlink(missing_ok=True)


def _stop_at_order(where: str) -> None:
    data = Path(os.environ["HHD_DATA_HOME"])
    try:
        if (data / ORDER).read_text() != where:
            return
        (data / ORDER).rename(data / HALTED)
    except FileNotFoundError:
        return
    os.kill(os.getpid(), signal.SIGSTOP)


def main() -> None:
    """`hhd`, whose handoffs stop."""
    from hhd import __main__
    from hhd.node import dialling, handoff_again, handoff_turns, handoff_wishes
    from hhd.node.handoff_going import Going

    came = handoff_turns.Turns._now

    def now(turns: handoff_turns.Turns, going: Going, after: Handoff) -> None:
        changed = after.stage is not going.one.stage
        came(turns, going, after)
        if changed:
            _stop_at_order(place(after.side, after.stage))

    handoff_turns.Turns._now = now  # type: ignore[method-assign]
    dialling.STABLE_SECONDS = 0.0  # A line that is cut in every test is not one that flaps.
    handoff_wishes.REPLY_SECONDS, handoff_again.AGAIN_SECONDS = 3.0, 1.0
    __main__.main()


if __name__ == "__main__":
    main()
