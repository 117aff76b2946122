"""Lets the real client load a session, in a home of its own and against a stand-in for its model on loopback.

The client gets a copy, no credentials and no network but loopback; it is asked for one turn. What it then sends to the
stand-in shows whether it took the session up: the request must hold the conversation, not just the new prompt.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from hhd.base.errors import RefusedError
from hhd.native.convert.folders import pi_folder
from hhd.native.homes import claude_slug
from hhd_protocol.transcript import Harness

SECONDS_MAX = 90
"""A client's start and one turn took two to five seconds, on a busy machine ten times as long."""

REQUEST_BYTES_MAX = 256 * 1024 * 1024
_PROMPT = "Say that you are there."
_ANSWER = "Here."
_PROGRAMS = {Harness.CLAUDE: "claude", Harness.CODEX: "codex", Harness.PI: "pi"}


def takes_it_up(path: Path, harness: Harness, session_id: str, said: str | None) -> str:
    """Whether the installed client goes on with the session in `path`: "accepts it", or why not.

    `said`: the last text that the person said, or None; it must be in the client's request. Raises RefusedError when
    the client is not installed.
    """
    program = shutil.which(_PROGRAMS[harness])
    if program is None:
        raise RefusedError(f"{_PROGRAMS[harness]} is not installed here, so it cannot be asked; nothing was changed.")
    with _home() as home, _stand_in() as (url, requests):
        words, environment = _PREPARE[harness](home, program, path, session_id, url)
        try:
            done = subprocess.run(
                words,
                cwd=home / "w",
                env={**_environment(home), **environment},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=SECONDS_MAX,
            )
        except subprocess.TimeoutExpired:
            return f"did not answer within {SECONDS_MAX} seconds"
    asked = [request for request in requests if _PROMPT in request]
    if not asked:
        lines = (done.stderr or done.stdout).strip().split("\n")
        reason = next((line for line in lines if "rror" in line), lines[-1]).strip()
        return f"refuses it: {reason[:200] or 'it says nothing'}"
    if said is not None and json.dumps(said, ensure_ascii=False)[1:-1] not in json.dumps(
        json.loads(asked[0]), ensure_ascii=False
    ):
        return "begins anew instead of going on"
    return "accepts it"


def _claude(home: Path, program: str, path: Path, session_id: str, url: str) -> tuple[list[str], dict[str, str]]:
    project = home / ".claude" / "projects" / claude_slug(os.path.realpath(home / "w"))
    project.mkdir(parents=True)
    shutil.copy(path, project / f"{session_id}.jsonl")
    return [program, "-p", "--resume", session_id, _PROMPT], {"ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": "none"}


def _codex(home: Path, program: str, path: Path, session_id: str, url: str) -> tuple[list[str], dict[str, str]]:
    folder = home / ".codex" / "sessions" / "2026" / "01" / "01"
    folder.mkdir(parents=True)
    shutil.copy(path, folder / path.name)
    (home / ".codex" / "config.toml").write_text(
        'model = "stand-in"\nmodel_provider = "standin"\n[model_providers.standin]\nname = "standin"\n'
        f'base_url = "{url}/v1"\nwire_api = "responses"\nrequires_openai_auth = false\n'
    )
    words = [program, "exec", "resume", "--skip-git-repo-check", session_id, _PROMPT]
    return words, {"CODEX_HOME": str(home / ".codex")}


def _pi(home: Path, program: str, path: Path, session_id: str, url: str) -> tuple[list[str], dict[str, str]]:
    folder = home / ".pi" / "agent" / "sessions" / pi_folder(str(home / "w"))
    folder.mkdir(parents=True)
    copy = folder / path.name
    lines = path.read_bytes().split(b"\n", 1)
    head = json.loads(lines[0])
    head["cwd"] = str(home / "w")
    copy.write_bytes(b"\n".join([json.dumps(head).encode(), *lines[1:]]))
    models = {
        "providers": {
            "standin": {
                "baseUrl": url,
                "api": "anthropic-messages",
                "apiKey": "none",
                "models": [{"id": "stand-in", "name": "stand-in", "contextWindow": 200000, "maxTokens": 1000}],
            }
        }
    }
    (home / ".pi" / "agent" / "models.json").write_text(json.dumps(models))
    words = [program, "-p", "--session", str(copy), "--provider", "standin", "--model", "stand-in", _PROMPT]
    return words, {}


_PREPARE = {Harness.CLAUDE: _claude, Harness.CODEX: _codex, Harness.PI: _pi}


@contextmanager
def _home() -> Iterator[Path]:
    # Not below /tmp: one of the clients refuses a home there.
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "hhd-client-homes"
    base.mkdir(parents=True, exist_ok=True, mode=0o700)
    home = Path(tempfile.mkdtemp(dir=base))
    try:
        (home / "w").mkdir()
        yield home
    finally:
        shutil.rmtree(home, ignore_errors=True)


def _environment(home: Path) -> dict[str, str]:
    nowhere = "http://127.0.0.1:9"
    return {
        "HOME": str(home),
        "PATH": os.environ.get("PATH", os.defpath),
        "LANG": "C.UTF-8",
        "HTTP_PROXY": nowhere,
        "HTTPS_PROXY": nowhere,
        "NO_PROXY": "127.0.0.1",
        "DISABLE_AUTOUPDATER": "1",
        "DISABLE_TELEMETRY": "1",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    }


@contextmanager
def _stand_in() -> Iterator[tuple[str, list[str]]]:
    requests: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            size = int(self.headers.get("Content-Length") or 0)
            if not 0 <= size <= REQUEST_BYTES_MAX:
                self.close_connection = True
                return
            body = self.rfile.read(size)
            where = self.path.split("?")[0]
            if where.endswith("/messages"):
                requests.append(body.decode("utf-8", "replace"))
                self._answer(_events(_MESSAGES), "text/event-stream")
            elif where.endswith("/responses"):
                requests.append(body.decode("utf-8", "replace"))
                self._answer(_events(_RESPONSES), "text/event-stream")
            else:
                self._answer(b'{"input_tokens": 1}', "application/json")

        def _answer(self, raw: bytes, kind: str) -> None:
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(raw)))
            self.end_headers()
            self.wfile.write(raw)

        def log_message(self, *_: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", requests
    finally:
        server.shutdown()
        server.server_close()


def _events(events: list[dict[str, object]]) -> bytes:
    return "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events).encode()


_USAGE = {"input_tokens": 1, "output_tokens": 1}
_MESSAGES: list[dict[str, object]] = [
    {
        "type": "message_start",
        "message": {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": "stand-in",
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": _USAGE,
        },
    },
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": _ANSWER}},
    {"type": "content_block_stop", "index": 0},
    {"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": None}, "usage": _USAGE},
    {"type": "message_stop"},
]
_ITEM = {
    "type": "message",
    "id": "msg_1",
    "role": "assistant",
    "status": "completed",
    "content": [{"type": "output_text", "text": _ANSWER, "annotations": []}],
}
_RESPONSES: list[dict[str, object]] = [
    {"type": "response.created", "response": {"id": "resp_1"}},
    {"type": "response.output_item.done", "output_index": 0, "item": _ITEM},
    {
        "type": "response.completed",
        "response": {
            "id": "resp_1",
            "usage": {
                "input_tokens": 1,
                "input_tokens_details": {"cached_tokens": 0},
                "output_tokens": 1,
                "output_tokens_details": {"reasoning_tokens": 0},
                "total_tokens": 2,
            },
            "output": [_ITEM],
        },
    },
]
