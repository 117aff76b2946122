"""Figures of lineage: sorting what a peer sends, resolving long sessions, and going on with one."""

from __future__ import annotations

import functools
import gc
import hashlib
import statistics
from collections.abc import Sequence

from tests.bench.harness import paired, percentile, report, timed

from hhd_protocol import crypto, lineage
from hhd_protocol.bodies import AnyBody, CheckpointBody, CreateBody
from hhd_protocol.fencing import Resolved, View
from hhd_protocol.ids import CheckpointId, FamilyId, Incarnation, ObjectName, Sha256
from hhd_protocol.lineage import Signed
from hhd_protocol.statements import Checkpoint, Fact, Progress, Role

COMMAND = "python -m tests.bench lineage"
SEED = bytes(32)
PUBLIC = crypto.public_key(SEED)
ME = crypto.device_id(PUBLIC)
MEMBERS = {ME: Role.FULL}


def body(number: int, before: Signed, create: Signed, at: CheckpointId | None) -> CheckpointBody:
    """The next checkpoint of an ordinary session: two objects, one effect asked or answered."""
    return CheckpointBody(
        session=create.session,
        by=ME,
        after=before.id,
        seq=number + 1,
        incarnation=Incarnation(bytes(16)),
        at_ms=1_700_000_000_000 + number,
        token=create.id,
        parents=() if at is None else (at,),
        payload=Sha256(hashlib.sha256(b"%d" % number).digest()),
        objects=(ObjectName(hashlib.sha256(b"o%d" % number).digest()), ObjectName(bytes(32))),
        position=number // 2,
        effects={number // 2: Progress.ANSWERED if number % 2 else Progress.ASKED},
        turn=number % 10 == 9,
    )


def history(length: int) -> list[Signed]:
    """A create record and `length` checkpoints, signed."""
    first: AnyBody = CreateBody(
        session=None,
        by=ME,
        after=None,
        seq=0,
        incarnation=Incarnation(bytes(16)),
        at_ms=0,
        family=FamilyId(bytes(16)),
    )
    made = [lineage.sign(first, SEED)]
    for number in range(length):
        at = CheckpointId(made[-1].id) if number else None
        made.append(lineage.sign(body(number, made[-1], made[0], at), SEED))
    return made


def sort(raws: Sequence[bytes]) -> View:
    """What door 3 does with a peer's statements: read, check signatures, say what they mean."""
    session = lineage.decode(raws[0]).session
    signed = map(lineage.decode, raws)
    facts = [lineage.fact(one, lineage.verify(one, PUBLIC)) for one in signed]
    return Resolved(session=session, members=MEMBERS, facts=facts).view


def sorting() -> None:
    """1,000 checkpoints of a peer, against their signature checks alone."""
    made = history(1000)
    raws = [one.raw for one in made]
    view = sort(raws)
    assert view.main == made[-1].id and len(view.heads) == 1

    def checks() -> None:
        for one in made:
            crypto.verify(PUBLIC, lineage.PURPOSE, one.message, one.signature)

    figures = paired(lambda: sort(raws), checks, n=41, warmup=3)
    report("sorting 1,000 checkpoints of a peer / their signature checks", COMMAND, "warm", **figures, target=1.5)


def resolving() -> None:
    """A whole session anew, and its next checkpoint worked in."""
    for length in (1_000, 10_000, 100_000):
        facts = chain(length + 200)
        here, coming = facts[: length + 1], facts[length + 1 :]
        anew = functools.partial(Resolved, session=here[0].id, members=MEMBERS, facts=here)
        times = [timed(anew) for _ in range(7)]
        resolved = anew()
        resolved.add(coming[:1])  # The first one gathers what the statements here name.
        gc.collect()
        added = [timed(functools.partial(resolved.add, (fact,))) for fact in coming[1:]]
        assert resolved.view.main == coming[-1].id
        report(
            f"resolving a session of {length:,} checkpoints anew; one more worked in",
            COMMAND,
            "warm",
            n=len(times),
            median_ms=round(statistics.median(times), 2),
            p99_ms=round(percentile(times, 0.99), 2),
            next_n=len(added),
            next_median_us=round(1000 * statistics.median(added), 1),
            next_p99_us=round(1000 * percentile(added, 0.99), 1),
        )


def chain(length: int) -> list[Fact]:
    """The facts of such a session, not signed: that would take longer than what is measured."""
    first = lineage.fact(history(0)[0], True)
    made: list[Fact] = [first]
    for number in range(length):
        id = hashlib.sha256(b"c%d" % number).digest()
        parents = (made[-1].id,) if number else ()
        effect = lineage.effect_id(first.id, number // 2)  # type: ignore[arg-type]
        said = {effect: Progress.ANSWERED if number % 2 else Progress.ASKED}
        made.append(
            Checkpoint(
                id=id,  # type: ignore[arg-type]
                by=ME,
                after=made[-1].id,
                signature_good=True,
                token=first.id,
                parents=parents,
                effects=said,
            )
        )
    return made


def main() -> None:
    """Print every figure of lineage."""
    sorting()
    resolving()
