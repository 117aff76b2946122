"""Deliberate faults in the code of fencing and holding, each of which some seed must notice."""

from __future__ import annotations

from tests.sim.mutants import Mutant

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
