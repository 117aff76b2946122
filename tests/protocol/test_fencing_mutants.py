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
    name: (FOLDER / f"{name}.py").read_text() for name in ("view", "cutoffs", "chain", "graph", "doubts", "resolve")
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
    "parents that are not here do not matter": ("self.standings.get(parent, Standing.HELD) for", "self.standings.get(parent, Standing.COUNTS) for"),
    "a record that is not here does not matter": ("self._chain.standings.get(checkpoint.token, Standing.HELD)", "self._chain.standings.get(checkpoint.token, Standing.COUNTS)"),
    "a held child hides its parent": ("for checkpoint in self.counting for parent", "for checkpoint in checkpoints.values() for parent"),
    "the main tip is a head only by itself": ("tips | ({self.main} if self.main is not None else set())", "tips"),
    "a split is decided by an id": ("if len(followers) > 1:\n                return None", "followers.sort()"),
    "main jumps off the line": ("for parent in checkpoint.parents or (None,):", "for parent in (at_top(children, top),):"),
    "the owner's line takes any token": ("if checkpoint.token == top.id:", "if True:"),
    "revocations by anybody": ("members.get(revocation.by) is Role.FULL", "True"),
    "a revoked device revokes back": ("self._counted[id] = not any(", "self._counted[id] = True or any("),
    "only one of two cut-offs": ("if counts:\n                self.revoked", "if counts and candidates[id].device not in self.revoked:\n                self.revoked"),
    "the cut-off by position, whatever the chain": ("statement.by in self.revoked and statement.id not in self._accepted", "False"),
    "revocation seals all": ("statement.id not in self._accepted", "True"),
    "a sealed record breaks the chain": ("if below is Standing.REFUSED:", "if below in (Standing.REFUSED, Standing.SEALED):"),
    "sealed work cannot be adopted": ("not in (Standing.COUNTS, Standing.SEALED):\n            return None", "is not Standing.COUNTS:\n            return None"),
    "asked is as good as not started": ("closed = {effect for effect, said in progress.items() if said in (Progress.ANSWERED, Progress.SETTLED)}", "closed = {effect for effect, said in progress.items() if said is not Progress.STARTED}"),
    "settled does not settle": ("(Progress.ANSWERED, Progress.SETTLED)", "(Progress.ANSWERED,)"),
    "a rerun is not asked anew": ("if said is Progress.RERUN or effect not in progress:", "if effect not in progress:"),
    "a release settles what a takeover left": ("queue.extend(record.id for record in self._children.get(token, ()))", "queue.extend(record.id for record in self._children.get(token, ()) if record.kind is RecordKind.TAKEOVER)"),
    "only the asking token matters": ("for token in self._tokens_from(tokens):", "for token in tokens:"),
    "a release proves nothing": ("record.kind is RecordKind.RELEASE and self._chain.standings", "False and self._chain.standings"),
    "a release after a roll-back proves not started": ("holder not in self._cutoffs.rolled_back and any(", "any("),
    "any closing checkpoint clears": ("and checkpoint.token == token\n", ""),
    "a closing checkpoint clears whatever it says": (" is Progress.ASKED\n            for checkpoint in self._graph.counting", " is not None\n            for checkpoint in self._graph.counting"),
    "a closing checkpoint that forgot clears": ("unknown = Progress.STARTED if asked_there", "unknown = Progress.ASKED if asked_there"),
    "any checkpoint closes": ("checkpoint.closing\n            and ", ""),
    "intents do not matter": ("for intent in intents:", "for intent in ():"),
    "a release clears what was started": ("if token in tokens and said is Progress.STARTED:", "if False:"),
    "waiting for a person is uncertain": ("kinds.get(e, EffectKind.TOOL) is EffectKind.TOOL", "True"),
    "a fork forgets what was unanswered": ("doubtful.update(effect for effect in record.pending if effect not in progress)", "pass"),
    "a receipt elsewhere settles": ("self.uncertain = frozenset(e for e in doubtful if", "doubtful -= self._receipts_elsewhere()\n        self.uncertain = frozenset(e for e in doubtful if"),
    "no evidence": ("self.evidence = self.uncertain & self._receipts_elsewhere()", "self.evidence = frozenset()"),
    "a split lists doubts": ("self._find(intents) if graph.main is not None else set()", "self._find(intents) | {b'e1'}"),
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
            return cases.said_by(cases.view_of(case, random.Random(1))) != case["expect"]
        except (AssertionError, KeyError, AttributeError, RecursionError):
            return True

    assert any(wrong(case) for case in cases.CASES)


def test_the_right_reading_fails_none() -> None:
    assert all(cases.said_by(cases.view_of(case, random.Random(1))) == case["expect"] for case in cases.CASES)
