"""Prints the diagrams of `protocol/spec/handoff.md`."""

from __future__ import annotations

from hhd_protocol.handoff.stages import diagram

if __name__ == "__main__":
    print("\n".join(diagram()))  # noqa: T201
