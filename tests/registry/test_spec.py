"""The numbers of the spec page are those of the code, and the first base is the one it describes."""

from __future__ import annotations

import hashlib
from pathlib import Path

from hhd.registry import registry as module
from hhd.registry.document import Document
from hhd_protocol import limits
from hhd_protocol.codec import encode

SPEC = (Path(__file__).parents[2] / "protocol/spec/registry.md").read_text()


def test_every_bound_of_the_page_is_the_codes() -> None:
    mib = 1024 * 1024
    for sentence in (
        f"A text has at most {limits.TITLE_BYTES_MAX:,} bytes of UTF-8",
        f"whose document has {module.HISTORY_MIN:,} changes",
        f"at most {limits.REGISTRY_MESSAGE_BYTES_MAX // mib} MiB:",
        f"ascending, at most {limits.REGISTRY_HEADS_MAX:,}.",
        f"unpack to at most {limits.REGISTRY_CHANGES_BYTES_MAX // mib} MiB in all",
        f"at most {limits.REGISTRY_ROWS_MAX:,} rows",
        f"values of at most {limits.REGISTRY_TEXT_BYTES_MAX:,} bytes",
        f"After {module.PIECES_MAX} pieces",
    ):
        assert sentence in SPEC.replace("\n", " "), sentence
    assert limits.REGISTRY_ENTRIES_MAX == module.AHEAD_MAX == 1_000_000


def test_equal_entries_make_equal_bases_on_every_device() -> None:
    """The vector of the page: who builds the same document from the same entries, in any order, has the same base."""
    entries = {"c/AAAAAAAAAAA/1": "", "sAAAAAAAAAAAAAAAAAAAAAA/t/AAAAAAAAAAA/1": "title"}
    one, other = Document.begin(1, entries), Document.begin(1, dict(reversed(entries.items())))
    assert one.age == other.age and one.heads() == other.heads() == (one.base,)
    assert one.base.hex() == "76e5b6734660a0fc44ef5f28d515db5fc5eec82ac14e86851804a32b8c262c16"
    actor = hashlib.sha256(encode([1, dict(entries)])).digest()[:8]  # type: ignore[list-item]
    assert bytes(one._inner.get_actor()) == actor
    assert Document.begin(0, {}).base.hex() == "e8043075a60cce2e884010ae8dc968a449c8b4c65f849f6e714a756fada6277c"
    assert one.base_entries() == entries and Document.begin(2, entries).base != one.base
