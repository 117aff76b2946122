"""A view that grows says at every step what resolving everything anew says."""

from __future__ import annotations

import random
import types

import pytest
from tests.protocol import test_fencing_mutants as mutants
from tests.protocol.histories import KINDS, MEMBERS, History, arriving, meaning

from hhd_protocol.fencing import Resolved, View

LENGTH, SEEDS = 30, range(150)


def histories(seeds: range = SEEDS) -> list[History]:
    made = []
    for seed in seeds:
        history = History(seed, calm=(0.5, 0.8, 0.97)[seed % 3])
        for _ in range(LENGTH):
            history.grow()
        made.append(history)
    return made


@pytest.fixture(scope="module")
def grown() -> list[History]:
    return histories()


def said(view: View) -> dict[str, object]:
    """A view as what equals that of another reading, whose classes are others."""
    token = None if view.token is None else (view.token.number, view.token.id)
    return vars(view) | {"token": token}


def first_difference(kind: type[Resolved], made: list[History]) -> str | None:
    """The first step of a history at which a growing view differs from one made anew; None if none does."""
    for seed, history in enumerate(made):
        resolved = kind(session=history.session, members=MEMBERS, kinds=KINDS)
        here = []
        for batch in arriving(history.facts, random.Random(seed)):
            here += batch
            view = resolved.add(batch)
            if not said(view) == said(resolved.view) == said(meaning(history.session, here)):
                return f"history {seed} after {len(here)} facts"
    return None


def test_a_growing_view_is_the_one_made_anew(grown: list[History]) -> None:
    assert first_difference(Resolved, grown) is None


@pytest.mark.long
def test_a_growing_view_is_the_one_made_anew_over_many_histories() -> None:
    assert first_difference(Resolved, histories(range(1000, 2000))) is None


def test_every_kind_of_answer_occurs_in_the_histories(grown: list[History]) -> None:
    views = [meaning(h.session, h.facts[:length]) for h in grown for length in range(1, LENGTH + 1, 3)]
    reached = {
        "competing": sum(view.competing for view in views),
        "split": sum(view.main is None and bool(view.heads) for view in views),
        "owner revoked": sum(view.owner_revoked for view in views),
        "refused": sum(bool(view.refused) for view in views),
        "held": sum(bool(view.held) for view in views),
        "sealed": sum(bool(view.sealed) for view in views),
        "rolled back": sum(bool(view.rolled_back) for view in views),
        "uncertain": sum(bool(view.uncertain) for view in views),
        "evidence": sum(bool(view.evidence) for view in views),
        "removed": sum(view.removed for view in views),
        "beyond a removal": sum(bool(view.beyond_removal) for view in views),
    }
    assert all(reached.values()), reached


def test_what_a_running_session_adds_is_not_sorted_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    history = History(1, calm=1.0)
    for _ in range(60):
        history.grow()
    sound = [fact for fact in history.facts if fact.signature_good]
    resolved = Resolved(session=history.session, members=MEMBERS, facts=sound[:5], kinds=KINDS)
    times = 0
    whole = Resolved._sorted

    def counted(self: Resolved) -> object:
        nonlocal times
        times += 1
        return whole(self)

    monkeypatch.setattr(Resolved, "_sorted", counted)
    chained = [fact for fact in sound[5:] if resolved.add([fact]) and True]
    assert len(chained) > 40 and times < len(chained) // 4
    assert resolved.view == meaning(history.session, sound)


QUICK = {
    "another's checkpoint is worked in": ("(checkpoint.token, checkpoint.by) != (top.id, top.to)", "checkpoint.token != top.id"),
    "an older token's checkpoint is worked in": ("(checkpoint.token, checkpoint.by) != (top.id, top.to)", "checkpoint.by != top.to"),
    "a revoked owner's checkpoint is worked in": (" or self._cutoffs.is_cut(checkpoint.by) or", " or"),
    "a tombstone is forgotten": (" or self._tombstones:", ":"),
    "any parents will do": ("main is not None and checkpoint.parents == (main,)", "main is not None"),
    "one parent of two will do": ("checkpoint.parents == (main,)", "main in checkpoint.parents"),
    "a line is begun": ("main is not None and checkpoint.parents == (main,)", "checkpoint.parents in ((main,), ())"),
    "a bad signature is worked in": ("fact.signature_good and fact.id", "fact.id"),
    "what waited for it is forgotten": ("and fact.id not in self._awaited and", "and"),
    "a roll-back is not seen": (" and not self._cutoffs.has_follower(fact)", ""),
    "its follower may come twice": ("        self._cutoffs.follow(fact)\n", ""),
    "its effects are not looked at": ("            self._doubts.extend(fact)\n", ""),
    "its intent is not noted": ("            self._doubts.announce(fact)\n", "            pass\n"),
    "the old tip stays a head": ("self.heads.difference((self.main,)) | {checkpoint.id}", "self.heads | {checkpoint.id}"),
    "the tip stays": ("        self.main = checkpoint.id\n", ""),
    "only touched effects stay in doubt": ("(self.uncertain - looked) | found", "frozenset(found)"),
    "an effect stays in doubt": ("(self.uncertain - looked) | found", "self.uncertain | found"),
}  # fmt: skip


def test_each_condition_of_the_quick_way_is_needed(grown: list[History]) -> None:
    unseen = [name for name, change in QUICK.items() if first_difference(_resolved(*change), grown) is None]
    assert unseen == []


def _resolved(old: str, new: str) -> type[Resolved]:
    module: types.ModuleType = mutants._mutated(old, new)
    kind: type[Resolved] = module.Resolved
    return kind
