"""A session with a pending test command goes from x86-64 to emulated ARM64 and back: the command runs once, where it
lands, the next turn goes on, and nobody asks the model anything on the way."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from tests.arm64 import root
from tests.e2e.lab import Device, needs_agent
from tests.loopback.messages_api import Service, call, message, serve, text

from hhd.identity.key import Identity
from hhd.node import store, this_device
from hhd.node.group import Membership
from hhd_protocol.statements import Role

pytestmark = [pytest.mark.long, pytest.mark.arm64, needs_agent]

TEST = "echo x >> runs; echo all tests pass"


def at(device: Device, act: Callable[[Membership, Identity], Any]) -> Any:
    """Do something with the group of a device, in its store."""
    with mock.patch.dict(os.environ, device.environ, clear=True):
        me = this_device.identity()
        with store.opened(me) as opened:
            return act(Membership(opened, me), me)


def paired(first: Device, other: Device) -> None:
    """Make two devices one group."""
    at(first, lambda group, _: group.found("phone", 1))
    public = at(other, lambda _, me: me.public)
    at(first, lambda group, _: group.add(public, "laptop", Role.FULL, 1))
    records, top = at(first, lambda group, _: (group.records(), group.group.root))
    at(other, lambda group, _: group.join(records, top, 1))
    answer = at(other, lambda group, _: group.records())
    at(first, lambda group, _: group.take(answer))


def test_a_pending_test_command_goes_to_the_other_processor_and_back_and_runs_once(tmp_path: Path) -> None:
    root.need()
    steps = [message(call("bash", command=TEST), reason="tool_use"), message(text("They pass.")), message(text("Bye."))]
    with serve(steps) as service:
        keys = {"ANTHROPIC_BASE_URL": service.url, "ANTHROPIC_API_KEY": "k"}
        config = '[model]\nname = "claude-test"\nallow_plain_http = true\n[policy]\nallow = []\n'
        arm = Device(
            home=tmp_path / "phone", config=config, python=tuple(root.python()), environ=root.environment(**keys)
        )
        x86 = Device(home=tmp_path / "laptop", config=config, environ=keys)
        paired(arm, x86)
        _hand_about(tmp_path, arm, x86, service)


def _hand_about(tmp_path: Path, arm: Device, x86: Device, service: Service) -> None:
    repo = tmp_path / "repo"
    repo.mkdir()
    begun = x86.hhd("run", "Run the tests.", "-C", repo, "--foreground", "--model", "claude-test", cwd=repo)
    assert "needs your yes" in begun.stderr, begun.stderr
    session = json.loads(x86.hhd("ls", "--json", cwd=repo).stdout)["sessions"][0]["id"]
    asked = len(service.requests)
    assert asked == 1, "the positive control: a turn is one request"
    there, back = tmp_path / "there", tmp_path / "back"
    for source, target, name, file in ((x86, arm, "phone", there), (arm, x86, "laptop", back)):
        sent = source.hhd("transfer", session, name, "--to", file, cwd=repo)
        assert sent.returncode == 0, sent.stderr
        taken = target.hhd("receive", file, "--json", cwd=repo)
        assert taken.returncode == 0, taken.stdout + taken.stderr
    assert len(service.requests) == asked, "no model is asked anything on the way"
    config = x86.home / "config" / "config.toml"
    config.write_text(config.read_text().replace("allow = []", 'allow = ["bash"]'))
    went = x86.hhd("resume", session, "--foreground", cwd=repo)
    assert "They pass." in went.stdout + went.stderr, went.stderr
    assert (repo / "runs").read_text() == "x\n" and len(service.requests) == asked + 1


if sys.platform != "linux":
    pytest.skip("needs qemu-user", allow_module_level=True)
