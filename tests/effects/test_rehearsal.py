"""A call to no service, made before a fork: it leaves behind what the first real call would load, and nothing else."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.loopback import messages_api as lo

CALL = """
import dataclasses, json, sys
from hhd.base.config import Credential, load
from hhd.effects.messages_api import MessagesApi, load_sdk
{first}
before = set(sys.modules)
settings = dataclasses.replace(load().model, retries=0)
model = MessagesApi(name="m", credential=Credential(base_url={url!r}, api_key="k"), config=settings)
reply = model.answer(b'{{"max_tokens":9,"messages":[]}}', position=0, watch=lambda told: None)
print(json.dumps([json.loads(reply)["content"][0]["text"], len(set(sys.modules) - before)]))
"""
QUIET = """
import os, threading
from hhd.effects.messages_api import load_sdk
load_sdk()
before = os.listdir("/dev/fd")
from hhd.effects.rehearsal import rehearse
import socket
def refuse(*_, **__): raise AssertionError("a rehearsal opens nothing")
socket.socket = socket.getaddrinfo = refuse
said = rehearse()
assert b"Ready." in said, said
assert threading.active_count() == 1, threading.enumerate()
assert os.listdir("/dev/fd") == before
"""


def _ran(code: str, tmp_path: Path) -> str:
    around = {name: value for name, value in os.environ.items() if "proxy" not in name.lower()}
    done = subprocess.run(
        [sys.executable, "-c", code], env=around | {"HHD_CONFIG_HOME": str(tmp_path)}, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    "first", ["from hhd.effects.rehearsal import rehearse; rehearse()", "load_sdk()"], ids=["rehearsed", "only loaded"]
)
def test_a_call_after_a_rehearsal_imports_nothing_and_one_without_does(first: str, tmp_path: Path) -> None:
    with lo.serve([lo.message(lo.text("Hello."))]) as service:
        text, imported = json.loads(_ran(CALL.format(first=first, url=service.url), tmp_path))
    assert text == "Hello."
    assert imported == 0 if "rehearse" in first else imported > 20


def test_a_rehearsal_leaves_no_thread_and_no_descriptor_and_asks_for_no_address(tmp_path: Path) -> None:
    _ran(QUIET, tmp_path)
