"""Deliberate faults in the product's code, each of which some world has to catch.

A mutant is an edit of one place in the text of one module, made while it is imported. `seeds.json` names seeds that
catch it.
Those that break something "found" are faults that the simulation found in this very code; the edit brings them back.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from types import ModuleType


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """`old`, which stands once in `module`, becomes `new`; `breaks` is the invariant that it hits.

    `wide`: only worlds with removals, or with content that comes later, can show it.
    """

    breaks: str
    module: str
    old: str
    new: str
    wide: bool = False


_CHAIN, _GRAPH, _DOUBTS, _REMOVAL = (f"hhd_protocol.fencing.{name}" for name in ("chain", "graph", "doubts", "removal"))
_PART, _DECIDING = "hhd_protocol.holding.part", "hhd_protocol.holding.deciding"

MUTANTS: dict[str, Mutant] = {
    "who does not own appends": Mutant(
        breaks="1, one holder", module=_PART, old="if view.owner != self.me:", new="if False:"
    ),
    "a number is reset on release": Mutant(
        breaks="1, numbers", module=_DECIDING, old="number=view.token.number + 1", new="number=1"
    ),
    "tokens by number only": Mutant(
        breaks="1, one holder",
        module=_PART,
        old="if view.owner != self.me:",
        new="if view.owner != self.me and not any(isinstance(s, Record) and s.to == self.me"
        " and s.number == view.token.number for s in self.known.statements.values()):",
    ),
    "the order of arrival decides a tie": Mutant(
        breaks="6, one owner",
        module=_CHAIN,
        old="self.top = max(counting, key=_rank, default=None)",
        new="self.top = max([r for r in records.values() if r in counting], key=lambda r: r.number, default=None)",
    ),
    "an older token is refused": Mutant(
        breaks="2, nothing is lost",
        module=_GRAPH,
        old="token is not None and token.to != checkpoint.by",
        new="token is not None and token is not self._chain.top",
    ),
    "what hangs in the air counts": Mutant(
        breaks="3, whole or not acknowledged",
        module=_GRAPH,
        old="self._chain.standings.get(checkpoint.token, Standing.HELD)",
        new="self._chain.standings.get(checkpoint.token, Standing.COUNTS)",
    ),
    "acknowledged before it is durable": Mutant(
        breaks="2, nothing acknowledged is lost",
        module="tests.sim.network",
        old="        device.disk.sync()\n        view = self._view(device)\n        durable",
        new="        view = self._view(device)\n        durable",
    ),
    "asked is taken for not started": Mutant(
        breaks="5, no second run",
        module=_DOUBTS,
        old="if said in _CLOSED or",
        new="if said is Progress.ASKED or said in _CLOSED or",
    ),
    "run, then persist": Mutant(
        breaks="5, no second run",
        module=_DECIDING,
        old="[Persist(draft=draft), Send(), Run(effect=effect), Done()]",
        new="[Run(effect=effect), Persist(draft=draft), Send(), Done()]",
    ),
    "send, then persist": Mutant(
        breaks="write it down, then say it",
        module=_DECIDING,
        old="[Persist(draft=_next(part, effects)), Send(), Done()]",
        new="[Send(), Persist(draft=_next(part, effects)), Done()]",
    ),
    "an own start is forgotten": Mutant(
        breaks="5, no second run",
        module=_PART,
        old="begun = effect not in saying and self.begun(effect, view.token.id)",
        new="begun = False",
    ),
    "a rolled-back store goes on": Mutant(
        breaks="1, one line under a token",
        module=_PART,
        old="if self._rolled_back(view.token.id):",
        new="if False:",
    ),
    "who wakes asks nobody": Mutant(
        breaks="5, waking alone", module=_PART, old="if not self._asks_others():", new="if True:"
    ),
    "a takeover skips a number": Mutant(
        breaks="1, numbers", module=_DECIDING, old="number=before.number + 1", new="number=before.number + 2"
    ),
    "it closes again and again": Mutant(
        breaks="6, all settles",
        module=_PART,
        old="or (isinstance(s, Checkpoint) and s.closing)",
        new="",
    ),
    "a revoked device acts": Mutant(
        breaks="1, one holder",
        module=_PART,
        old="return Refusal(why=Why.REVOKED) if self.me in view.revoked else None",
        new="return None",
    ),
    "intents do not matter": Mutant(
        breaks="5, no second run", module=_DOUBTS, old="for intent in intents:", new="for intent in ():"
    ),
    "a removal takes what it did not know": Mutant(
        breaks="2, nothing is lost",
        module=_REMOVAL,
        old="id for id in checkpoints if",
        new="id for id in () if",
        wide=True,
    ),
    "what was removed is worked on": Mutant(
        breaks="2, what was removed stays so", module=_PART, old="if view.removed:", new="if False:", wide=True
    ),
    "acknowledged without its content": Mutant(
        breaks="3, whole or not acknowledged",
        module="tests.sim.network",
        old=" - device.disk.bare\n        if durable",
        new="\n        if durable",
        wide=True,
    ),
    "content that is not here is gone on from": Mutant(
        breaks="3, whole here",
        module=_PART,
        old="return Refusal(why=Why.HEAD_NOT_HERE) if view.main in self.bare else None",
        new="return None",
        wide=True,
    ),
    "content that is not here is taken over from": Mutant(
        breaks="3, whole here", module=_PART, old=" | view.refused | self.bare", new=" | view.refused", wide=True
    ),
    # What the simulation found.
    "what was removed is closed, and so is back": Mutant(
        breaks="2, found", module=_PART, old="if self.known.view.removed and not (", new="if False and not (", wide=True
    ),
    "only the main line is consulted": Mutant(
        breaks="5, found",
        module=_DOUBTS,
        old="tokens = tokens.union(self._spoken_of_elsewhere.get(effect, ()))",
        new="pass",
    ),
    "asked anew speaks of all time": Mutant(breaks="5, found", module=_DOUBTS, old=" and since", new=""),
    "a closing journal leaves nothing out": Mutant(
        breaks="5, found", module=_DOUBTS, old="Progress.STARTED if known else unknown", new="unknown"
    ),
    "only tokens that descend may have run it": Mutant(
        breaks="5, found", module=_DOUBTS, old=" | self._tokens_past(effect)", new=""
    ),
    "a session dies with its creator's revocation": Mutant(
        breaks="6, found", module=_PART, old="if self.highest() is None:", new="if view.token is None:"
    ),
}


def install(name: str) -> None:
    """From now on the mutant's module is imported with the fault in it."""
    install_mutant(MUTANTS[name])


def install_mutant(mutant: Mutant) -> None:
    """The same, of a mutant that is on no list here."""
    assert mutant.module not in sys.modules, f"{mutant.module} is imported already"
    sys.meta_path.insert(0, _Finder(mutant))


class _Finder(importlib.abc.MetaPathFinder):
    def __init__(self, mutant: Mutant) -> None:
        self._mutant = mutant

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != self._mutant.module:
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path)
        assert spec is not None and spec.origin is not None
        return importlib.util.spec_from_file_location(
            fullname, spec.origin, loader=_Loader(fullname, spec.origin, self._mutant)
        )


class _Loader(importlib.machinery.SourceFileLoader):
    def __init__(self, fullname: str, path: str, mutant: Mutant) -> None:
        super().__init__(fullname, path)
        self._mutant = mutant

    def get_code(self, fullname: str) -> object:  # type: ignore[override]
        source = self.get_data(self.path).decode()
        assert source.count(self._mutant.old) == 1, f"the mutant's place is gone or doubled: {self._mutant.old}"
        return compile(source.replace(self._mutant.old, self._mutant.new), self.path, "exec")
