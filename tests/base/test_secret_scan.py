"""What looks like a credential is named by kind and line; what only talks of one is not."""

from __future__ import annotations

import base64

import pytest

from hhd.base.secret_scan import suspects

_BODY = base64.b64encode(bytes(range(7, 250))).decode()
_PEM = "-----BEGIN {} KEY-----\n" + "\n".join(_BODY[i : i + 64] for i in range(0, 256, 64)) + "\n-----END {} KEY-----\n"

SECRETS = {
    "private key": _PEM.format("OPENSSH PRIVATE", "OPENSSH PRIVATE"),
    "private key in JSON": _PEM.format("PRIVATE", "PRIVATE").replace("\n", "\\n"),
    "encrypted private key": _PEM.format("RSA PRIVATE", "RSA PRIVATE").replace(
        "KEY-----\n", "KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,0011\n\n", 1
    ),
    "Anthropic": "key = sk-ant-api03-Zq8vTn2LwR4kYb7Xc9Hd3Jm5PfGs6Ae1Uu0Ii",
    "OpenAI": "OPENAI_API_KEY=sk-proj-Zq8vTn2LwR4kYb7Xc9Hd3Jm5PfGs6Ae1Uu0Ii",
    "AWS id": "aws_access_key_id = AKIAZQ8VTN2LWR4KYB7X",
    "AWS secret": "aws_secret_access_key = Zq8vTn2LwR4kYb7Xc9Hd3Jm5PfGs6Ae1Uu0IiKl2",
    "GitHub": "token: ghp_Zq8vTn2LwR4kYb7Xc9Hd3Jm5PfGs6Ae1Uu0I",
    "GitLab": "glpat-Zq8vTn2LwR4kYb7Xc9Hd",
    "Slack": "xoxb-2874650193-Zq8vTn2LwR4kYb7X",
    "Google": "AIzaSyZq8vTn2LwR4kYb7Xc9Hd3Jm5PfGs6Ae1U",
    "Stripe": "sk_live_Zq8vTn2LwR4kYb7Xc9Hd3Jm5",
    "npm": "//registry.example/:_authToken=npm_Zq8vTn2LwR4kYb7Xc9Hd3Jm5PfGs6Ae1Uu0I",
    "password in an address": "DATABASE_URL=postgres://app:v3ryS3cr1tPw@db.internal/app",
}
NONE = {
    "manual of AWS": "aws_access_key_id = AKIAIOSFODNN7EXAMPLE",
    "manual of AWS, secret": "aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
    "code that reads keys": 'if line.startswith("-----BEGIN RSA PRIVATE KEY-----"):\n    read()\n',
    "a test's empty key": "-----BEGIN PRIVATE KEY-----\n...\n-----END PRIVATE KEY-----",
    "a public key": _PEM.format("PUBLIC", "PUBLIC"),
    "a variable": "postgres://${USER}:${PASSWORD}@localhost/db and https://user:<password>@host/",
    "the usual word": "redis://user:password@localhost redis://root:secret@localhost amqp://guest:guest@localhost",
    "asterisks": "https://alice:*****@example.test/",
    "a placeholder": "ANTHROPIC_API_KEY=sk-ant-xxxxxxxxxxxxxxxxxxxxxxxxxxxx",
    "a long one": "OPENAI_API_KEY=sk-your-key-here-your-key-here-your-key-here",
    "a hash": "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "an address": "http://localhost:8080/path@2x.png git@github.com:owner/repo.git https://host/a:b@c",
    "words": "task-list sk-learn, disk-usage; ghp_short; npm_config_registry; AKIA; xoxb",
    "integrity of a package": '"integrity": "sha512-Zq8vTn2LwR4kYb7Xc9Hd3Jm5PfGs6Ae1Uu0IiKl2Zq8vTn2LwR4kYb7Xc9Hd3"',
}


@pytest.mark.parametrize("name", SECRETS)
def test_a_credential_is_found_in_its_line_and_never_shown(name: str) -> None:
    found = suspects(b"first\nsecond\n" + SECRETS[name].encode())
    assert len(found) == 1 and found[0].line == 3
    assert not any(word in repr(found) for word in SECRETS[name].split("=")[-1:] if len(word) > 8)


@pytest.mark.parametrize("name", NONE)
def test_what_only_talks_of_one_is_passed_over(name: str) -> None:
    assert suspects(NONE[name].encode()) == []


def test_binary_content_is_no_text() -> None:
    assert suspects(b"\0" + SECRETS["GitHub"].encode()) == []


def test_hostile_text_costs_no_more_than_its_length() -> None:
    """What begins a match again and again: a pattern without bounds would take hours, and this test would not end."""
    for part in (
        b"://a:",
        b"-----BEGIN PRIVATE KEY-----\n",
        b"eyJ" + b"a" * 20 + b".",
        b"aws_secret_access_key=",
        b"sk-",
    ):
        suspects(part * (200_000 // len(part)))
