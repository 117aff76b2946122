"""Credential shapes: found, and on request taken out with the JSON still valid."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.native.convert.test_conversion import CWD, converter

from hhd.base.credentials import RULES, redacted
from hhd.native.convert.conversion import Wish
from hhd_protocol.transcript import Harness, LossKind

# Put together here, so that no scanner takes this file for a leak.
EXAMPLES = {
    "an Anthropic key": "sk-" + "ant-api03-" + "a" * 40,
    "an OpenAI key": "sk-" + "proj-" + "b" * 40,
    "an AWS access key": "AKI" + "A" + "C" * 16,
    "a GitHub token": "gh" + "p_" + "d" * 36,
    "a GitLab token": "glp" + "at-" + "e" * 20,
    "a Slack token": "xox" + "b-" + "1" * 20,
    "a Google key": "AI" + "za" + "f" * 35,
    "a Stripe key": "sk_" + "live_" + "g" * 24,
    "a private key": "-----BEGIN RSA PRIVATE " + "KEY-----\nabc\n-----END RSA PRIVATE " + "KEY-----",
    "a password in an address": "postgres://bob:" + "hunter22" + "@db.example/x",
}


@pytest.mark.parametrize("kind", EXAMPLES)
def test_a_credential_is_found_and_taken_out(kind: str) -> None:
    secret = EXAMPLES[kind].removeprefix("postgres://bob:").removesuffix("@db.example/x")
    text, found = redacted(f"before {EXAMPLES[kind]} after")
    assert found == [kind]
    assert secret not in text
    assert text.startswith("before ") and text.endswith(" after")


def test_ordinary_text_is_left_alone() -> None:
    text = "skip sk-learn, a task-list; https://example.org/a:b see AKIA and ghp_short, eyJ nothing"
    assert redacted(text) == (text, [])


def test_hostile_text_costs_linear_time() -> None:
    for rule in RULES:
        redacted((rule.hint + "-----BEGIN PRIVATE KEY-----") * 500)


@pytest.mark.parametrize("target", Harness)
def test_arguments_results_and_texts_stay_valid_json_without_their_secrets(target: Harness, tmp_path: Path) -> None:
    secret = EXAMPLES["a GitHub token"]
    call = {"type": "tool_use", "id": "c", "name": "Bash", "input": {"command": f"export T={secret}", "n": 1}}
    result = {"type": "tool_result", "tool_use_id": "c", "content": f"ok {secret}"}
    rows = [
        {"type": "user", "uuid": "1", "parentUuid": None, "message": {"role": "user", "content": f"use {secret}"}},
        {
            "type": "assistant",
            "uuid": "2",
            "parentUuid": "1",
            "message": {"id": "m", "role": "assistant", "content": [call]},
        },
        {"type": "user", "uuid": "3", "parentUuid": "2", "message": {"role": "user", "content": [result]}},
    ]
    path = tmp_path / "11111111-2222-4333-8444-555555555555.jsonl"
    path.write_text("".join(json.dumps({"timestamp": "2026-01-01T00:00:00.000Z", **row}) + "\n" for row in rows))
    plain = converter(tmp_path).convert(path, Wish(target=target, home=tmp_path / "plain", cwd=CWD))
    clean = converter(tmp_path).convert(
        path, Wish(target=target, home=tmp_path / "clean", cwd=CWD, redact=True, anew=True)
    )
    assert plain.path is not None and clean.path is not None
    assert secret in plain.path.read_text()
    text = clean.path.read_text()
    assert secret not in text
    assert all(isinstance(json.loads(line), dict) for line in text.splitlines())
    assert sum(loss.count for loss in clean.losses if loss.kind is LossKind.SECRET) == 3
