"""`hhd sync`, `follow` and `unfollow` say how it stands in words that are safe to print."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from hhd.app import daemons, devices, peering, syncing
from hhd.cli import run, telling
from hhd.node.answers.pairing import PairingStep
from hhd.node.answers.syncing import Flow, Followed, Freshness, FreshnessOf, Held, Limited, Syncings

HOSTILE = "\x1b[31mdesk\u202etop\n"
DEVICE = "abcd-efgh-ijkl"


def stand(**more: Any) -> Syncings:
    given: dict[str, Any] = {
        "paused": "",
        "frugal": "",
        "holding": "",
        "wanted": 0,
        "flows": (),
        "held": (),
        "trouble": "",
    }
    return Syncings(**{**given, **more})


FLOW = Flow(
    device=DEVICE,
    name=HOSTILE,
    linked=True,
    sent=2_500_000,
    received=10,
    behind=2,
    checkpoints=31,
    bytes=1_234_567,
    at_least=False,
    waiting=1,
    holding=HOSTILE,
    limits=(Limited(session="cd" * 32, why="it takes at most 5 bytes of one session" + HOSTILE),),
)


def test_every_line_about_other_devices_is_safe_and_says_what_can_be_done(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    held = Held(session="ab" * 32, device=DEVICE, name=HOSTILE)
    now = stand(paused="its person paused it", holding="its person paused it", wanted=3, flows=(FLOW,), held=(held,))
    monkeypatch.setattr(syncing, "status", lambda: now)
    assert run(["sync"]) == 0
    said = capsys.readouterr().out
    assert "\x1b" not in said and "\u202e" not in said and "2.5 MB sent, 10 B received" in said
    assert "lacks 31 checkpoints of 2 sessions, 1.2 MB" in said and "takes no content: \\x1b[31mdesk" in said
    assert "takes no more of session cdcdcdcdcdcd: it takes at most 5 bytes of one session" in said
    assert "1 session waits for your word before going there" in said
    assert "hhd sync --resume" in said and "hhd follow abababababab" in said


def test_a_device_alone_hears_that_nobody_is_linked(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(syncing, "status", stand)
    assert run(["sync"]) == 0
    assert capsys.readouterr().out == "No other device is linked.\n"
    for words in (["--pause", "--resume"], ["abab", "--pause"], ["abab", "--follow"], ["--resume", "--follow"]):
        assert run(["sync", *words]) == 2, "what would not be done is not taken for done"


def test_how_far_devices_are_with_one_session(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    devices = (
        Freshness(device=DEVICE, name="desktop", checkpoint="cd" * 32, level=True, linked=True),
        Freshness(device=DEVICE, name="", checkpoint="cd" * 32, level=False, linked=False),
        Freshness(device=DEVICE, name="tower", checkpoint=None, level=False, linked=True),
    )
    monkeypatch.setattr(syncing, "freshness", lambda name: FreshnessOf(session="ab" * 32, devices=devices))
    assert run(["sync", "parser"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "desktop: has everything",
        "abcd-efgh: has it up to checkpoint cdcdcdcdcdcd, not linked now",
        "tower: nothing is known of it there",
    ]
    assert run(["sync", "parser", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["devices"]) == 3


def test_a_wish_names_a_session_and_a_device_or_all(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str | None, str, bool]] = []

    def follow(name: str | None, device: str, follow: bool) -> Followed:
        asked.append((name, device, follow))
        return Followed(session="" if name is None else "ab" * 32, device=DEVICE, name="desktop", sessions=7)

    monkeypatch.setattr(syncing, "follow", follow)
    assert run(["follow", "parser", "desktop"]) == run(["unfollow", "--all", "desktop"]) == 0
    assert asked == [("parser", "desktop", True), (None, "desktop", False)]
    assert capsys.readouterr().out.splitlines() == [
        "Session abababababab: desktop is to have a copy from now on.",
        "7 sessions: desktop is to have nothing more from now on.",
    ]
    assert run(["follow", "parser"]) == run(["follow", "--all", "parser", "desktop"]) == 2


def test_a_device_that_is_away_is_told_by_what_it_lacks(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    away = replace(FLOW, name="tower", linked=False, sent=None, received=None, at_least=True, holding="", limits=())
    level = replace(away, name="desktop", behind=0, checkpoints=0, bytes=0)
    paired = replace(level, name="phone", device="mnop-qrst-uvwx")
    monkeypatch.setattr(syncing, "status", lambda: stand(flows=(away, level, paired)))
    monkeypatch.setattr(devices, "unjoined", lambda: frozenset({paired.device}))
    assert run(["sync"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "tower: lacks 31 checkpoints of 2 sessions, more than 1.2 MB",
        "desktop: has everything",
        "phone: nothing is known yet of what it has",
        "No other device is linked.",
    ]


def test_sizes_are_said_in_the_unit_that_suits_them() -> None:
    assert [telling.size(one) for one in (0, 999, 1000, 2_500_000, 999_960, 123_456_789, 7 * 10**15)] == [
        "0 B", "999 B", "1.0 KB", "2.5 MB", "1.0 MB", "123 MB", "7000 TB",
    ]  # fmt: skip


@pytest.mark.parametrize("words", [["sync", "--follow", "--json"], ["sync", "--follow"], ["pair"]])
def test_what_comes_bit_by_bit_is_in_a_pipe_at_once(words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    pipe = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(pipe, encoding="utf-8"))
    monkeypatch.setattr(daemons, "up", lambda: None)
    seen: list[int] = []

    def told(one: Any) -> Iterator[Any]:
        for _ in range(2):
            yield one
            seen.append(len(pipe.getvalue()))

    monkeypatch.setattr(syncing, "watch", lambda: told(stand(flows=(FLOW,))))
    code = PairingStep(kind="code", code="4711-0815", seconds=300)
    monkeypatch.setattr(peering, "pair_show", lambda role: told(code))
    assert run(words) == 0
    assert 0 < seen[0] < seen[1]
