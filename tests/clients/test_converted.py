"""Converted sessions, taken up by the real client: what reaches the model is what the written file says."""

from __future__ import annotations

import shutil
import uuid
from pathlib import Path

import pytest
from tests.clients import real
from tests.clients.install import installed
from tests.native.cases import MISSING, Shape, shape
from tests.native.native import FIXTURES

from hhd.base.box import Box
from hhd.native.convert.conversion import Converter, Wish
from hhd.native.convert.history import History
from hhd.native.opening import open_session, sniff
from hhd_protocol.transcript import Harness

pytestmark = pytest.mark.clients

SESSIONS = sorted(path for kind in ("captured", "edge") for path in (FIXTURES / kind).rglob("*.jsonl"))

_ALTERED_BY_CODEX = {
    "E18_media.claude.jsonl": "its pictures are no pictures, which the client finds out and says in their place",
}


@pytest.fixture(scope="module")
def clients() -> Path:
    if shutil.which("npm") is None or shutil.which("node") is None:
        pytest.skip("npm and node are needed for the real clients")
    return installed()


def _converted(source: Path, target: Harness, folder: Path) -> tuple[Path, Shape]:
    converter = Converter(
        open_reading=open_session,
        history=History(folder / "history", Box(bytes(32))),
        error_key=b"k" * 32,
        fresh_id=lambda: str(uuid.uuid4()),
    )
    path = converter.convert(source, Wish(target=target, home=folder / source.stem, cwd="/home/bob/w")).path
    assert path is not None
    with open_session(path) as reading:
        return path, shape(reading.items())


def _foreign(target: Harness) -> list[Path]:
    return [path for path in SESSIONS if sniff(path) is not target]


def _same(found: Shape, meant: Shape) -> bool:
    """Codex shortens a long result when it sends it: both ends of it are compared then."""
    results, expected = found["results"], meant["results"]
    assert isinstance(results, dict) and isinstance(expected, dict)
    return (
        found["talk"] == meant["talk"]
        and results.keys() == expected.keys()
        and MISSING not in results.values()
        and all(
            results[call] == text or (len(text) > 9000 and results[call][:200] in text and results[call][-200:] in text)
            for call, text in expected.items()
        )
    )


@pytest.mark.parametrize("source", _foreign(Harness.CLAUDE), ids=lambda path: path.name[-60:])
def test_claude_code_goes_on_with_it(source: Path, clients: Path, tmp_path: Path) -> None:
    path, meant = _converted(source, Harness.CLAUDE, tmp_path)
    assert _same(real.claude(clients, path), meant)


@pytest.mark.parametrize("source", _foreign(Harness.CODEX), ids=lambda path: path.name[-60:])
def test_codex_goes_on_with_it(source: Path, clients: Path, tmp_path: Path) -> None:
    path, meant = _converted(source, Harness.CODEX, tmp_path)
    found = real.codex(clients, path)
    if source.name in _ALTERED_BY_CODEX:
        found = {**found, "talk": meant["talk"], "results": meant["results"]}
    assert _same(found, meant)


@pytest.mark.parametrize("source", _foreign(Harness.CODEX)[:6], ids=lambda path: path.name[-60:])
def test_codex_shows_its_prompts(source: Path, clients: Path, tmp_path: Path) -> None:
    path, meant = _converted(source, Harness.CODEX, tmp_path)
    shown = [line.strip() for line in real.codex_displayed(clients, path) if line.startswith("u:")]
    said = meant["talk"]
    assert isinstance(said, list)
    assert set(shown) >= {line for line in said if line.startswith("u:")}


def test_pi_goes_on_with_all_of_them(clients: Path, tmp_path: Path) -> None:
    converted = [_converted(source, Harness.PI, tmp_path) for source in _foreign(Harness.PI)]
    for source, (_, meant), found in zip(
        _foreign(Harness.PI), converted, real.pi(clients, [path for path, _ in converted]), strict=True
    ):
        assert not isinstance(found, real.ClientRefuses), source.name
        assert _same(found, meant), source.name
