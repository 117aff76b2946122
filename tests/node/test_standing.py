"""A step of a session: what a pause makes of where it stood."""

from __future__ import annotations

import dataclasses

import pytest
from tests.protocol import forge

from hhd.node.standing import Pause, Standing, paused
from hhd_protocol.abi import EffectRequest
from hhd_protocol.errors import TooLargeError
from hhd_protocol.paused import At, Limits


def pause(**changes: object) -> Pause:
    fields = {
        "at": At.EFFECT,
        "snapshot": forge.snapshot((1, 2), 1024 * 4096),
        "changed": None,
        "emitted": b"said\n",
        "checks": 7,
        "asked": EffectRequest(op="model", request=b"next"),
        "asked_at": 0,
    }
    return Pause(**{**fields, **changes})  # type: ignore[arg-type]


def answered() -> Standing:
    value = forge.at_effect()
    return Standing.of(dataclasses.replace(value, journal=value.journal.start().answer(b"reply")))


def test_a_step_into_the_next_effect_settles_the_one_before() -> None:
    before = answered()
    step = paused(before, pause())
    assert step.settled is not None and step.settled.op == "tool"
    after = step.standing
    assert after.journal.settled == 1 and after.journal.pending is not None
    assert (after.checks, after.steps) == (before.checks + 7, before.steps + 1)
    assert after.transcript_bytes == before.transcript_bytes + 5


def test_a_step_that_asks_for_nothing_leaves_the_journal_as_it_is() -> None:
    before = answered()
    step = paused(before, pause(at=At.INTERRUPTED, asked=None))
    assert step.settled is None and step.standing.journal == before.journal


@pytest.mark.parametrize("limits", [Limits(transcript_bytes=8), Limits(effects=0)])
def test_a_session_that_passes_its_own_bounds_is_refused(limits: Limits) -> None:
    with pytest.raises(TooLargeError):
        paused(dataclasses.replace(answered(), limits=limits), pause())
