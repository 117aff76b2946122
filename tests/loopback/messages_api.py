"""A Messages API on the loopback interface, with streaming: what it answers is a list of steps, one for each request.

Each step is written by hand for one fault or one feature; `requests` keeps what came in, and counts what must not.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Block = dict[str, Any]
Step = Callable[["Answer"], None]


@dataclass(kw_only=True)
class Request:
    """One request as it came in."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]


class Answer:
    """The server's side of one request, for a step to write on."""

    def __init__(self, handler: BaseHTTPRequestHandler, stop: threading.Event) -> None:
        self._handler = handler
        self.stop = stop

    def head(self, status: int, **headers: str) -> None:
        self._handler.send_response(status)
        for name, value in headers.items():
            self._handler.send_header(name.replace("_", "-"), value)
        self._handler.end_headers()

    def write(self, raw: bytes) -> None:
        self._handler.wfile.write(raw)
        self._handler.wfile.flush()

    def json(self, status: int, value: object, **headers: str) -> None:
        raw = json.dumps(value).encode()
        self.head(status, content_type="application/json", content_length=str(len(raw)), **headers)
        self.write(raw)

    def stream(self) -> None:
        """Begin a stream; its end is the end of the connection."""
        self.head(200, content_type="text/event-stream; charset=utf-8", connection="close")

    def hang_up(self) -> None:
        """Close the connection, whatever was promised."""
        self._handler.close_connection = True

    def event(self, kind: str, **fields: Any) -> None:
        self.write(event(kind, **fields))


def event(kind: str, **fields: Any) -> bytes:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **fields})}\n\n".encode()


def begin() -> bytes:
    usage = {"input_tokens": 11, "output_tokens": 1, "cache_read_input_tokens": 7}
    message = {"id": "msg_1", "role": "assistant", "content": [], "model": "m", "stop_reason": None, "usage": usage}
    return event("message_start", message=message)


def end(reason: str, output_tokens: int = 5) -> bytes:
    delta = {"stop_reason": reason, "stop_sequence": None}
    return event("message_delta", delta=delta, usage={"output_tokens": output_tokens}) + event("message_stop")


def block(index: int, content: Block, pieces: int = 3, stop: bool = True) -> bytes:
    """The events of one content block, its text or input in about `pieces` deltas."""
    if content["type"] == "text":
        start, name, kind, whole = {**content, "text": ""}, "text", "text_delta", content["text"]
    elif content["type"] == "tool_use":
        start, name, kind = {**content, "input": {}}, "partial_json", "input_json_delta"
        whole = content["input"] if isinstance(content["input"], str) else json.dumps(content["input"])
    else:
        start, name, kind, whole = content, "", "", ""
    size = max(1, len(whole) // pieces)
    out = [event("content_block_start", index=index, content_block=start), event("ping")]
    for at in range(0, len(whole), size):
        out.append(event("content_block_delta", index=index, delta={"type": kind, name: whole[at : at + size]}))
    if stop:
        out.append(event("content_block_stop", index=index))
    return b"".join(out)


def text(words: str) -> Block:
    return {"type": "text", "text": words}


def call(name: str, **given: Any) -> Block:
    return {"type": "tool_use", "id": f"toolu_{name}", "name": name, "input": given}


def message(*blocks: Block, reason: str = "end_turn") -> Step:
    """A whole, well-formed streamed reply."""

    def act(answer: Answer) -> None:
        answer.stream()
        answer.write(begin() + b"".join(block(i, b) for i, b in enumerate(blocks)) + end(reason))

    return act


def error(status: int, kind: str, words: str = "no", **headers: str) -> Step:
    """An answer with an error status and the service's own error object."""
    return lambda answer: answer.json(status, {"type": "error", "error": {"type": kind, "message": words}}, **headers)


def raw_stream(*pieces: bytes) -> Step:
    """A stream of just these bytes, then the end of the connection."""

    def act(answer: Answer) -> None:
        answer.stream()
        for piece in pieces:
            answer.write(piece)

    return act


@dataclass(kw_only=True)
class Service:
    """A running server; use as a context. Past the last step it repeats the last one."""

    steps: list[Step]
    requests: list[Request] = field(default_factory=list)
    url: str = ""

    def __enter__(self) -> Service:
        service, self._stop = self, threading.Event()

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                raw = self.rfile.read(int(self.headers.get("content-length", 0)))
                service._take(
                    Request(
                        path=self.path,
                        headers={name.lower(): value for name, value in self.headers.items()},
                        body=json.loads(raw),
                    ),
                    self,
                )

            do_GET = do_POST

            def log_message(self, format: str, *args: Any) -> None:
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, request: Any, client_address: Any) -> None:
                """A client that hangs up is part of many tests."""

        self._server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._lock = threading.Lock()
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        return self

    def __exit__(self, *raised: object) -> None:
        self._stop.set()
        self._server.shutdown()
        self._server.server_close()

    def _take(self, request: Request, handler: BaseHTTPRequestHandler) -> None:
        with self._lock:
            self.requests.append(request)
            step = self.steps[min(len(self.requests), len(self.steps)) - 1]
        step(Answer(handler, self._stop))


def serve(steps: Iterable[Step]) -> Service:
    """A service that answers its n-th request by the n-th step."""
    return Service(steps=list(steps))
