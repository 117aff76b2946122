"""What may be done twice: which kind each effect of a session is, for who decides whether it may run."""

from __future__ import annotations

from hhd.effects.toolkind import repeatable
from hhd_protocol.journal import Entry
from hhd_protocol.statements import EffectKind

_KINDS = {"model": EffectKind.REPEATABLE, "machine": EffectKind.REPEATABLE, "input": EffectKind.INPUT}


def kind_of(entry: Entry) -> EffectKind:
    """Return the kind of an effect; one that this hhd does not know may not be repeated."""
    if entry.op == "tool" and repeatable(entry.request):
        return EffectKind.REPEATABLE
    return _KINDS.get(entry.op, EffectKind.TOOL)
