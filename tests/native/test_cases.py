"""Our readers against what the real clients made of each case (`oracle.json`, checked by `make test-clients`)."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.native.cases import Case, cases, oracle, shape

from hhd.native.opening import open_session

WE_DIFFER = {
    "claude/E11_thinking.claude.jsonl": "the index counts unsigned thinking; this version does not send it",
}
"""Cases where we mean to differ, with the reason."""


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
def test_a_reader_gives_what_the_real_client_sends(case: Case, tmp_path: Path) -> None:
    with open_session(case.file(tmp_path)) as reading:
        items = list(reading.items())
        assert reading.account.complete
        refused = reading.header.refused
    wanted = oracle()[case.name]
    if wanted == {"refused": True}:
        assert refused is not None
        assert items, "what the client refuses is read all the same"
    else:
        assert refused is None
        if case.name not in WE_DIFFER:
            assert shape(items) == wanted
