"""Which seeds make which worlds."""

WIDE = 1_000_000
"""From this seed on a session may be removed everywhere, and content may come later than its record.

The worlds below are those that they always were, so that seeds that caught something still do.
"""
