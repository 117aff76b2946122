"""A number on the command line that may be a fraction, within a range; what is none is refused, NaN too."""

from __future__ import annotations

import math
from typing import Any

import click


class Fraction(click.FloatRange):
    """As `click.FloatRange`, which lets NaN through: it is neither too small nor too large."""

    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the number; fails for what is none, or lies beyond the range."""
        found: float = super().convert(value, param, ctx)
        if not math.isfinite(found):
            self.fail(f"{value!r} is not a valid {self.name}.", param, ctx)
        return found
