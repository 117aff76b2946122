"""Deliberate faults in the code of sync, each of which some seed must notice."""

from __future__ import annotations

from tests.sim.holding.mutants import MUTANTS as OF_HOLDING
from tests.sim.mutants import Mutant

_MACHINE, _ROUNDS, _HERE, _WANTS, _CHAINS, _LINKS, _PEER = (
    f"hhd_protocol.sync.{name}" for name in ("machine", "rounds", "here", "wants", "chains", "links", "peer")
)
_WORLD = "tests.sim.sync.world"

MUTANTS: dict[str, Mutant] = {
    "acknowledged before it is durable": Mutant(
        breaks="2, nothing acknowledged is lost",
        module=_WORLD,
        old="        device.disk.sync()\n        device.disk.objects |= objects",
        new="        device.disk.objects |= objects",
    ),
    "content is acknowledged unseen": Mutant(
        breaks="3, whole or not acknowledged",
        module=_WORLD,
        old="        return self.whole(device) - view.held - view.refused",
        new="        return {i for i, s in device.disk.statements.items() if isinstance(s, Checkpoint)} - view.held",
    ),
    "what is absent is never asked of another": Mutant(
        breaks="6, all have all",
        module=_WANTS,
        old="            self._open[name] = None\n\n    def again",
        new="\n    def again",
    ),
    "a lost link leaves its wants": Mutant(
        breaks="6, all have all",
        module=_WANTS,
        old="            self._wants[name].asked = None\n            self._open[name] = None\n\n    def met",
        new="            pass\n\n    def met",
    ),
    "only ends that are known are told": Mutant(
        breaks="6, one meaning",
        module=_CHAINS,
        old="        return [id for id in self._after if id not in had]",
        new="        return [id for id in self._after if id not in had and self._after[id] in had]",
    ),
    "a comparison is never begun again": Mutant(
        breaks="6, all settles",
        module=_MACHINE,
        old="            if now_ms >= one.asked_ms + SYNC_AGAIN_MS:",
        new="            if False:",
    ),
    "sent is taken for had": Mutant(
        breaks="6, all have all",
        module=_ROUNDS,
        old="        one.sent.clear()  # What was lost on the way, if anything was, is asked for now.",
        new="        pass",
    ),
    "what a removed session wanted is asked for on": Mutant(
        breaks="2, what was removed stays so",
        module=_MACHINE,
        old="if event.digest is None or event.removed:",
        new="if event.digest is None:",
        wide=True,
    ),
    "the chains of what was removed are told on": Mutant(
        breaks="6, all have all", module=_HERE, old="        if event.removed:\n", new="        if False:\n", wide=True
    ),
    "what hides the newer work of a removed session": Mutant(
        breaks="2, nothing is lost",
        module=OF_HOLDING["a removal takes what it did not know"].module,
        old=OF_HOLDING["a removal takes what it did not know"].old,
        new=OF_HOLDING["a removal takes what it did not know"].new,
        wide=True,
    ),
    "who has a token still is told that it had it": Mutant(
        breaks="1, found",
        module=_WORLD,
        old="fresh_here = frozenset(records) - (device.part.known.statements.keys() - came)",
        new="fresh_here, came = frozenset(records), {*device.part.known.statements}",
        wide=True,
    ),
    "an acknowledgement is forgotten": Mutant(
        breaks="5, waking alone",
        module=_WORLD,
        old="            device.disk.acknowledged_by |= {peer}\n",
        new="            pass\n",
    ),
    "an answer to what was asked before a wake counts": Mutant(
        breaks="5, waking alone", module=_ROUNDS, old="if round >= self._since else []", new="if True else []"
    ),
    "the end of a replaced link is told as that of the next": Mutant(
        breaks="6, all have all",
        module=_LINKS,
        old="        if self._told.get(peer) is not link:\n",
        new="        if peer not in self._told:\n",
    ),
    "the end of a replaced link ends the next": Mutant(
        breaks="6, all have all",
        module=_LINKS,
        old="        if self._current.get(peer) is not link:\n",
        new="        if peer not in self._current:\n",
    ),
    "what was said for one link goes over the next": Mutant(
        breaks="no honest device is cut off",
        module=_LINKS,
        old="return link if link is not None and stamp.links.get(peer) is link else None",
        new="return link",
    ),
    "an answer that is carried out after a wake counts": Mutant(
        breaks="5, waking alone", module=_LINKS, old="return stamp.wake == self._woke", new="return True"
    ),
    "who only stores has what came since the last look": Mutant(
        breaks="3, level is true",
        module=_MACHINE,
        old=" and not (one.sealed and session in self._unpiled)",
        new="",
    ),
    "who only stored all once has all that is there now": Mutant(
        breaks="3, level is true",
        module=_MACHINE,
        old="one.level &= not one.sealed",
        new="pass",
    ),
    "who only stores has all that it was told the names of": Mutant(
        breaks="3, level is true", module=_PEER, old="return not self.apart  #", new="return True  #"
    ),
    "letters are not asked for": Mutant(
        breaks="6, all have all",
        module=_ROUNDS,
        old="[Lacking(peer=one.id, names=tuple(told.sessions))] if told.sessions else []",
        new="[]",
    ),
    "door 1: who does not own appends": OF_HOLDING["who does not own appends"],
    "door 1: a rolled-back store goes on": OF_HOLDING["a rolled-back store goes on"],
    "door 2: who wakes asks nobody": OF_HOLDING["who wakes asks nobody"],
    "door 2: an own start is forgotten": OF_HOLDING["an own start is forgotten"],
    "door 3: an older token is refused": OF_HOLDING["an older token is refused"],
    "door 3: what hangs in the air counts": OF_HOLDING["what hangs in the air counts"],
}
