"""The real clients at their pinned versions, against what `oracle.json` says they make of every case.

Our readers are held against the same file in `tests/native/test_cases.py`, so both ends meet there. `python -m
tests.clients.record` writes it anew when a client's version changes.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.clients import real
from tests.clients.install import installed
from tests.native.cases import Case, cases, oracle, shape

from hhd.native.opening import open_session
from hhd_protocol.transcript import Note

pytestmark = pytest.mark.clients


@pytest.fixture(scope="module")
def clients() -> Path:
    if shutil.which("npm") is None or shutil.which("node") is None:
        pytest.skip("npm and node are needed for the real clients")
    return installed()


def of(harness: str) -> list[Case]:
    return [case for case in cases() if case.harness == harness]


@pytest.mark.parametrize("case", of("claude") + of("codex"), ids=lambda case: case.name)
def test_the_client_sends_what_the_oracle_says(case: Case, clients: Path, tmp_path: Path) -> None:
    ask = real.claude if case.harness == "claude" else real.codex
    try:
        found = ask(clients, case.file(tmp_path))
    except real.ClientRefuses:
        found = {"refused": True}
    assert found == oracle()[case.name]


def test_pi_makes_of_each_session_what_the_oracle_says(clients: Path, tmp_path: Path) -> None:
    chosen = of("pi")
    found = real.pi(clients, [case.file(tmp_path) for case in chosen])
    for case, one in zip(chosen, found, strict=True):
        assert ({"refused": True} if isinstance(one, real.ClientRefuses) else one) == oracle()[case.name], case.name


_READER_DIFFERS = {
    "claude/E05_missing_parent.claude.jsonl": "it never bridges a gap",
}


def test_the_reader_of_claudes_sdk_gives_the_same_records_on_handed_over_sessions(clients: Path) -> None:
    chosen = [case for case in of("claude") if case.path is not None and case.name not in _READER_DIFFERS]
    answers = real.claude_sdk(clients, [case.path for case in chosen if case.path])
    for case, uuids in zip(chosen, answers, strict=True):
        assert case.path is not None
        with open_session(case.path) as reading:
            # The SDK hides what the client itself wrote among the requests.
            said = [item for item in reading.items() if not isinstance(item, Note)]
        ours = {item.at.record for item in said if getattr(item, "live", True)}
        assert set(uuids) >= ours - {None}, case.name


def test_the_app_server_of_codex_shows_the_talk_that_we_read(clients: Path) -> None:
    """`thread/read` shows legacy threads from their events; of paginated ones it knows nothing before a resume."""
    compared = 0
    for case in of("codex"):
        if case.path is None or "edge" not in case.path.parts or "X08" in case.name:
            continue
        if oracle()[case.name] == {"refused": True}:
            continue
        shown = real.codex_displayed(clients, case.path)
        with open_session(case.path) as reading:
            talk = shape(reading.items())["talk"]
        assert isinstance(talk, list)
        assert shown == [line for line in talk if line[0] in "ua"], case.name
        compared += 1
    assert compared >= 5
