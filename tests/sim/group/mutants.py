"""Deliberate faults in the code of the group, each of which some seed must notice."""

from __future__ import annotations

from tests.sim.mutants import Mutant

_JUDGING, _RESOLVE = "hhd_protocol.group.judging", "hhd_protocol.group.resolve"
_GROUP, _TAKEN, _CUTOFFS = "hhd.node.group", "hhd.node.group_taken", "hhd_protocol.fencing.cutoffs"

MUTANTS: dict[str, Mutant] = {
    "who knows that it is out goes on to sign": Mutant(
        breaks="only members change anything", module=_JUDGING, old=" or self.ended(body.under, past):", new=":"
    ),
    "what comes at the same time undoes a revocation": Mutant(
        breaks="mutual revocation puts both out",
        module=_JUDGING,
        old=" or self.ended(body.under, past):",
        new=" or self.ended(body.under, -1):",
    ),
    "anybody adds and revokes": Mutant(
        breaks="only full members change anything",
        module=_JUDGING,
        old="if self.role(body.under) is not Role.FULL:",
        new="if False:",
    ),
    "one speaks as another": Mutant(
        breaks="only members change anything", module=_JUDGING, old="self.key(body.under) != body.public or ", new=""
    ),
    "what a thief added unseen stays, where it came first": Mutant(
        breaks="an introduction that no revoker saw falls",
        module=_JUDGING,
        old="for given in self._given.get(membership, ()) if news else ():",
        new="for given in ():",
    ),
    "what a thief added unseen stays, where it came later": Mutant(
        breaks="an introduction that no revoker saw falls",
        module=_JUDGING,
        old="self._against[record.id] = self._ended.get(body.under, 0)",
        new="self._against[record.id] = 0",
    ),
    "whoever a revocation names is out": Mutant(
        breaks="a membership is of one device",
        module=_JUDGING,
        old=" or self.device(membership) != device:",
        new=":",
    ),
    "a past forgets what is named through others": Mutant(
        breaks="order", module=_JUDGING, old="past |= self.pasts[place] | 1 << place", new="past |= 1 << place"
    ),
    "what is not good is in a past": Mutant(
        breaks="what is not good is nothing",
        module=_JUDGING,
        old="if place is not None and self.all >> place & 1:",
        new="if place is not None:",
    ),
    "the last word on approving is the first": Mutant(
        breaks="approvals",
        module=_RESOLVE,
        old="last = [record for record in records if not",
        new="last = [record for record in records if True or not",
    ),
    "a right to approve outlives the membership": Mutant(
        breaks="approvals",
        module=_RESOLVE,
        old="live.id == body.under and target",
        new="target",
    ),
    "of two roles the greater counts": Mutant(
        breaks="the least role counts",
        module=_RESOLVE,
        old="live = min(held, key=lambda one: (_LEAST_FIRST.index(one.role), one.id), default=None)",
        new="live = max(held, key=lambda one: (_LEAST_FIRST.index(one.role), one.id), default=None)",
    ),
    "only one of two cut-offs": Mutant(
        breaks="cut-offs unite",
        module=_CUTOFFS,
        old="for revocation in counting:\n            self._accept",
        new="for revocation in {one.device: one for one in counting}.values():\n            self._accept",
    ),
    "who is added again has all it said counted": Mutant(
        breaks="what was signed while out stays sealed",
        module=_CUTOFFS,
        old="return statement.by in self._cut and",
        new="return statement.by in self.revoked and",
    ),
    "who is added again goes on to be sealed": Mutant(
        breaks="a new chain counts", module=_CUTOFFS, old="        self._accept_anew()\n", new=""
    ),
    "records of who is out are not kept": Mutant(
        breaks="they converge",
        module=_TAKEN,
        old="if record.id in group.good]",
        new="if record.id in group.good and record.body.by in group.members]",
    ),
    "who is out may sign": Mutant(
        breaks="a device that is out is refused",
        module=_GROUP,
        old="if self._me.id not in group.full:",
        new="if False:",
    ),
    "one device fills everything": Mutant(
        breaks="bounds", module=_TAKEN, old="counts[key, kind] < GROUP_RECORDS_OF_ONE_MAX and ", new=""
    ),
    "what is signed names nothing": Mutant(
        breaks="a record names all that was known",
        module=_GROUP,
        old='"seen": group.ends, "under"',
        new='"seen": (), "under"',
    ),
}
