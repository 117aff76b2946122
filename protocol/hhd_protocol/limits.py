"""Every bound of a format or a message, each with its reason."""

from __future__ import annotations

PAGE_BYTES = 4096
"""The unit of snapshot and delta: measured, 4 KiB pages write a fifteenth of what 64 KiB pages do at 1% scattered."""

WASM_PAGE_BYTES = 65536
"""A WebAssembly page, fixed by its specification."""

CBOR_DEPTH_MAX = 32
"""Nesting of a decoded value: our deepest message has 6 levels; recursion deeper than this is an attack."""

CBOR_BYTES_MAX = 64 * 1024 * 1024
"""One encoded value: the largest is a capsule's content index, far below this; a decoder holds it in memory."""

ASYNCIFY_STACK_WASM_PAGES = 4
"""256 KiB for an unwound stack: measured, a 128 KiB shadow stack of the deepest recursion unwinds into less."""

OP_BYTES_MAX = 64
"""The name of an effect: ours have at most 7 letters."""

EFFECT_BYTES_MAX = 16 * 1024 * 1024
"""One request or one reply: a full context window of text is under 8 MiB, pictures included."""

ARGS_BYTES_MAX = 1024 * 1024
"""The arguments of a program: typed by a person."""

TRANSCRIPT_BYTES_MAX = 1024 * 1024 * 1024
"""The transcript of one session."""

MEMORY_BYTES_MAX = 1024 * 1024 * 1024
"""Linear memory of one guest: agents measured under 16 MiB; larger is a runaway."""

EFFECTS_MAX = 1_000_000
"""Effects of one session: at one a second, eleven days without a pause."""

JOURNAL_BYTES_MAX = 2 * EFFECT_BYTES_MAX + 4096
"""An encoded journal: one request, one reply, and less than 4 KiB around them."""
ACCOUNT_TALLIES_MAX = 512
"""Rows of an account: a client writes some 60 kinds of record; a hostile file may name millions."""

ACCOUNT_RANGES_MAX = 256
"""Ranges of lines kept for one row of an account: enough to find each, small in memory. Counts stay exact."""

ACCOUNT_KIND_CHARS_MAX = 100
"""The name of a record's kind in an account: the longest a client writes has 40 letters."""
