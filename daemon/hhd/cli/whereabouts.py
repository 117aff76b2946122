"""Where sessions are, as cells of a list and as fields of JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from hhd.base.text import short

if TYPE_CHECKING:
    from hhd.node.freshness import Reach, Spread

NAME_CHARS_MAX = 16
KEPT_BACK = "kept back"


def newest(spread: Sequence[Spread | None], names: Sequence[str]) -> list[str]:
    """Return a column: which devices have all of each session, then which lack how many checkpoints.

    `spread`: None where it is on all of them; `names`: of the other devices.
    """
    called = [short(name, NAME_CHARS_MAX) for name in names]
    return ["NEWEST", *["all" if one is None else _who(one, called) for one in spread]]


def _who(one: Spread, names: Sequence[str]) -> str:
    wanted = [(name, reach) for name, reach in zip(names, one.reached, strict=True) if not reach.kept_back]
    have = [name for name, reach in wanted if not reach.behind]
    lack = [(name, reach.behind) for name, reach in wanted if reach.behind]
    if one.lacking:
        lack.insert(0, ("here", one.lacking))
    elif len(have) == len(names):
        return "all"
    else:
        have.insert(0, "here")
    said = ", ".join(have) or "none"
    if len(lack) > 1:
        return f"{said}; {len(lack)} behind"
    return f"{said}; {lack[0][0]} -{lack[0][1]}" if lack else said


def by_device(spread: Sequence[Spread | None], names: Sequence[str], now_ms: int) -> list[list[str]]:
    """Return a column for each device, this one first: how many checkpoints it lacks, and since when that is known."""
    here = ["HERE", *["all" if one is None or not one.lacking else f"-{one.lacking}" for one in spread]]
    columns = [
        [name, *["all" if one is None else _reach(one.reached[place], now_ms) for one in spread]]
        for place, name in enumerate(names)
    ]
    return [here, *columns]


def _reach(reach: Reach, now_ms: int) -> str:
    if reach.kept_back:
        return KEPT_BACK
    if not reach.behind:
        return "all"
    since = _age_ms(reach, now_ms)
    from hhd.cli.lines import age

    return f"-{reach.behind}" if since is None else f"-{reach.behind} {age(since)}"


def fields(one: Spread, ids: Sequence[str], names: Sequence[str | None], now_ms: int) -> list[dict[str, object]]:
    """Return the same of one session for scripts; `ids` and `names` begin with those of this device."""
    here: dict[str, object] = {"device": ids[0], "name": names[0], "here": True, "behind": one.lacking}
    others: list[dict[str, object]] = [
        {
            "device": id,
            "name": name,
            "here": False,
            "behind": reach.behind,
            "head": None if reach.head is None else reach.head.hex(),
            "at_ms": reach.at_ms or None,
            "age_ms": _age_ms(reach, now_ms),
            "kept_back": reach.kept_back,
        }
        for id, name, reach in zip(ids[1:], names[1:], one.reached, strict=True)
    ]
    return [here, *others]


def _age_ms(reach: Reach, now_ms: int) -> int | None:
    """How long ago a device said how far it is; None where it never did, or where this clock was set back since."""
    return now_ms - reach.at_ms if 0 < reach.at_ms <= now_ms else None
