"""`hhd sync`, `follow` and `unfollow` say how it stands in words that are safe to print."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hhd.app import syncing
from hhd.cli import run
from hhd.node.answers.syncing import Flow, Followed, Freshness, FreshnessOf, Held, Syncings

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


FLOW = Flow(device=DEVICE, name=HOSTILE, sent=2_500_000, received=10, behind=2, waiting=1, holding=HOSTILE)


def test_every_line_about_other_devices_is_safe_and_says_what_can_be_done(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    held = Held(session="ab" * 32, device=DEVICE, name=HOSTILE)
    now = stand(paused="its person paused it", holding="its person paused it", wanted=3, flows=(FLOW,), held=(held,))
    monkeypatch.setattr(syncing, "status", lambda: now)
    assert run(["sync"]) == 0
    said = capsys.readouterr().out
    assert "\x1b" not in said and "\u202e" not in said and "2 MB sent" in said and "2 sessions behind" in said
    assert "hhd sync --resume" in said and "hhd follow abababababab" in said


def test_a_device_alone_hears_that_nobody_is_linked(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(syncing, "status", stand)
    assert run(["sync"]) == 0
    assert capsys.readouterr().out == "No other device is linked.\n"
    assert run(["sync", "--pause", "--resume"]) == 2


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
