"""Our readers against what the real clients made of each case (`oracle.json`, checked by `make test-clients`)."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.native.cases import Case, cases, oracle, shape

from hhd.native.opening import open_session
from hhd_protocol.transcript import Account

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


@pytest.mark.parametrize("ready", [0, 1 << 30], ids=["read twice", "made ready"])
@pytest.mark.parametrize("block", [600, 1 << 18])
def test_a_reading_is_the_same_however_the_file_is_cut_into_blocks_and_whatever_is_made_ready(
    ready: int, block: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number, case in enumerate(cases()):
        folder = tmp_path / str(number)
        folder.mkdir()
        file = case.file(folder)
        with open_session(file) as reading:
            wanted = (reading.header, list(reading.items()), _tallies(reading.account))
        with monkeypatch.context() as patch:
            patch.setattr("hhd.native.source.BLOCK_BYTES", block)
            patch.setattr("hhd.native.claude.RETAINED_WHOLE_BYTES_MAX", ready)
            patch.setattr("hhd.native.claude.RETAINED_BYTES_MAX", ready)
            with open_session(file) as reading:
                found = (reading.header, list(reading.items()), _tallies(reading.account))
        assert found == wanted, case.name


def _tallies(account: Account) -> list[tuple[object, ...]]:
    """The account with ranges that touch put together: blocks may cut them."""
    rows = []
    for tally in account.tallies:
        lines = [n for _, first, last in tally.lines for n in range(first, last + 1)]
        rows.append((tally.verdict.value, tally.reason.value, tally.kind, tally.records, lines))
    return sorted(rows)
