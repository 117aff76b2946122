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


_NOT_YET = StatementId(bytes(32))
"""Stands for a checkpoint that is not signed yet, while it is asked what may be done after it."""


class Line:
    """What the checkpoints up to one of them say of effects.

    How far each came; under which tokens it was asked; in which checkpoints, and whether `anew`, by a person's word.
    """

    def __init__(self) -> None:
        self.progress: dict[EffectId, Progress] = {}
        self.under: dict[EffectId, frozenset[StatementId]] = {}
        self.asked: dict[EffectId, frozenset[StatementId]] = {}
        self.anew: set[EffectId] = set()

    def say(self, effects: Mapping[EffectId, Progress], checkpoint: StatementId, token: StatementId) -> None:
        """Go on by one checkpoint, made under `token`, that says `effects`."""
        for effect, said in effects.items():
            if said is Progress.RERUN or effect not in self.progress:
                self.under[effect] = frozenset((token,))
                self.asked[effect] = frozenset((checkpoint,))
            if said is Progress.RERUN:
                self.anew.add(effect)
            self.progress[effect] = said

    def copy(self) -> Line:
        """The same, to go on in another direction."""
        line = Line()
        line.progress, line.under, line.asked = dict(self.progress), dict(self.under), dict(self.asked)
        line.anew = set(self.anew)
        return line

    def only(self, effect: EffectId) -> Line:
        """How far `effect` alone came, and where it was asked."""
        line = Line()
        if effect in self.progress:
            line.progress[effect] = self.progress[effect]
            line.under[effect], line.asked[effect] = self.under[effect], self.asked[effect]
        return line

    def join(self, other: Line) -> None:
        """Take in what another line says that a person joined to this one."""
        for effect, said in other.progress.items():
            here = self.progress.get(effect, said)
            self.progress[effect] = max(here, said, key=_RANK.__getitem__)
            self.under[effect] = self.under.get(effect, frozenset()) | other.under[effect]
            self.asked[effect] = self.asked.get(effect, frozenset()) | other.asked[effect]
        self.anew |= other.anew


def line_of(ancestry: Iterable[Checkpoint]) -> Line:
    """Return what the last of `ancestry` rests on and says; parents come before children, all of them its ancestors."""
    order = list(ancestry)
    line = Line()
    if all(len(checkpoint.parents) < 2 for checkpoint in order):  # Then it is one chain, as nearly always.
        for checkpoint in order:
            line.say(checkpoint.effects, checkpoint.id, checkpoint.token)
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
        line = before[0] if before else Line()
        for other in before[1:]:
            line.join(other)
        line.say(checkpoint.effects, checkpoint.id, checkpoint.token)
        ends[checkpoint.id] = line
    return line


class Doubts:
    """Effects that may have run although the main line holds no answer.

    An unanswered effect was asked (or, by a person's word, asked anew) under some token. Every token from that one on,
    other than the top one, had a holder who may have started it, until it is cleared. So had every token under which
    another line speaks of the effect.
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
        late = [receipt for receipt in receipts if self._is_late(receipt)]
        self._late = {receipt.effect for receipt in late}
        self._late_evidence = {receipt.effect for receipt in late if not cutoffs.seals(receipt)}
        self._closings = [checkpoint for checkpoint in graph.counting if checkpoint.closing]
        ancestry = graph.ancestry(graph.main)
        self._line = line_of(ancestry)
        self._lines: dict[StatementId | None, Line] = {}
        main = {checkpoint.id for checkpoint in ancestry}
        self._answered_elsewhere = self._receipts_elsewhere(main)
        self._spoken_of_elsewhere = self._tokens_elsewhere(main)
        self.uncertain: frozenset[EffectId] = frozenset()
        self.evidence: frozenset[EffectId] = frozenset()
        self._look_at(self._line.progress.keys() | self._announced.keys() | self._pending | self._late)

    def extend(self, checkpoint: Checkpoint) -> None:
        """The main line went on by one checkpoint, which nothing here had named."""
        self._line.say(checkpoint.effects, checkpoint.id, checkpoint.token)
        self._look_at(checkpoint.effects.keys())

    def announce(self, intent: Intent) -> None:
        """One more intent is here."""
        self._note(intent)
        self._look_at((intent.effect,))

    def progress(self, head: StatementId | None) -> Mapping[EffectId, Progress]:
        """How far each effect came on the line that ends at `head`; good until that goes on."""
        return (self._line if head == self._graph.main else self._line_to(head)).progress

    def would_doubt(self, effect: EffectId, saying: Mapping[EffectId, Progress]) -> bool:
        """Whether `effect` is uncertain once the main line went on by the owner's checkpoint that says `saying`."""
        top, line = self._chain.top, self._line
        if top is None or self._graph.main is None:
            return False
        self._line = line.only(effect)
        self._line.say(saying, _NOT_YET, top.id)
        try:
            return self._is_uncertain(effect)
        finally:
            self._line = line

    def _note(self, intent: Intent) -> None:
        if intent.signature_good and self._by_its_holder(intent):
            self._announced.setdefault(intent.effect, set()).add(intent.token)

    def _is_late(self, receipt: Receipt) -> bool:
        """Whether it shows that another than the owner ran the effect; a revoked device's word raises doubt too."""
        top = self._chain.top
        return receipt.signature_good and self._by_its_holder(receipt) and top is not None and receipt.token != top.id

    def _by_its_holder(self, said: Intent | Receipt) -> bool:
        token = self._chain.records.get(said.token)
        return token is None or token.to == said.by

    def _look_at(self, effects: Iterable[EffectId]) -> None:
        if self._graph.main is None:
            return
        looked = frozenset(effects)
        found = {effect for effect in looked if self._is_uncertain(effect)}
        self.uncertain = (self.uncertain - looked) | found
        self.evidence = self.uncertain & (self._answered_elsewhere | self._late_evidence)

    def _is_uncertain(self, effect: EffectId) -> bool:
        said = self._line.progress.get(effect)
        if said in _CLOSED or self._kinds.get(effect, EffectKind.TOOL) is not EffectKind.TOOL:
            return False
        tokens = self._line.under.get(effect, frozenset())
        if said is not Progress.RERUN:
            if effect in self._late:
                return True
            tokens = tokens.union(self._announced.get(effect, ()))
            if said is not None:
                tokens = tokens.union(self._spoken_of_elsewhere.get(effect, ()))
        return (said is None and effect in self._pending) or self._may_have_run(effect, tokens, said)

    def _may_have_run(self, effect: EffectId, tokens: frozenset[StatementId], said: Progress | None) -> bool:
        top = self._chain.top
        assert top is not None
        for token in self._tokens_from(tokens | self._tokens_past(effect)):
            if token == top.id:
                continue
            if token not in self._chain.records:  # Whoever it was granted to, nothing clears them yet.
                return True
            if token in tokens and said is Progress.STARTED:
                return True
            if not self._cleared(effect, token, asked_there=token in tokens):
                return True
        return False

    def _tokens_past(self, effect: EffectId) -> frozenset[StatementId]:
        """The tokens whose record names a head on a line that has asked for the effect where the main line did.

        They need not descend from the token that asked: a winner of a tie may go on from the loser's head.
        """
        asked = self._line.asked.get(effect, frozenset())
        return frozenset(
            record.id
            for records in self._children.values()
            for record in records
            if record.head is not None and asked & self._line_to(record.head).asked.get(effect, frozenset())
        )

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
        """Whether the holder of `token` proved that it did not start the effect since it was last asked.

        Its release and its closing checkpoint prove that, by what the line that they end says; not if its chain shows a
        roll-back, since then it may have forgotten.
        """
        if self._chain.records[token].to in self._cutoffs.rolled_back:
            return False
        # A holder that asked the effect itself, but whose line no longer knows it, proves nothing.
        unknown = Progress.STARTED if asked_there else Progress.ASKED
        for record in self._children.get(token, ()):
            if record.kind is RecordKind.RELEASE and self._chain.standings[record.id] is Standing.COUNTS:
                said = self._line_to(record.head).progress.get(effect, unknown)
                if self._not_started(effect, said, record.head):
                    return True
        for checkpoint in self._closings:
            if checkpoint.token == token:
                # Of an open effect the journal speaks itself; what it leaves out is over, or never was on this line.
                known = effect in self._line_to(checkpoint.id).progress
                said = checkpoint.journal.get(effect, Progress.STARTED if known else unknown)
                if self._not_started(effect, said, checkpoint.id):
                    return True
        return False

    def _not_started(self, effect: EffectId, said: Progress, head: StatementId | None) -> bool:
        """Whether the word `said` at the end of a line means that nothing was started that the main line asks for.

        Where a person had asked anew, it speaks of the time since: another line that asked before learns nothing.
        """
        line = self._line_to(head)
        since = effect not in line.anew or self._line.asked.get(effect, frozenset()) <= line.asked[effect]
        return said in (Progress.ASKED, Progress.RERUN) and since

    def _line_to(self, head: StatementId | None) -> Line:
        if head not in self._lines:
            self._lines[head] = line_of(self._graph.ancestry(head))
        return self._lines[head]

    def _tokens_elsewhere(self, main: set[StatementId]) -> dict[EffectId, set[StatementId]]:
        """By effect: the tokens under which other lines speak of it, so that it may have been run there."""
        found: dict[EffectId, set[StatementId]] = {}
        for id, checkpoint in self._graph.checkpoints.items():
            if id not in main and self._graph.standings[id] is not Standing.REFUSED:
                for effect in checkpoint.effects:
                    found.setdefault(effect, set()).add(checkpoint.token)
        return found

    def _receipts_elsewhere(self, main: set[StatementId]) -> frozenset[EffectId]:
        return frozenset(
            effect
            for checkpoint in self._graph.counting
            if checkpoint.id not in main
            for effect, said in {**checkpoint.journal, **checkpoint.effects}.items()
            if said is Progress.ANSWERED
        )
