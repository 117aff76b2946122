"""Each rule of fencing has a case that fails when the rule is read wrongly."""

from __future__ import annotations

import random
import sys
import types
from pathlib import Path

import pytest
from tests.protocol import test_fencing as cases

import hhd_protocol.fencing as right

FOLDER = Path(right.__file__).parent
SOURCES = {
    name: (FOLDER / f"{name}.py").read_text()
    for name in ("view", "cutoffs", "removal", "chain", "graph", "doubts", "resolve")
}
"""The files of the package, each after those it imports."""

MUTANTS = {
    "tokens by number only": ("record.number, record.kind is RecordKind.RELEASE, record.id", "record.number, False, b''"),
    "a takeover beats a release": ("record.kind is RecordKind.RELEASE, record.id", "record.kind is RecordKind.TAKEOVER, record.id"),
    "the lesser id wins": ("    return record.number, record.kind is RecordKind.RELEASE, record.id", "    return record.number, record.kind is RecordKind.RELEASE, bytes(255 - b for b in record.id)"),
    "numbers may skip": ("record.number != prev.number + 1", "record.number <= prev.number"),
    "anyone releases": (" and (prev is None or record.by == prev.to)", ""),
    "a release to oneself": ("return record.to != record.by and", "return True and"),
    "any role takes": ("is not Role.FULL for device", "is None for device"),
    "any create is this session's": ("record.id == self._session and ", ""),
    "an unknown member is taken": ("not {record.by, record.to} <= self._members.keys()", "False"),
    "an older token is refused": ("token is not None and token.to != checkpoint.by", "token is not None and token is not self._chain.top"),
    "another's token is accepted": ("or (token is not None and token.to != checkpoint.by)", ""),
    "a signature is not checked": ("not checkpoint.signature_good or", "False or"),
    "parents that are not here do not matter": ("self.standings.get(parent, Standing.HELD)\n", "self.standings.get(parent, Standing.COUNTS)\n"),
    "a record that is not here does not matter": ("self._chain.standings.get(checkpoint.token, Standing.HELD)", "self._chain.standings.get(checkpoint.token, Standing.COUNTS)"),
    "a refused parent is forgotten": ("if ground is Standing.REFUSED or worst", "if worst"),
    "a parent mends what its token lacks": ("if ground is Standing.REFUSED or worst is Standing.COUNTS or worst is Standing.SEALED:", "if True:"),
    "children may come before their parents": ("                break\n            seen", "                pass\n            seen"),
    "a held child hides its parent": ("for checkpoint in self.counting for parent", "for checkpoint in checkpoints.values() for parent"),
    "the main tip is a head only by itself": ("tips | ({self.main} if self.main is not None else set())", "tips"),
    "a split is decided by an id": ("if len(followers) > 1:\n                return None", "followers.sort()"),
    "main jumps off the line": ("for parent in checkpoint.parents or (None,):", "for parent in (at_top(children, top),):"),
    "the owner's line takes any token": ("if checkpoint.token == top.id:", "if True:"),
    "revocations by anybody": ("members.get(revocation.by) is Role.FULL", "True"),
    "a revoked device revokes back": ("self._counted[id] = not any(", "self._counted[id] = True or any("),
    "only one of two cut-offs": ("for revocation in counting:\n            self._accept", "for revocation in {one.device: one for one in reversed(counting)}.values():\n            self._accept"),
    "the cut-off by position, whatever the chain": ("statement.by in self._cut and statement.id not in self._accepted", "False"),
    "revocation seals all": ("statement.id not in self._accepted", "True"),
    "a sealed record breaks the chain": ("if below is Standing.REFUSED:", "if below in (Standing.REFUSED, Standing.SEALED):"),
    "sealed work cannot be adopted": ("not in (Standing.COUNTS, Standing.SEALED):\n            return None", "is not Standing.COUNTS:\n            return None"),
    "asked is as good as not started": ("if said in _CLOSED or", "if said is Progress.ASKED or said in _CLOSED or"),
    "settled does not settle": ("_CLOSED = (Progress.ANSWERED, Progress.SETTLED)", "_CLOSED = (Progress.ANSWERED,)"),
    "a rerun is not asked anew": ("if said is Progress.RERUN or effect not in self.progress:", "if effect not in self.progress:"),
    "a release settles what a takeover left": ("queue.extend(record.id for record in self._children.get(token, ()))", "queue.extend(record.id for record in self._children.get(token, ()) if record.kind is RecordKind.TAKEOVER)"),
    "only the asking token matters": ("for token in self._tokens_from(tokens | self._tokens_past(effect)):", "for token in tokens | self._tokens_past(effect):"),
    "a release proves nothing": ("record.kind is RecordKind.RELEASE and self._chain.standings", "False and self._chain.standings"),
    "a release after a roll-back proves not started": ("if self._chain.records[token].to in self._cutoffs.rolled_back:", "if False:"),
    "any closing checkpoint clears": ("            if checkpoint.token == token:\n", "            if True:\n"),
    "a closing checkpoint clears whatever it says": ("said in (Progress.ASKED, Progress.RERUN) and since", "since"),
    "a closing checkpoint that forgot clears": ("unknown = Progress.STARTED if asked_there", "unknown = Progress.ASKED if asked_there"),
    "any checkpoint closes": ("for checkpoint in graph.counting if checkpoint.closing]", "for checkpoint in graph.counting]"),
    "intents do not matter": ("for intent in intents:", "for intent in ():"),
    "a release proves whatever its line says": ("said = self._line_to(record.head).progress.get(effect, unknown)", "said = Progress.ASKED"),
    "a closing journal speaks of its token alone": ("Progress.STARTED if known else unknown", "unknown"),
    "only tokens that descend may have run it": (" | self._tokens_past(effect)", ""),
    "asked anew is not started, whoever asks": (" and since", ""),
    "asked anew proves nothing": ("said in (Progress.ASKED, Progress.RERUN) and since", "said is Progress.ASKED and since"),
    "only the main line is consulted": ("tokens = tokens.union(self._spoken_of_elsewhere.get(effect, ()))", "pass"),
    "a line that is not whole is not consulted": ("if id not in main and self._graph.standings[id] is not Standing.REFUSED:", "if id not in main and self._graph.standings[id] is Standing.COUNTS:"),
    "a refused line is consulted": ("if id not in main and self._graph.standings[id] is not Standing.REFUSED:", "if id not in main:"),
    "another line stands above a person's word": ("            if said is not None:\n                tokens = tokens.union", "        if said is not None:\n            tokens = tokens.union"),
    "what was started is taken back": ("if token in tokens and said is Progress.STARTED:", "if False:"),
    "waiting for a person is uncertain": (" or self._kinds.get(effect, EffectKind.TOOL) is not EffectKind.TOOL", ""),
    "a fork forgets what was unanswered": ("(said is None and effect in self._pending) or ", ""),
    "a receipt elsewhere settles": ("(self.uncertain - looked) | found\n", "(self.uncertain - looked) | (found - self._answered_elsewhere)\n"),
    "no evidence": ("self.uncertain & (self._answered_elsewhere | self._late_evidence)", "self.uncertain & self._late_evidence"),
    "a split lists doubts": ("        if self._graph.main is None:\n            return\n        looked", "        looked"),
    "a fork's settled effects stay in doubt": ("(said is None and effect in self._pending)", "effect in self._pending"),
    "a joined line's worse word is forgotten": ("max(here, said, key=_RANK.__getitem__)", "min(here, said, key=_RANK.__getitem__)"),
    "a joined line's last word stands": ("max(here, said, key=_RANK.__getitem__)", "here"),
    "a joined line's tokens are forgotten": ("self.under.get(effect, frozenset()) | other.under[effect]", "self.under.get(effect) or other.under[effect]"),
    "a late receipt shows nothing": ("if effect in self._late:\n                return True", "pass"),
    "a late receipt is no evidence": ("self.uncertain & (self._answered_elsewhere | self._late_evidence)", "self.uncertain & self._answered_elsewhere"),
    "anybody's receipt shows something": ("receipt.signature_good and self._by_its_holder(receipt) and", "receipt.signature_good and"),
    "a receipt's signature is not checked": ("receipt.signature_good and self._by_its_holder(receipt)", "self._by_its_holder(receipt)"),
    "a revoked device's receipt is evidence": (" if not cutoffs.seals(receipt)", ""),
    "a revoked device's receipt shows nothing": ("for receipt in late}", "for receipt in late if not cutoffs.seals(receipt)}"),
    "the owner's own receipt is late": (" and top is not None and receipt.token != top.id", ""),
    "a receipt outlives 'again'": ("        if said is not Progress.RERUN:\n            if effect", "        if True:\n            if effect"),
    "anybody's intent counts": ("intent.signature_good and self._by_its_holder(intent)", "intent.signature_good"),
    "an intent's signature is not checked": ("intent.signature_good and self._by_its_holder(intent)", "self._by_its_holder(intent)"),
    "intents are no part of a chain": ("Cutoffs(self.facts, revocations", "Cutoffs({**records, **checkpoints, **revocations}, revocations"),
    "a newer head dies with the session": ("removed=bool(self._tombstones) and not beyond", "removed=bool(self._tombstones)"),
    "heads that are not named keep a session": ("and id[:_COVER_BYTES] not in known", ""),
    "a named head is not covered": ("if id not in heads and", "if"),
    "only the first tombstone counts": ("for tombstone in tombstones:\n        known", "for tombstone in tombstones[:1]:\n        known"),
    "anybody removes": ("and members.get(tombstone.by) is Role.FULL", ""),
    "a tombstone's signature is not checked": ("if tombstone.signature_good\n        and", "if"),
    "a revoked device removes": ("cutoffs is not None and cutoffs.seals(tombstone)", "False"),
    "held work dies with the session": ("self._graph.checkpoints.keys() - of[Standing.REFUSED]", "self._graph.checkpoints.keys() - of[Standing.REFUSED] - of[Standing.HELD]"),
    "refused work keeps a session": ("self._graph.checkpoints.keys() - of[Standing.REFUSED]", "self._graph.checkpoints.keys()"),
    "nothing is ever removed": ("removed=bool(self._tombstones) and", "removed=False and"),
    "a record that stands on a refused one counts": ("        if below is Standing.REFUSED:\n            return Standing.REFUSED\n        if below is Standing.HELD", "        if below is Standing.HELD"),
    "a record's signature is not checked": ("not record.signature_good or not self._follows_the_rules(record)", "not self._follows_the_rules(record)"),
    "any record lists effects": ("record.prev is None or record.pending or", "record.prev is None or"),
    "a takeover of nothing": ("record.prev is None or record.pending or", "record.pending or"),
    "one creates for another": ("record.id == self._session and record.to == record.by", "record.id == self._session"),
    "a session begins with any number": ("own and record.number == 1 and", "own and"),
    "a create record after another record": ("and record.prev is None and record.head is None", "and record.head is None"),
    "a create record from a head": ("and record.prev is None and record.head is None", "and record.prev is None"),
    "a release is by whoever the missing record names": ("(prev is None or record.by == prev.to)", "prev is not None and record.by == prev.to"),
    "the head of a record need not be here": ("top.head is not None and self.standings.get(top.head)", "False and self.standings.get(top.head)"),
    "a sealed token mends what a parent lacks": (" or worst is Standing.COUNTS or worst is Standing.SEALED:", " or worst is Standing.COUNTS:"),
    "who revoked once revokes no more": ("self._counted.get(earlier, False) and candidates[earlier].device == candidates[id].by", "self._counted.get(earlier, False)"),
    "a revocation that does not count takes the right to revoke": ("self._counted.get(earlier, False) and candidates[earlier]", "candidates[earlier]"),
    "a revocation's signature is not checked": ("(revocation.signature_good and members", "(members"),
    "a cut-off spares another's chain": ("(statement := self._statements.get(at)) and statement.by == revocation.device", "(statement := self._statements.get(at))"),
    "a forged statement shows a roll-back": ("            if statement.signature_good:\n                first", "            if True:\n                first"),
    "a revocation is not seen through a parent": ("named += [statement.token, *statement.parents]", "named += [statement.token]"),
    "a revocation is not seen through a record": ("named += [statement.prev, statement.head]", "pass"),
    "a revocation is not seen through a token": ("        named.append(statement.token)\n", "        pass\n"),
    "a sealed record had no holder": ("in (Standing.COUNTS, Standing.SEALED):\n                self._children", "is Standing.COUNTS:\n                self._children"),
    "a refused record had a holder": ("chain.standings[record.id] in (Standing.COUNTS, Standing.SEALED):\n                self._children", "chain.standings[record.id] is not Standing.HELD:\n                self._children"),
    "a held record had a holder": ("chain.standings[record.id] in (Standing.COUNTS, Standing.SEALED):\n                self._children", "chain.standings[record.id] is not Standing.REFUSED:\n                self._children"),
    "a sealed release proves": ("record.kind is RecordKind.RELEASE and self._chain.standings[record.id] is Standing.COUNTS", "record.kind is RecordKind.RELEASE"),
    "who never knew of an effect may have run it": ("unknown = Progress.STARTED if asked_there else Progress.ASKED", "unknown = Progress.STARTED"),
    "a closing checkpoint that never knew of it proves nothing": ("Progress.STARTED if known else unknown", "Progress.STARTED"),
    "tokens from before the asking may have run it": ("if record.head is not None and asked & self._line_to", "if record.head is not None or asked & self._line_to"),
    "what was not asked is pending": ("(said is None and effect in self._pending)", "said is None"),
    "who is not known here ran nothing": ("if token not in self._chain.records:  # Whoever it was granted to, nothing clears them yet.\n                return True", "if token not in self._chain.records:\n                continue"),
    "a token that is not here was granted to nobody": ("return token is None or token.to == said.by", "return token is not None and token.to == said.by"),
    "a joined line forgets its own tokens": ("self.under.get(effect, frozenset()) | other.under[effect]", "other.under[effect]"),
    "settled does not stand in a joined line": ("(Progress.ASKED, Progress.RERUN, Progress.STARTED, Progress.ANSWERED, Progress.SETTLED))", "(Progress.ASKED, Progress.RERUN, Progress.STARTED, Progress.ANSWERED))"),
    "asked anew does not stand in a joined line": ("(Progress.ASKED, Progress.RERUN, Progress.STARTED, Progress.ANSWERED, Progress.SETTLED))", "(Progress.ASKED, Progress.STARTED, Progress.ANSWERED, Progress.SETTLED))"),
}  # fmt: skip


def _mutated(old: str, new: str) -> types.ModuleType:
    """The package with one place changed, under another name."""
    places = [name for name, source in SOURCES.items() for _ in range(source.count(old))]
    assert len(places) == 1, f"the mutant's place is gone or doubled: {old}"
    for name, source in SOURCES.items():
        module = types.ModuleType(f"fencing_mutant.{name}")
        sys.modules[module.__name__] = module
        module.__dict__["at_top"] = lambda children, top: next(reversed(children), top.head)
        changed = source.replace(old, new).replace("hhd_protocol.fencing.", "fencing_mutant.")
        exec(compile(changed, module.__name__, "exec"), module.__dict__)
    return sys.modules["fencing_mutant.resolve"]


@pytest.mark.parametrize("reading", MUTANTS)
def test_a_wrong_reading_fails_a_case(reading: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cases, "resolve", _mutated(*MUTANTS[reading]).resolve)

    def wrong(case: dict[str, object]) -> bool:
        try:
            return cases.said_by(cases.view_of(case, random.Random(1))) != cases.NOTHING_REMOVED | case["expect"]
        except (AssertionError, KeyError, AttributeError, RecursionError, TypeError):
            return True

    assert any(wrong(case) for case in cases.CASES)


def test_the_right_reading_fails_none() -> None:
    assert all(
        cases.said_by(cases.view_of(case, random.Random(1))) == cases.NOTHING_REMOVED | case["expect"]
        for case in cases.CASES
    )
