"""The client of a service that speaks the Messages API, on the `anthropic` SDK: the one file that knows that vendor.

Retries of unanswered calls, `retry-after` and time-outs are the SDK's. What is ours:

* The guest's request is a stranger's: only fields of a conversation pass; what would make the service itself reach out
  (server-side tools, addresses to fetch) is refused with an error the agent can deal with.
* Events are taken raw, so that blocks go back to the service exactly as they came, and are bounded in time and size.
* Other services than the vendor's own get the key in the older header too, which many of them read.
* No redirect is followed: the SDK would send the key along to whatever address is named.
* A reply that breaks off or is not the Messages API is asked for again a few times, since a model call may be repeated.

The SDK is imported when it is first needed (`hhd.effects.model.warm`).
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import urlsplit

from hhd.base.config import SERVICE_DEFAULT, Credential, ModelConfig
from hhd.base.errors import Exit
from hhd.base.text import visible
from hhd.effects.assembly import Assembly, BrokenReply
from hhd.effects.model import Kind, ModelUnavailable, Told, Watch, encode_reply
from hhd_protocol.limits import EFFECT_BYTES_MAX

if TYPE_CHECKING:
    import anthropic
    import httpx2

CONNECT_SECONDS = 15.0
"""Until a connection stands; a network that takes longer is none."""

WAIT_SECONDS_MAX = 120.0
"""The longest `retry-after` that is waited out with the session running; beyond it the person decides."""

PAUSE_SECONDS = 0.5
"""Before a reply that broke is asked for again, doubled each time, as the SDK does for calls that got none."""

WIRE_BYTES_MAX = 16 * EFFECT_BYTES_MAX
"""Bytes of one streamed reply on the wire: an event of one character has about 100 bytes, real ones carry more."""

REASON_CHARS_MAX = 300
"""Of a service's own error text in a sentence for the person."""

FIELDS = frozenset(
    {"cache_control", "max_tokens", "messages", "output_config", "stop_sequences", "system", "temperature", "thinking"}
    | {"tool_choice", "tools", "top_k", "top_p"}
)
"""What of a guest's request goes to the service."""

_STATUS_OF_ERROR = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "api_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}
"""An error inside a stream has no status of its own; these are the statuses the service documents for each type."""


@dataclass(kw_only=True)
class MessagesApi:
    """Answers model calls by asking one service for one model."""

    name: str
    credential: Credential
    config: ModelConfig
    transport: httpx2.BaseTransport | None = None
    """What carries the requests; None: the network."""
    requests: int = field(default=0, init=False)
    """HTTP requests sent so far, retries included."""
    _client: anthropic.Anthropic | None = field(default=None, init=False, repr=False)
    _watch: Watch | None = field(default=None, init=False, repr=False)

    def answer(self, request: bytes, *, position: int, watch: Watch) -> bytes:
        """Ask the service; see `hhd.effects.model.Model`."""
        try:
            body, purpose = _body(request)
        except ValueError as error:
            return encode_reply({"error": {"type": "invalid_request_error", "message": str(error)}, "status": 400})
        if purpose == "compaction":
            watch(Told(kind=Kind.NOTICE, text="The conversation is being summarised to make room."))
            heard = watch
            watch = lambda told: heard(told) if told.kind is Kind.NOTICE else None  # noqa: E731
        broken: BrokenReply | None = None
        for attempt in range(self.config.retries + 1):
            if attempt:
                watch(Told(kind=Kind.NOTICE, text=f"The reply of {self._host} {broken}; asking again."))
                time.sleep(PAUSE_SECONDS * 2 ** (attempt - 1))
            try:
                return encode_reply(self._ask(body, watch))
            except BrokenReply as error:
                broken = error
            except ValueError as error:
                broken = BrokenReply("holds something that JSON cannot")
                broken.__cause__ = error
        assert broken is not None
        if broken.reply is not None:
            return encode_reply(broken.reply)
        raise ModelUnavailable(f"The reply of {self._host} {broken}.", Exit.ROLLED_BACK) from broken

    def _ask(self, body: dict[str, object], watch: Watch) -> dict[str, object]:
        import anthropic
        import httpx2

        self._watch = watch
        try:
            stream = self.client().messages.create(
                model=self.name,
                max_tokens=1,
                messages=[],
                stream=True,
                extra_body={**body, "model": self.name, "stream": True},
            )
            with stream:
                if "event-stream" not in stream.response.headers.get("content-type", "").lower():
                    return _unstreamed(stream.response.read(), watch)
                return self._streamed(stream.raw_events(stream.response), watch)
        except anthropic.APIStatusError as error:
            return self._refused(error.status_code, error.body)
        except anthropic.APITimeoutError as error:
            raise self._unreachable("did not answer in time") from error
        except anthropic.APIConnectionError as error:
            raise self._unreachable(f"cannot be reached ({_root(error)})") from error
        except httpx2.TimeoutException as error:
            raise BrokenReply("stalled") from error
        except httpx2.HTTPError as error:
            raise BrokenReply("broke off") from error

    def _streamed(self, events: Iterator[_Event], watch: Watch) -> dict[str, object]:
        assembly = Assembly(watch)
        for event in events:
            if not event.data:
                continue
            try:
                data = json.loads(event.data)
            except (ValueError, RecursionError) as error:
                raise BrokenReply("holds an event that is not JSON") from error
            if event.event == "error" or (isinstance(data, dict) and data.get("type") == "error"):
                details = data.get("error") if isinstance(data, dict) else None
                kind = details.get("type") if isinstance(details, dict) else None
                status = _STATUS_OF_ERROR.get(str(kind), 500)
                reply = self._refused(status, data)
                if status in (429, 529) or 500 <= status < 600:
                    raise BrokenReply(f"ended in an error ({status})", reply)
                return reply
            assembly.add(data)
            if assembly.finished:
                break
        return assembly.reply()

    def _refused(self, status: int, body: object) -> dict[str, object]:
        """An error the agent can put to the person as it is; raises ModelUnavailable for what must be mended first."""
        found = body.get("error") if isinstance(body, dict) else None
        kind = found.get("type") if isinstance(found, dict) else None
        message = found.get("message") if isinstance(found, dict) else None
        kind = kind if isinstance(kind, str) else "api_error"
        message = message if isinstance(message, str) else f"The service answered with status {status}."
        said = visible(message[:REASON_CHARS_MAX], one_line=True).rstrip(".")
        if status in (401, 403):
            raise ModelUnavailable(f"{self._host} does not accept the key ({said}).")
        if status == 402:
            raise ModelUnavailable(f"{self._host} takes no calls on this account ({said}).")
        if status == 404:
            raise ModelUnavailable(f"{self._host} has no model {visible(self.name, one_line=True)} ({said}).")
        if 300 <= status < 400:
            raise ModelUnavailable(f"{self._host} points to another address, which is not followed with your key.")
        return {"error": {"type": kind, "message": message}, "status": status}

    def _unreachable(self, what: str) -> ModelUnavailable:
        return ModelUnavailable(f"{self._host} {what}.", Exit.ROLLED_BACK)

    @property
    def _host(self) -> str:
        return visible(urlsplit(self.credential.base_url).netloc.rpartition("@")[2], one_line=True)

    def client(self) -> anthropic.Anthropic:
        """The SDK's client, made when it is first needed."""
        if self._client is None:
            import anthropic
            import httpx2

            from hhd.effects import tls

            times = httpx2.Timeout(self.config.stall_seconds, connect=min(CONNECT_SECONDS, self.config.stall_seconds))
            key, ours = self.credential.api_key, self.credential.base_url.rstrip("/") == SERVICE_DEFAULT
            carried: dict[str, Any] = {"verify": tls.trusted()}
            if self.transport is not None:
                carried = {"transport": self.transport}
            hooks: dict[str, list[Callable[..., Any]]] = {"request": [self._sent], "response": [self._came]}
            self._client = anthropic.Anthropic(
                api_key=key,
                auth_token=self.credential.auth_token,
                base_url=self.credential.base_url,
                max_retries=self.config.retries,
                timeout=times,
                default_headers={} if ours or key is None else {"x-api-key": key},
                http_client=anthropic.DefaultHttpxClient(
                    follow_redirects=False, event_hooks=hooks, timeout=times, **carried
                ),
            )
        return self._client

    def _sent(self, request: httpx2.Request) -> None:
        self.requests += 1

    def _came(self, response: httpx2.Response) -> None:
        """Bound what was answered, and tell the watcher of a call that will be made again."""
        from hhd.effects.bounded import bounded

        response.stream = bounded(response.stream, WIRE_BYTES_MAX, time.monotonic() + self.config.timeout_seconds)
        wait = _seconds(response.headers.get("retry-after"))
        if wait > WAIT_SECONDS_MAX:
            response.headers["x-should-retry"] = "false"
        if response.status_code in (408, 409, 429) or response.status_code >= 500:
            assert self._watch is not None
            self._watch(Told(kind=Kind.NOTICE, text=f"{self._host} answered with status {response.status_code}."))


class _Event(Protocol):
    """A server-sent event, as the SDK's decoder gives it."""

    @property
    def event(self) -> str | None: ...

    @property
    def data(self) -> str: ...


def load_sdk() -> None:
    """Import what a call needs; it takes about a second."""
    import anthropic  # noqa: F401

    from hhd.effects import bounded  # noqa: F401


def _body(request: bytes) -> tuple[dict[str, object], str]:
    """The fields of a guest's request that go to the service, and its purpose; raises ValueError with the reason."""
    try:
        found = json.loads(request)
    except (ValueError, RecursionError) as error:
        raise ValueError("the request is not JSON") from error
    if not isinstance(found, dict):
        raise ValueError("the request is not an object")
    body = {name: value for name, value in found.items() if name in FIELDS and value is not None}
    tools = body.get("tools", [])
    if not isinstance(tools, list) or not all(
        isinstance(tool, dict) and tool.get("type", "custom") == "custom" for tool in tools
    ):
        raise ValueError("only tools of this device may be offered to the model, none that run at the service")
    messages = body.get("messages")
    if not isinstance(messages, list) or _names_an_address(messages):
        raise ValueError("the conversation is missing, or names an address for the service to fetch")
    return body, str(found.get("purpose", "turn"))


def _names_an_address(value: object) -> bool:
    """Whether some block of a conversation has a source that the service itself would fetch."""
    todo = [value]
    while todo:
        item = todo.pop()
        if isinstance(item, list):
            todo.extend(item)
        elif isinstance(item, dict):
            source = item.get("source")
            if item.get("type") in ("image", "document") and isinstance(source, dict) and source.get("type") == "url":
                return True
            if item.get("type") != "tool_use":
                todo.extend(part for part in item.values() if isinstance(part, list | dict))
    return False


def _unstreamed(raw: bytes, watch: Watch) -> dict[str, object]:
    """The reply of an endpoint that does not stream though it was asked to."""
    try:
        message = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise BrokenReply("is neither a stream of events nor JSON") from error
    content = message.get("content") if isinstance(message, dict) else None
    if not isinstance(content, list):
        raise BrokenReply("is not a message")
    assembly = Assembly(watch)
    for index, block in enumerate(content):
        assembly.add({"type": "content_block_start", "index": index, "content_block": block})
        assembly.add({"type": "content_block_stop", "index": index})
    assembly.add({"type": "message_delta", "delta": message, "usage": message.get("usage")})
    assembly.add({"type": "message_stop"})
    return assembly.reply()


def _seconds(retry_after: str | None) -> float:
    try:
        return float(retry_after or 0)
    except ValueError:
        return 0.0


def _root(error: BaseException) -> str:
    """The innermost reason, such as "Connection refused"."""
    while (inner := error.__cause__ or error.__context__) is not None:
        error = inner
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error) or type(error).__name__
    return visible(reason[:REASON_CHARS_MAX], one_line=True).rstrip(".")
