"""Deliberate faults in the code of sync, each of which some seed must notice."""

from __future__ import annotations

from tests.sim.mutants import Mutant

_MACHINE, _ROUNDS, _WANTS, _CHAINS = (f"hhd_protocol.sync.{name}" for name in ("machine", "rounds", "wants", "chains"))
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
}
