"""Makes a plain guest module pausable: interrupt checks, and a way to leave the stack and come back to it."""

from __future__ import annotations
