"""A daemon in which handoffs stand still, each at a stage of its own, while all else of the daemon goes on.

    python -m tests.net.still daemon             # instead of `python -m hhd daemon`

Where the handoff of a session is to stand says a file named by the session in FOLDER, in the device's data folder
(`order`); one beside it says that it stands (`stands`), and it goes on when the order is taken away (`let_go`). What
the stage makes durable is durable then, and nothing more was done for it. One that is to stand at `ready` does so
before it signs: the record of that stage is one transaction with the release. The product is as it is; only here, in
this process, the two places where a stage is gone on from are wrapped, and it waits less.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

from tests.net.halting import place

from hhd_protocol.handoff import Side, Stage
from hhd_protocol.ids import SessionId

FOLDER = "stand-still"


def order(data: Path, session: SessionId, side: Side, stage: Stage) -> None:
    """Let the handoff of `session` stand still at that stage, in the daemon whose data is in `data`."""
    (data / FOLDER).mkdir(exist_ok=True)
    written = data / FOLDER / f"{session.hex()}.new"
    written.write_text(place(side, stage))
    written.rename(data / FOLDER / session.hex())


def stands(data: Path, session: SessionId) -> bool:
    """Whether it came there."""
    return (data / FOLDER / f"{session.hex()}.stands").exists()


def let_go(data: Path) -> None:
    """Let all go on."""
    for one in (data / FOLDER).glob("*"):
        if not one.suffix:
            one.unlink()


def _folder() -> Path:
    return Path(os.environ["HHD_DATA_HOME"]) / FOLDER


async def _stand(session: SessionId, where: str) -> None:
    folder = _folder()
    here = folder / session.hex()
    if not here.exists() or here.read_text() != where:
        return
    (folder / f"{session.hex()}.stands").touch()
    while here.exists():
        await asyncio.sleep(0.02)  # What is waited for is another process.


def main() -> None:
    """`hhd`, whose handoffs stand still."""
    from hhd import __main__
    from hhd.node import dialling, workers
    from hhd.node.handoff.going import Going
    from hhd.node.handoff.turns import Turns

    happen, sign, rest_of = Turns.happen, Turns._sign, Turns._rest_of

    async def happened(turns: Turns, going: Going, *given: Any) -> None:
        happening = happen(turns, going, *given)
        if (_folder() / going.session.hex()).exists():
            turns._ways.soon(happening)  # What others say comes one after the other, of all handoffs.
        else:
            await happening

    async def signed(turns: Turns, going: Going, *given: Any) -> None:
        await _stand(going.session, place(Side.SOURCE, Stage.READY))
        await sign(turns, going, *given)

    async def rested(turns: Turns, going: Going, *given: Any) -> None:
        await _stand(going.session, place(going.one.side, going.one.stage))
        await rest_of(turns, going, *given)

    Turns.happen, Turns._sign, Turns._rest_of = happened, signed, rested  # type: ignore[method-assign]
    dialling.STABLE_SECONDS = 0.0  # A line that is cut in every test is not one that flaps.
    workers.LINGER_SECONDS = 0.2  # Nobody is attached, and what it waits for is answered once its process is gone.
    __main__.main()


if __name__ == "__main__":
    main()
