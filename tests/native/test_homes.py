"""Where sessions lie: slugs, homes, names that collide, and the list of all of them."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from tests.native.native import FIXTURES, claude_record, lines, read

from hhd.base.box import Box
from hhd.native import listing
from hhd.native.homes import Homes, claude_slug, codex_id, pi_folder
from hhd.native.listing import sessions
from hhd_protocol.transcript import Harness, Text

ID = "aaaaaaaa-0000-4000-8000-00000000000{}"


def homes(tmp_path: Path) -> Homes:
    return Homes(claude=tmp_path / "claude", codex=tmp_path / "codex", pi=tmp_path / "pi")


def put(path: Path, raw: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(raw)
    return path


@pytest.mark.parametrize(
    ("path", "slug"),
    [
        ("/home/alice/src/plain", "-home-alice-src-plain"),
        ("/w/a.b", "-w-a-b"),
        ("/w/a_b", "-w-a-b"),
        ("/w/with space", "-w-with-space"),
        ("/w/외주", "-w---"),
        ("/w/개인", "-w---"),
        ("/w/\U0001f600", "-w---"),
        ("/w/" + "a" * 245, "-w-" + "a" * 197 + "-kh5nqy"),
    ],
)
def test_a_slug_is_the_clients_own(path: str, slug: str) -> None:
    assert claude_slug(path) == slug


def test_a_folder_of_pi_and_a_name_of_codex_are_the_clients_own() -> None:
    assert pi_folder("/home/alice/src/a:b") == "--home-alice-src-a-b--"
    good = "rollout-2026-11-29T13-22-05-01a22778-5000-78d2-a609-2fb0d8be6129.jsonl"
    assert codex_id(good) == codex_id(good + ".zst") == "01a22778-5000-78d2-a609-2fb0d8be6129"
    assert codex_id("converted-" + good) is None


def test_the_environment_moves_each_home(tmp_path: Path) -> None:
    own = {"CLAUDE_CONFIG_DIR": "/c", "CODEX_HOME": "~/x", "PI_CODING_AGENT_DIR": "/p", "HOME": str(tmp_path)}
    found = Homes.of(own)
    assert (found.claude, found.codex, found.pi) == (Path("/c"), tmp_path / "x", Path("/p"))
    plain = Homes.of({"HOME": str(tmp_path)})
    assert (plain.claude, plain.pi) == (tmp_path / ".claude", tmp_path / ".pi" / "agent")


def test_all_captured_sessions_are_listed_with_their_facts() -> None:
    captured = FIXTURES / "captured"
    found = []
    for case in ("compact", "long", "multi", "plain", "subagent", "tools", "unicode", "fork", "image"):
        at = Homes(claude=captured / "claude" / case, codex=captured / "codex" / case, pi=captured / "pi" / case)
        found += sessions(at)
    assert len(found) == 21
    for card in found:
        assert card.prompt and card.cwd and card.started and card.ended and not card.note, card
        assert card.id in card.path
    assert not [card for card in found if "subagents" in card.path]


def test_colliding_folders_are_told_apart_by_the_directory_in_the_records(tmp_path: Path) -> None:
    for number, cwd in enumerate(("/w/외주", "/w/개인")):
        record = claude_record(1, None, "user", f"in {cwd}", cwd=cwd)
        put(tmp_path / "claude" / "projects" / claude_slug(cwd) / f"{ID.format(number)}.jsonl", lines(record))
    found = sessions(homes(tmp_path))
    assert len({Path(card.path).parent for card in found}) == 1
    assert {card.cwd: card.prompt for card in found} == {"/w/외주": "in /w/외주", "/w/개인": "in /w/개인"}


def test_a_first_prompt_of_61_kilobytes_or_a_megabyte_is_listed_and_a_foreign_name_is_not(tmp_path: Path) -> None:
    project = tmp_path / "claude" / "projects" / "-w"
    for number, size in ((1, 61_000), (2, 1_500_000)):
        records = [claude_record(1, None, "user", "x" * size), claude_record(2, 1, "assistant", "y" * 200_000)]
        put(project / f"{ID.format(number)}.jsonl", lines(*records))
    put(project / "notes.jsonl", lines(claude_record(1, None, "user", "no")))
    found = sessions(homes(tmp_path), harnesses=[Harness.CLAUDE])
    assert [card.prompt for card in found] == ["x" * 200] * 2


def test_a_title_of_the_end_a_helper_and_an_unreadable_file_are_told(tmp_path: Path) -> None:
    project = tmp_path / "claude" / "projects" / "-w"
    talk = [claude_record(n, n - 1 or None, "user", "x" * 3000) for n in range(1, 40)]
    put(project / f"{ID.format(1)}.jsonl", lines(*talk, {"type": "custom-title", "customTitle": "Mine"}))
    put(project / f"{ID.format(2)}.jsonl", lines(claude_record(1, None, "user", "x", isSidechain=True)))
    put(project / f"{ID.format(3)}.jsonl", b"\xff\xfe\x00 no json at all")
    os.mkfifo(project / f"{ID.format(4)}.jsonl")
    found = {card.id[-1]: card for card in sessions(homes(tmp_path))}
    assert found["1"].title == "Mine"
    assert found["2"].note and found["3"].note
    assert "4" not in found


def test_the_cache_answers_for_unchanged_files_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = put(
        tmp_path / "claude" / "projects" / "-w" / f"{ID.format(1)}.jsonl", lines(claude_record(1, None, "user", "a"))
    )
    cache = tmp_path / "cache", Box(bytes(32))
    looked: list[str] = []
    real = listing.card_of
    monkeypatch.setattr(listing, "card_of", lambda *a: looked.append(a[1]) or real(*a))
    first = sessions(homes(tmp_path), cache=cache)
    assert sessions(homes(tmp_path), cache=cache) == first and len(looked) == 1
    with open(path, "ab") as file:
        file.write(lines(claude_record(2, 1, "assistant", "b"), {"type": "ai-title", "aiTitle": "Later"}))
    assert sessions(homes(tmp_path), cache=cache)[0].title == "Later" and len(looked) == 2
    assert b"Later" not in cache[0].read_bytes() and b"-w" not in cache[0].read_bytes()
    cache[0].write_bytes(b"\x93nonsense")
    assert len(sessions(homes(tmp_path), cache=cache)) == 1 and len(looked) == 3
    elsewhere = cache[0], Box(bytes(31) + b"1")
    assert len(sessions(homes(tmp_path), cache=elsewhere)) == 1 and len(looked) == 4, "another key reads nothing"
    path.unlink()
    assert sessions(homes(tmp_path), cache=cache) == []


def test_a_session_of_whatever_provider_or_of_none_is_listed_and_read(tmp_path: Path) -> None:
    head, *rest = next((FIXTURES / "captured" / "codex" / "plain").rglob("*.jsonl")).read_bytes().splitlines()
    for number, provider in enumerate(("openai", "a provider that this device does not know", None)):
        record = json.loads(head)
        record["payload"]["id"] = id = ID.format(number)
        del record["payload"]["model_provider"]
        if provider is not None:
            record["payload"]["model_provider"] = provider
        name = f"rollout-2026-11-29T13-22-0{number}-{id}.jsonl"
        put(tmp_path / "codex/sessions/2026/11/29" / name, b"\n".join((json.dumps(record).encode(), *rest, b"")))
    found = sessions(homes(tmp_path))
    assert len(found) == 3 and not any(card.note for card in found)
    for card in found:
        whole = read(Path(card.path))
        assert whole.header.refused is None and whole.of(Text), card


def test_codex_titles_come_from_its_index(tmp_path: Path) -> None:
    source = next((FIXTURES / "captured" / "codex" / "plain").rglob("*.jsonl"))
    put(tmp_path / "codex" / "archived_sessions" / source.name, source.read_bytes())
    put(
        tmp_path / "codex" / "session_index.jsonl",
        lines({"id": source.stem[-36:], "thread_name": "Old"}, {"id": source.stem[-36:], "thread_name": "New"})
        + b"{cut",
    )
    (card,) = sessions(homes(tmp_path))
    assert card.title == "New"
