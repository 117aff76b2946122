"""The table that users read says what the code does."""

from __future__ import annotations

from pathlib import Path

from hhd.native.convert.places import PLACES
from hhd_protocol.transcript import Harness

PAGE = Path(__file__).parents[3] / "docs" / "native-sessions.md"
ROWS = {
    "pictures by address": "picture_urls",
    "documents": "documents",
    "pictures by address in results": "result_picture_urls",
    "documents in results": "result_documents",
    "error flag of a result": "error_flags",
    "call whose argument is free text": "text_calls",
    "namespace of a tool's name": "namespaces",
    "command the person ran": "shells",
    "records behind a gap": "new_roots",
    "name of the model": "models",
    "title": "titles",
}


def test_each_row_says_yes_exactly_where_the_target_has_a_place() -> None:
    rows = {
        cells[0]: cells[1:]
        for line in PAGE.read_text().splitlines()
        if line.startswith("| ") and len(cells := [cell.strip() for cell in line.strip("|").split("|")]) == 4
    }
    for row, field in ROWS.items():
        for harness, cell in zip((Harness.CLAUDE, Harness.CODEX, Harness.PI), rows[row], strict=True):
            assert cell.startswith("yes") == getattr(PLACES[harness], field), (row, harness)
