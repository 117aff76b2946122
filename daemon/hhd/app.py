"""The one place that constructs: rooms are made here and handed to the hallway."""

from __future__ import annotations
