"""A store that has no room at any one of a session's steps: one sentence, nothing lost, and it goes on with room."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.e2e.lab import call, needs_agent, says, text
from tests.node.driven import GLOB
from tests.node.stored import Laptop

from hhd.base.errors import Exit, UserError
from hhd.effects.executor import HowSettled, Settlement, UnwrittenReply
from hhd.node.ended import End
from hhd.node.run import Run
from hhd.node.standing import Step
from hhd.store.check import Check
from hhd.store.store import Limits, Store

pytestmark = needs_agent

COUNT = says(call("bash", command="echo x >> runs; echo one"))
SCRIPT = [GLOB, COUNT, says(text("Done."))]


@contextmanager
def full(store: Store) -> Iterator[None]:
    """The file may not grow by a page: the write fails in the middle of the transaction."""
    connection = store.database._connection
    pages = connection.execute("PRAGMA page_count").fetchone()[0]
    connection.execute(f"PRAGMA max_page_count={pages}")
    try:
        yield
    finally:
        connection.execute("PRAGMA max_page_count=1000000")


def filling(run: Run, store: Store, number: int) -> list[int]:
    """Let the store be full at save `number`; return where the count of saves is kept."""
    real, count = run.session.keeper.save, [0]

    def save(step: Step) -> None:
        count[0] += 1
        if count[0] != number:
            return real(step)
        with full(store):
            return real(step)

    run.session.keeper.save = save  # type: ignore[method-assign]
    return count


def laptop(folder: Path) -> Laptop:
    return Laptop(folder=folder, script=SCRIPT)


def test_at_any_step_the_session_pauses_and_goes_on_once_there_is_room(tmp_path: Path) -> None:
    uncut = laptop(tmp_path / "uncut")
    session = uncut.create()
    with uncut.run(session) as run:
        steps = filling(run, uncut.store, 0)
        run.go()
    whole = uncut.transcript(session)
    refused = 0
    for number in range(1, steps[0] + 1):
        cut = laptop(tmp_path / f"cut-{number}")
        session = cut.create()
        settlement = None
        try:
            with cut.run(session) as run:
                filling(run, cut.store, number)
                run.go()
        except UserError as error:
            refused += 1
            assert "\n" not in str(error) and error.exit in (Exit.ROLLED_BACK, Exit.UNCERTAIN), str(error)
            if isinstance(error, UnwrittenReply):
                settlement = Settlement(how=HowSettled.RAN, reply=error.reply)
        assert Check(cut.store, read_data=True).run().findings == []
        assert cut.go(session, settlement=settlement).end is End.WAITING
        assert (cut.repo / "runs").read_text() == "x\n", f"at save {number}"
        assert cut.transcript(session) == whole, f"at save {number}"
        cut.store.close()
    assert refused >= 3, "many a step fits the free pages of the file, but not all do"


def test_a_reply_that_cannot_be_had_again_may_take_of_the_room_that_is_to_stay_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cut = laptop(tmp_path)
    session = cut.create()

    def runs_low(step: Step) -> None:
        live = step.standing.journal.live
        if live is not None and live.op == "tool" and b"runs" in live.request and live.reply is None:
            real(step)
            cut.store.limits = Limits(free_bytes_min=1 << 60)  # From here on there is too little.
            return
        real(step)

    with cut.run(session) as run:
        real = run.session.keeper.save
        monkeypatch.setattr(run.session.keeper, "save", runs_low)
        with pytest.raises(UserError, match="are to stay so: nothing was stored and the session is paused"):
            run.go()
    cut.store.limits = Limits(free_bytes_min=0)
    assert cut.go(session).end is End.WAITING, "no word of a person was needed: the result is there"
    assert (cut.repo / "runs").read_text() == "x\n"
