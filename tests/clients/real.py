"""What the real clients make of a session: resumed against a stand-in model on loopback, and asked through loaders.

Each run has a home of its own, which is removed afterwards. The clients are told of proxies that are not there, so
that nothing but loopback is reached.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.clients.model_server import ANSWER, ModelServer
from tests.native.cases import MISSING, THREAD, Shape, tidy

from hhd.native.homes import claude_slug

NEXT = "NEXT-PROMPT-OF-THE-TEST"
SECONDS_MAX = 90

_FILLERS = ("No response requested.", "(no content)", "[Tool use interrupted]", NEXT, ANSWER)
_LOST = ("[Tool result missing due to internal error]", "[Tool call interrupted:", "aborted")


class ClientRefuses(Exception):
    """The client does not take the session; the text is its own."""


@contextmanager
def _own_home() -> Iterator[Path]:
    # Not below /tmp: one of the clients refuses a home there.
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "hhd-test-homes"
    base.mkdir(parents=True, exist_ok=True)
    home = Path(tempfile.mkdtemp(dir=base))
    try:
        (home / "w").mkdir()
        yield home
    finally:
        shutil.rmtree(home, ignore_errors=True)


def _environment(home: Path, clients: Path, **more: str) -> dict[str, str]:
    nowhere = "http://127.0.0.1:9"
    offline = {"HTTP_PROXY": nowhere, "HTTPS_PROXY": nowhere, "NO_PROXY": "127.0.0.1", "DISABLE_AUTOUPDATER": "1"}
    quiet = {"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_TELEMETRY": "1"}
    nodes = [str(found) for found in (clients / "node_modules").glob("node-linux-*/bin")]
    path = os.pathsep.join([*nodes, os.environ["PATH"]])
    return {"HOME": str(home), "PATH": path, "LANG": "C.UTF-8", **offline, **quiet, **more}


def claude(clients: Path, file: Path) -> Shape:
    """What `claude --resume` sends of the session in `file`."""
    (binary,) = (clients / "node_modules" / "@anthropic-ai").glob("claude-code-linux-[!m]*[!l]/claude")
    with _own_home() as home, ModelServer() as model:
        cwd = home / "w"
        project = home / ".claude" / "projects" / claude_slug(str(cwd))
        project.mkdir(parents=True)
        session = "aaaaaaaa-0000-4000-8000-000000000001"
        shutil.copy(file, project / f"{session}.jsonl")
        words = [str(binary), "-p", "--resume", session, NEXT, "--model", "claude-opus-5-5"]
        environment = _environment(home, clients, ANTHROPIC_BASE_URL=model.url, ANTHROPIC_API_KEY="none")
        done = _run(words, cwd, environment)
        sent = [r for r in model.requests if NEXT in json.dumps(r.get("messages"))]
    if not sent:
        raise ClientRefuses((done.stderr + done.stdout)[-500:])
    talk: list[str] = []
    results: dict[str, str] = {}
    for message in sent[0]["messages"]:  # type: ignore[attr-defined]
        content = message["content"]
        if message["role"] == "system":
            continue
        for block in [{"type": "text", "text": content}] if isinstance(content, str) else content:
            kind = block["type"]
            if kind == "text" and not block["text"].startswith(_FILLERS):
                talk.append(f"{message['role'][0]}:{block['text']}")
            elif kind == "tool_use":
                talk.append(f"c:{block['id']}")
            elif kind in ("thinking", "redacted_thinking"):
                talk.append("t:")
            elif kind == "tool_result":
                results.setdefault(block["tool_use_id"], _result(block.get("content") or ""))
    return {"talk": _summary(tidy(talk), file), "results": results}


def _summary(talk: list[str], file: Path) -> list[str]:
    """Mark the text that is a compaction's summary: a request does not tell."""
    marked = []
    for record in file.read_bytes().split(b"\n"):
        if b'"isCompactSummary"' in record:
            try:
                content = json.loads(record)["message"]["content"]
                marked.append(content.strip())
            except (ValueError, KeyError, TypeError):
                continue
    boundary = b"compact_boundary" in file.read_bytes()
    return sorted(("s" + t[1:] if boundary and t[2:] in marked else t for t in talk), key=lambda t: t[0] != "s")


def codex(clients: Path, file: Path) -> Shape:
    """What `codex exec resume` sends of the thread in `file`."""
    with _own_home() as home, ModelServer() as model:
        folder = home / "codex" / "sessions" / "2026" / "08" / "17"
        folder.mkdir(parents=True)
        # A thread names the provider it ran with; the client insists on it, so here it names none.
        raw = file.read_bytes().replace(b', "model_provider": "openai"', b"")
        first = json.loads(raw.split(b"\n")[0].removeprefix(b"\xef\xbb\xbf"))
        thread = first["payload"]["id"]
        name = file.name if file.name.startswith("rollout-") else f"rollout-2026-08-17T13-00-00-{thread}.jsonl"
        (folder / name).write_bytes(raw)
        for base in file.parent.glob("rollout-*") if THREAD not in file.name else ():
            if base != file:
                shutil.copy(base, folder / base.name)
        (home / "codex" / "config.toml").write_text(
            'model = "gpt-5.2-codex"\nmodel_provider = "fake"\n[model_providers.fake]\nname = "fake"\n'
            f'base_url = "{model.url}/v1"\nwire_api = "responses"\nrequires_openai_auth = false\n'
        )
        words = [str(clients / "node_modules" / ".bin" / "codex"), "exec", "resume", "--skip-git-repo-check"]
        done = _run([*words, thread, NEXT], home / "w", _environment(home, clients, CODEX_HOME=str(home / "codex")))
        sent = [r for r in model.requests if NEXT in json.dumps(r)]
    if not sent:
        raise ClientRefuses((done.stderr + done.stdout)[-500:])
    talk: list[str] = []
    results: dict[str, str] = {}
    for item in sent[0]["input"]:  # type: ignore[attr-defined]
        kind = item["type"]
        if kind == "message" and item["role"] in ("user", "assistant"):
            texts = [part.get("text") or "" for part in item["content"]]
            text = "".join(t for t in texts if not t.startswith(("<image name", "</image>")))
            if not text.lstrip().startswith(("<environment_context>", "# AGENTS.md", NEXT)):
                talk.append(f"{item['role'][0]}:{text}")
        elif kind.endswith("_call"):
            talk.append(f"c:{item['call_id']}" if item.get("call_id") else "c:")
        elif kind.endswith("_output"):
            results.setdefault(item["call_id"], _result(item["output"]))
        elif kind == "reasoning":
            talk.append("t:")
    summaries = [json.loads(r)["payload"]["message"] for r in file.read_bytes().split(b"\n") if b'"compacted"' in r]
    talk = ["s" + t[1:] if t[2:].strip() in [s.strip() for s in summaries] else t for t in tidy(talk)]
    return {"talk": sorted(talk, key=lambda t: t[0] != "s"), "results": results}


def codex_displayed(clients: Path, file: Path) -> list[str]:
    """The texts that the app-server's `thread/read` shows of a thread, as `u:` and `a:` lines."""
    with _own_home() as home:
        folder = home / "codex" / "sessions" / "2026" / "08" / "17"
        folder.mkdir(parents=True)
        thread = json.loads(file.read_bytes().split(b"\n")[0])["payload"]["id"]
        for one in [file, *file.parent.glob("rollout-*")] if file.name.startswith("rollout-") else [file]:
            name = one.name if one.name.startswith("rollout-") else f"rollout-2026-08-17T13-00-00-{thread}.jsonl"
            shutil.copy(one, folder / name)
        child = subprocess.Popen(
            [str(clients / "node_modules" / ".bin" / "codex"), "app-server"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=_environment(home, clients, CODEX_HOME=str(home / "codex")),
            cwd=home / "w",
        )
        assert child.stdin is not None and child.stdout is not None
        try:
            info = {"name": "test", "title": "test", "version": "0"}
            for message in (
                {"id": 0, "method": "initialize", "params": {"clientInfo": info}},
                {"method": "initialized"},
                {"id": 1, "method": "thread/read", "params": {"threadId": thread, "includeTurns": True}},
            ):
                child.stdin.write(json.dumps(message).encode() + b"\n")
            child.stdin.flush()
            for line in child.stdout:
                answer = json.loads(line)
                if answer.get("id") == 1:
                    break
        finally:
            child.stdin.close()
            child.terminate()
            child.wait(timeout=SECONDS_MAX)
    if "result" not in answer:
        raise ClientRefuses(str(answer.get("error")))
    talk = []
    for turn in answer["result"]["thread"]["turns"]:
        for item in turn["items"]:
            if item["type"] == "userMessage":
                talk.append("u:" + "".join(part.get("text") or "" for part in item["content"]))
            elif item["type"] == "agentMessage":
                talk.append("a:" + item["text"])
    return talk


def pi(clients: Path, files: list[Path]) -> list[Shape | ClientRefuses]:
    """What Pi's SessionManager makes of each of `files` (copies of which it may rewrite)."""
    with _own_home() as home:
        copies = []
        for number, file in enumerate(files):
            copies.append(home / f"{number}.jsonl")
            shutil.copy(file, copies[-1])
        script = Path(__file__).parent / "pi_context.mjs"
        done = _run(
            ["node", str(script), str(clients)], home / "w", _environment(home, clients), "\n".join(map(str, copies))
        )
        answers = [json.loads(line) for line in done.stdout.split("\n") if line]
    assert len(answers) == len(files), done.stderr[-500:]
    return [ClientRefuses(a["error"]) if "error" in a else _pi_shape(a["messages"]) for a in answers]


def _pi_shape(messages: list[dict[str, object]]) -> Shape:
    talk: list[str] = []
    results: dict[str, str] = {}
    calls: list[str] = []
    for message in messages:
        role = message["role"]
        content = message.get("content") or ""
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        assert isinstance(blocks, list)
        text = "".join(block.get("text") or "" for block in blocks)
        if role in ("user", "custom"):
            talk.append(f"u:{text}")
        elif role == "branchSummary":
            talk.append(f"u:{message['summary']}")
        elif role == "compactionSummary":
            talk.append(f"s:{message['summary']}")
        elif role == "bashExecution" and not message.get("excludeFromContext"):
            talk.append(f"x:{message['command']}")
        elif role == "toolResult":
            results.setdefault(str(message["toolCallId"]), _result(blocks))
        elif role == "assistant":
            for block in blocks:
                if block["type"] == "toolCall":
                    calls.append(block["id"])
                talk.append({"text": "a:", "thinking": "t:", "toolCall": "c:"}[block["type"]] + _said(block))
    return {"talk": tidy(talk), "results": {call: results.get(call, MISSING) for call in calls}}


def _said(block: dict[str, str]) -> str:
    return block.get("text") or (block["id"] if block["type"] == "toolCall" else "")


def claude_sdk(clients: Path, files: list[Path]) -> list[list[str]]:
    """The ids of the records that the reader of Claude's SDK gives for each of `files`."""
    with _own_home() as home:
        rows = []
        for number, file in enumerate(files):
            cwd = home / "w" / str(number)
            cwd.mkdir()
            project = home / f"c{number}" / "projects" / claude_slug(str(cwd))
            project.mkdir(parents=True)
            session = f"aaaaaaaa-0000-4000-8000-{number:012}"
            shutil.copy(file, project / f"{session}.jsonl")
            rows.append(f"{home / f'c{number}'}\t{session}\t{cwd}")
        script = Path(__file__).parent / "claude_sdk.mjs"
        done = _run(["node", str(script), str(clients)], home / "w", _environment(home, clients), "\n".join(rows))
        answers = [json.loads(line) for line in done.stdout.split("\n") if line]
    assert len(answers) == len(files), done.stderr[-500:]
    return [[uuid for _, uuid in answer.get("messages", [])] for answer in answers]


def _result(content: object) -> str:
    if isinstance(content, list):
        content = "".join(block.get("text") or "" for block in content)
    assert isinstance(content, str)
    return MISSING if content.startswith(_LOST) and content != "aborted by user" else content.strip()


def _run(words: list[str], cwd: Path, environment: dict[str, str], given: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        words,
        cwd=cwd,
        env=environment,
        input=given,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=SECONDS_MAX,
    )
