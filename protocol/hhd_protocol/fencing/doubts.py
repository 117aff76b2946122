"""The fourth pass of fencing: which effects may have run although the main line holds no answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from hhd_protocol.fencing.chain import Chain
from hhd_protocol.fencing.cutoffs import Cutoffs
from hhd_protocol.fencing.graph import Graph
from hhd_protocol.fencing.view import Standing
from hhd_protocol.ids import EffectId, StatementId
from hhd_protocol.statements import Checkpoint, EffectKind, Intent, Progress, Receipt, Record, RecordKind

_CLOSED = (Progress.ANSWERED, Progress.SETTLED)
_RANK = {
    said: rank
    for rank, said in enumerate((Progress.ASKED, Progress.RERUN, Progress.STARTED, Progress.ANSWERED, Progress.SETTLED))
}
"""Which of two words stands where two lines that said different things were joined: an answer, else the worse doubt."""


class Line:
    """What the checkpoints up to one of them say of effects: how far each came, and under which tokens it was asked."""

    def __init__(self, progress: dict[EffectId, Progress], under: dict[EffectId, frozenset[StatementId]]) -> None:
        self.progress, self.under = progress, under

    def say(self, checkpoint: Checkpoint) -> None:
        """Go on by one checkpoint."""
        for effect, said in checkpoint.effects.items():
            if said is Progress.RERUN or effect not in self.progress:
                self.under[effect] = frozenset((checkpoint.token,))
            self.progress[effect] = said

    def copy(self) -> Line:
        """The same, to go on in another direction."""
        return Line(dict(self.progress), dict(self.under))

    def join(self, other: Line) -> None:
        """Take in what another line says that a person joined to this one."""
        for effect, said in other.progress.items():
            here = self.progress.get(effect, said)
            self.progress[effect] = max(here, said, key=_RANK.__getitem__)
            self.under[effect] = self.under.get(effect, frozenset()) | other.under[effect]


def line_of(ancestry: Iterable[Checkpoint]) -> Line:
    """Return what the last of `ancestry` rests on and says; parents come before children, all of them its ancestors."""
    order = list(ancestry)
    line = Line({}, {})
    if all(len(checkpoint.parents) < 2 for checkpoint in order):  # Then it is one chain, as nearly always.
        for checkpoint in order:
            line.say(checkpoint)
        return line
    here = {checkpoint.id for checkpoint in order}
    uses = Counter(parent for checkpoint in order for parent in checkpoint.parents)
    ends: dict[StatementId, Line] = {}
    for checkpoint in order:
        before = []
        for parent in checkpoint.parents:
            if parent in here:
                uses[parent] -= 1
                before.append(ends[parent].copy() if uses[parent] else ends.pop(parent))
        line = before[0] if before else Line({}, {})
        for other in before[1:]:
            line.join(other)
        line.say(checkpoint)
        ends[checkpoint.id] = line
    return line


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
        intents: Iterable[Intent],
        receipts: Iterable[Receipt],
        kinds: Mapping[EffectId, EffectKind],
    ) -> None:
        self._chain = chain
        self._graph = graph
        self._cutoffs = cutoffs
        self._kinds = kinds
        self._children: dict[StatementId, list[Record]] = {}
        for record in chain.records.values():
            if record.prev is not None and chain.standings[record.id] in (Standing.COUNTS, Standing.SEALED):
                self._children.setdefault(record.prev, []).append(record)
        self._pending = {effect for record in chain.upward() for effect in record.pending}
        self._announced: dict[EffectId, set[StatementId]] = {}
        for intent in intents:
            self._note(intent)
        self._late = {receipt.effect for receipt in receipts if self._is_late(receipt)}
        self._closings = [checkpoint for checkpoint in graph.counting if checkpoint.closing]
        ancestry = graph.ancestry()
        self._line = line_of(ancestry)
        self._answered_elsewhere = self._receipts_elsewhere({checkpoint.id for checkpoint in ancestry})
        self.uncertain: frozenset[EffectId] = frozenset()
        self.evidence: frozenset[EffectId] = frozenset()
        self._look_at(self._line.progress.keys() | self._announced.keys() | self._pending | self._late)

    def extend(self, checkpoint: Checkpoint) -> None:
        """The main line went on by one checkpoint, which nothing here had named."""
        self._line.say(checkpoint)
        self._look_at(checkpoint.effects.keys())

    def announce(self, intent: Intent) -> None:
        """One more intent is here."""
        self._note(intent)
        self._look_at((intent.effect,))

    def _note(self, intent: Intent) -> None:
        if intent.signature_good and self._by_its_holder(intent):
            self._announced.setdefault(intent.effect, set()).add(intent.token)

    def _is_late(self, receipt: Receipt) -> bool:
        """Whether it shows that another than the owner ran the effect."""
        top = self._chain.top
        counts = receipt.signature_good and self._by_its_holder(receipt) and not self._cutoffs.seals(receipt)
        return counts and top is not None and receipt.token != top.id

    def _by_its_holder(self, said: Intent | Receipt) -> bool:
        token = self._chain.records.get(said.token)
        return token is None or token.to == said.by

    def _look_at(self, effects: Iterable[EffectId]) -> None:
        if self._graph.main is None:
            return
        looked = frozenset(effects)
        found = {effect for effect in looked if self._is_uncertain(effect)}
        self.uncertain = (self.uncertain - looked) | found
        self.evidence = self.uncertain & (self._answered_elsewhere | self._late)

    def _is_uncertain(self, effect: EffectId) -> bool:
        said = self._line.progress.get(effect)
        if said in _CLOSED or self._kinds.get(effect, EffectKind.TOOL) is not EffectKind.TOOL:
            return False
        tokens = self._line.under.get(effect, frozenset())
        if said is not Progress.RERUN:
            if effect in self._late:
                return True
            tokens = tokens.union(self._announced.get(effect, ()))
        return (said is None and effect in self._pending) or self._may_have_run(effect, tokens, said)

    def _may_have_run(self, effect: EffectId, tokens: frozenset[StatementId], said: Progress | None) -> bool:
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

    def _tokens_from(self, tokens: frozenset[StatementId]) -> set[StatementId]:
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
            checkpoint.token == token and checkpoint.journal.get(effect, unknown) is Progress.ASKED
            for checkpoint in self._closings
        )

    def _receipts_elsewhere(self, main: set[StatementId]) -> frozenset[EffectId]:
        return frozenset(
            effect
            for checkpoint in self._graph.counting
            if checkpoint.id not in main
            for effect, said in {**checkpoint.journal, **checkpoint.effects}.items()
            if said is Progress.ANSWERED
        )
