"""Deliberate faults in the code of handoffs, each of which some seed must notice."""

from __future__ import annotations

from tests.sim.holding.mutants import MUTANTS as OF_HOLDING
from tests.sim.mutants import Mutant

_STAGES, _MACHINE = "hhd_protocol.handoff.stages", "hhd_protocol.handoff.machine"

MUTANTS: dict[str, Mutant] = {
    "the release is sent, then persisted": Mutant(
        breaks="2", module=_STAGES, old="_A.PERSIST, _A.RELEASE)", new="_A.RELEASE, _A.PERSIST)"
    ),
    "it is said to be taken, then persisted": Mutant(
        breaks="2", module=_STAGES, old="_A.PERSIST, _A.OPEN, _A.TOOK)", new="_A.TOOK, _A.OPEN, _A.PERSIST)"
    ),
    "a release is bound to nobody": Mutant(breaks="1", module=_MACHINE, old="        and grant.to == to\n", new=""),
    "a release may be aborted": Mutant(
        breaks="1",
        module=_STAGES,
        old="_source(PENDING, _H.CANCELLED,",
        new="_source((*PENDING, _S.RELEASED), _H.CANCELLED,",
    ),
    "a release is undone when the target gives up": Mutant(
        breaks="1", module=_STAGES, old="_source(PENDING, _H.ABORT,", new="_source((*PENDING, _S.RELEASED), _H.ABORT,"
    ),
    "who is told again that it was taken says nothing": Mutant(
        breaks="6", module=_STAGES, old="    _source((*_GIVEN, _S.SUPERSEDED), _H.TOOK, None, _A.CLOSED),\n", new=""
    ),
    "a pause that a crash ended is not taken up again": Mutant(
        breaks="6", module=_STAGES, old="    _source(_PAUSING, _H.DUE, None, _A.PAUSE),\n", new=""
    ),
    "a target that gave up takes nothing any more": Mutant(
        breaks="6",
        module=_STAGES,
        old="_target((_S.NONE, *UNTAKEN, _S.ABORTED), _H.RELEASE,",
        new="_target((_S.NONE, *UNTAKEN), _H.RELEASE,",
    ),
    "a number is reset on release": OF_HOLDING["a number is reset on release"],
    "asked is taken for not started": OF_HOLDING["asked is taken for not started"],
}
