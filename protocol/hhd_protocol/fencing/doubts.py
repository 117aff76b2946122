"""The fourth pass of fencing: which effects may have run although the main line holds no answer."""

from __future__ import annotations

from collections.abc import Mapping

from hhd_protocol.fencing.chain import Chain
from hhd_protocol.fencing.cutoffs import Cutoffs
from hhd_protocol.fencing.graph import Graph
from hhd_protocol.fencing.view import Standing
from hhd_protocol.ids import EffectId, StatementId
from hhd_protocol.statements import EffectKind, Intent, Progress, Record, RecordKind


class Doubts:
    """Effects that may have run although the main line holds no answer.

    An unanswered effect was asked (or, by a person's word, asked anew) under some token. Every token from that one on,
    other than the top one, had a holder who may have started it. A holder is cleared by its release, which proves "not
    started" unless its chain shows a roll-back, or by its closing checkpoint that says "asked".
    """

    def __init__(
        self,
        chain: Chain,
        graph: Graph,
        cutoffs: Cutoffs,
        intents: list[Intent],
        kinds: Mapping[EffectId, EffectKind],
    ) -> None:
        self._chain = chain
        self._graph = graph
        self._cutoffs = cutoffs
        self._on_main = graph.ancestry()
        self._children: dict[StatementId, list[Record]] = {}
        for record in chain.records.values():
            if record.prev is not None and chain.standings[record.id] in (Standing.COUNTS, Standing.SEALED):
                self._children.setdefault(record.prev, []).append(record)
        doubtful = self._find(intents) if graph.main is not None else set()
        self.uncertain = frozenset(e for e in doubtful if kinds.get(e, EffectKind.TOOL) is EffectKind.TOOL)
        self.evidence = self.uncertain & self._receipts_elsewhere()

    def _find(self, intents: list[Intent]) -> set[EffectId]:
        progress: dict[EffectId, Progress] = {}
        asked_under: dict[EffectId, set[StatementId]] = {}
        for checkpoint in self._on_main:
            for effect, said in checkpoint.effects.items():
                if said is Progress.RERUN or effect not in progress:
                    asked_under[effect] = {checkpoint.token}
                progress[effect] = said
        for intent in intents:
            if progress.get(intent.effect) is not Progress.RERUN:
                asked_under.setdefault(intent.effect, set()).add(intent.token)
        top = self._chain.top
        closed = {effect for effect, said in progress.items() if said in (Progress.ANSWERED, Progress.SETTLED)}
        doubtful = {
            effect
            for effect, tokens in asked_under.items()
            if effect not in closed and self._may_have_run(effect, tokens, progress.get(effect))
        }
        for record in self._chain.upward() if top else ():
            doubtful.update(effect for effect in record.pending if effect not in progress)
        return doubtful

    def _may_have_run(self, effect: EffectId, tokens: set[StatementId], said: Progress | None) -> bool:
        top = self._chain.top
        assert top is not None
        for token in self._tokens_from(tokens):
            if token == top.id or token not in self._chain.records:
                continue
            if token in tokens and said is Progress.STARTED:
                return True
            if not self._cleared(effect, token, asked_there=token in tokens):
                return True
        return False

    def _tokens_from(self, tokens: set[StatementId]) -> set[StatementId]:
        found: set[StatementId] = set()
        queue = list(tokens)
        while queue:
            token = queue.pop()
            if token not in found:
                found.add(token)
                queue.extend(record.id for record in self._children.get(token, ()))
        return found

    def _cleared(self, effect: EffectId, token: StatementId, *, asked_there: bool) -> bool:
        # A holder that asked the effect itself, but whose closing journal no longer knows it, proves nothing.
        unknown = Progress.STARTED if asked_there else Progress.ASKED
        holder = self._chain.records[token].to
        if holder not in self._cutoffs.rolled_back and any(
            record.kind is RecordKind.RELEASE and self._chain.standings[record.id] is Standing.COUNTS
            for record in self._children.get(token, ())
        ):
            return True
        return any(
            checkpoint.closing
            and checkpoint.token == token
            and checkpoint.journal.get(effect, unknown) is Progress.ASKED
            for checkpoint in self._graph.counting
        )

    def _receipts_elsewhere(self) -> frozenset[EffectId]:
        main = {checkpoint.id for checkpoint in self._on_main}
        return frozenset(
            effect
            for checkpoint in self._graph.counting
            if checkpoint.id not in main
            for effect, said in {**checkpoint.journal, **checkpoint.effects}.items()
            if said is Progress.ANSWERED
        )
