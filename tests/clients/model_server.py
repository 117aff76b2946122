"""A stand-in for the model services, on loopback: it notes each request and answers with one short text."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

ANSWER = "Understood."


class ModelServer:
    """Serves the Messages API and the Responses API while it is open; `requests` are the bodies it got."""

    def __init__(self) -> None:
        self.requests: list[dict[str, object]] = []
        self.other: list[str] = []
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                path = self.path.split("?")[0]
                if path.endswith("/messages"):
                    server.requests.append(json.loads(body))
                    self._events(_messages_events())
                elif path.endswith("/responses"):
                    server.requests.append(json.loads(body))
                    self._events(_responses_events())
                elif path.endswith("/count_tokens"):
                    self._answer(200, b'{"input_tokens": 100}')
                else:
                    server.other.append(f"POST {path}")
                    self._answer(404, b"{}")

            def do_GET(self) -> None:
                server.other.append(f"GET {self.path}")
                self._answer(404, b"{}")

            def do_HEAD(self) -> None:
                self._answer(200, b"")

            def _events(self, events: list[dict[str, object]]) -> None:
                raw = "".join(f"event: {e['type']}\ndata: {json.dumps(e)}\n\n" for e in events).encode()
                self._answer(200, raw, "text/event-stream")

            def _answer(self, status: int, raw: bytes, kind: str = "application/json") -> None:
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(raw)))
                self.end_headers()
                self.wfile.write(raw)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    def __enter__(self) -> ModelServer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


def _messages_events() -> list[dict[str, object]]:
    usage = {"input_tokens": 10, "output_tokens": 5, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 0}
    message = {
        "id": "msg_standin",
        "type": "message",
        "role": "assistant",
        "model": "claude-opus-4-1",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": usage,
    }
    return [
        {"type": "message_start", "message": message},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": ANSWER}},
        {"type": "content_block_stop", "index": 0},
        {
            "type": "message_delta",
            "delta": {"stop_reason": "end_turn", "stop_sequence": None},
            "usage": {"output_tokens": 5},
        },
        {"type": "message_stop"},
    ]


def _responses_events() -> list[dict[str, object]]:
    item = {
        "type": "message",
        "id": "msg_standin",
        "role": "assistant",
        "status": "completed",
        "content": [{"type": "output_text", "text": ANSWER, "annotations": []}],
    }
    usage = {
        "input_tokens": 10,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": 5,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 15,
    }
    return [
        {"type": "response.created", "response": {"id": "resp_standin"}},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": {"id": "resp_standin", "usage": usage, "output": [item]}},
    ]
