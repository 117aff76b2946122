"""The model client, through the real SDK, against a real HTTP server on the loopback interface."""

from __future__ import annotations

import dataclasses
import json
import socket
from typing import Any

import pytest
from tests.loopback import messages_api as lo

from hhd.base.config import Credential, ModelConfig, load
from hhd.base.errors import Exit
from hhd.effects.messages_api import MessagesApi
from hhd.effects.model import Kind, ModelUnavailable, Told

SECRET = "sk-secret-a1b2"
ASKED = {"max_tokens": 100, "messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}]}


@pytest.fixture(autouse=True)
def _here_and_now(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hhd.effects.messages_api.PAUSE_SECONDS", 0.0)
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


class Asking:
    """One client and what its watcher was told."""

    def __init__(self, url: str, **config: Any) -> None:
        settings: ModelConfig = dataclasses.replace(load().model, **{"retries": 1, "stall_seconds": 5.0, **config})
        self.model = MessagesApi(name="m-1", credential=Credential(base_url=url, api_key=SECRET), config=settings)
        self.told: list[Told] = []

    def ask(self, **fields: Any) -> dict[str, Any]:
        raw = self.model.answer(json.dumps({**ASKED, **fields}).encode(), position=0, watch=self.told.append)
        reply = json.loads(raw)
        assert isinstance(reply, dict)
        return reply

    def heard(self, kind: Kind = Kind.TEXT) -> str:
        return "".join(told.text for told in self.told if told.kind is kind)


def test_text_comes_streamed_and_whole_with_its_token_counts() -> None:
    with lo.serve([lo.message(lo.text("Hello, Grüße 🎈 from here."))]) as service:
        asking = Asking(service.url)
        reply = asking.ask()
    assert reply["content"] == [lo.text("Hello, Grüße 🎈 from here.")]
    assert reply["stop_reason"] == "end_turn"
    assert reply["usage"] == {"input_tokens": 11, "output_tokens": 5, "cache_read_input_tokens": 7}
    assert asking.heard() == "Hello, Grüße 🎈 from here."
    assert len([told for told in asking.told if told.kind is Kind.TEXT]) > 1


def test_the_request_is_the_guests_with_model_and_key_of_this_device() -> None:
    marked = [{"type": "text", "text": "be brief", "cache_control": {"type": "ephemeral"}}]
    with lo.serve([lo.message(lo.text("ok"))]) as service:
        Asking(service.url).ask(system=marked, purpose="turn", model="other", stream=False, mcp_servers=[{"url": "x"}])
        (request,) = service.requests
    assert request.path == "/v1/messages"
    assert request.body == {**ASKED, "system": marked, "model": "m-1", "stream": True}
    assert request.headers["x-api-key"] == SECRET
    assert request.headers["authorization"] == f"Bearer {SECRET}"


def test_parallel_tool_calls_come_back_in_order() -> None:
    blocks = [lo.text("Both."), lo.call("read", path="a/b.py"), lo.call("bash", command='echo "ü\\n" && ls')]
    with lo.serve([lo.message(*blocks, reason="tool_use")]) as service:
        reply = Asking(service.url).ask()
    assert reply["content"] == blocks
    assert reply["stop_reason"] == "tool_use"


def test_a_tool_call_without_input_has_an_empty_one() -> None:
    with lo.serve([lo.message(lo.call("ls"), reason="tool_use")]) as service:
        assert Asking(service.url).ask()["content"][0]["input"] == {}


def test_blocks_and_fields_unknown_here_come_back_as_they_came() -> None:
    odd = {"type": "redacted_thinking", "data": "AAAA", "later": {"field": [1, None]}}
    thinking = lo.event("content_block_start", index=0, content_block={"type": "thinking", "thinking": ""})
    for delta in ({"type": "thinking_delta", "thinking": "hm"}, {"type": "signature_delta", "signature": "sig=="}):
        thinking += lo.event("content_block_delta", index=0, delta=delta)
    thinking += lo.event("content_block_delta", index=0, delta={"type": "delta_of_the_future", "x": 1})
    thinking += lo.event("event_of_the_future", x=1) + lo.event("content_block_stop", index=0)
    with lo.serve([lo.raw_stream(lo.begin(), thinking, lo.block(1, odd), lo.end("end_turn"))]) as service:
        reply = Asking(service.url).ask()
    assert reply["content"] == [{"type": "thinking", "thinking": "hm", "signature": "sig=="}, odd]


def test_an_overloaded_or_rate_limited_service_is_asked_again_and_then_answers() -> None:
    steps = [
        lo.error(529, "overloaded_error", retry_after_ms="5"),
        lo.error(429, "rate_limit_error", retry_after="0.01"),
        lo.message(lo.text("now")),
    ]
    with lo.serve(steps) as service:
        asking = Asking(service.url, retries=2)
        assert asking.ask()["content"] == [lo.text("now")]
        assert len(service.requests) == 3
    assert "529" in asking.heard(Kind.NOTICE) and "429" in asking.heard(Kind.NOTICE)


@pytest.mark.parametrize(("status", "kind"), [(529, "overloaded_error"), (429, "rate_limit_error"), (500, "api_error")])
def test_a_service_that_stays_overloaded_is_an_error_the_agent_gets(status: int, kind: str) -> None:
    with lo.serve([lo.error(status, kind, "busy", retry_after_ms="5")]) as service:
        reply = Asking(service.url).ask()
        assert len(service.requests) == 2
    assert reply == {"error": {"type": kind, "message": "busy"}, "status": status}


def test_a_wait_of_hours_is_left_to_the_person() -> None:
    with lo.serve([lo.error(429, "rate_limit_error", retry_after="7200")]) as service:
        assert Asking(service.url).ask()["status"] == 429
        assert len(service.requests) == 1


def test_a_stream_cut_in_the_middle_is_asked_again() -> None:
    cut = lo.raw_stream(lo.begin(), lo.block(0, lo.text("half a"), stop=False))
    with lo.serve([cut, lo.message(lo.text("whole"))]) as service:
        asking = Asking(service.url)
        assert asking.ask()["content"] == [lo.text("whole")]
        assert len(service.requests) == 2
    assert "ended in the middle" in asking.heard(Kind.NOTICE)


def test_a_connection_reset_in_the_middle_is_asked_again() -> None:
    def cut(answer: lo.Answer) -> None:
        answer.head(200, content_type="text/event-stream", content_length="100000")
        answer.write(lo.begin())
        answer.hang_up()

    with lo.serve([cut, lo.message(lo.text("whole"))]) as service:
        assert Asking(service.url).ask()["content"] == [lo.text("whole")]


GARBAGE = {
    "not JSON": [b"event: message_start\ndata: {oops\n\n"],
    "an event without type": [b'event: x\ndata: {"a": 1}\n\n'],
    "a list": [b"event: x\ndata: [1]\n\n"],
    "nothing": [b""],
    "HTML": [b"<html>hello</html>\n\n"],
    "binary": [bytes(range(256)) * 10 + b"\n\n"],
    "a delta of no block": [
        lo.begin(),
        lo.event("content_block_delta", index=0, delta={"type": "text_delta", "text": "x"}),
    ],
    "a huge index": [lo.begin(), lo.event("content_block_stop", index=-1), lo.end("end_turn")],
    "a delta without text": [
        lo.begin(),
        lo.event("content_block_start", index=0, content_block={"type": "text", "text": ""}),
        lo.event("content_block_delta", index=0, delta={"type": "text_delta", "text": 7}),
    ],
    "input that is not JSON": [lo.begin(), lo.block(0, {**lo.call("ls"), "input": '{"path": '}), lo.end("tool_use")],
    "input that is a list": [lo.begin(), lo.block(0, {**lo.call("ls"), "input": "[1, 2]"}), lo.end("tool_use")],
    "no stop reason": [lo.begin(), lo.event("message_stop")],
    "NaN": [
        lo.begin(),
        b'event: x\ndata: {"type": "content_block_start", "index": 0, "content_block": {"type": "odd", "n": NaN}}\n\n',
        lo.end("end_turn"),
    ],
    "nesting": [b"event: x\ndata: " + b"[" * 100_000 + b"\n\n"],
}


@pytest.mark.parametrize("name", GARBAGE)
def test_what_is_not_the_messages_api_pauses_the_session_after_a_second_try(name: str) -> None:
    with lo.serve([lo.raw_stream(*GARBAGE[name])]) as service:
        with pytest.raises(ModelUnavailable) as raised:
            Asking(service.url).ask()
        assert len(service.requests) == 2
    assert raised.value.exit == Exit.ROLLED_BACK
    assert len(str(raised.value).splitlines()) == 1


def test_garbage_once_is_mended_by_the_second_try() -> None:
    with lo.serve([lo.raw_stream(*GARBAGE["not JSON"]), lo.message(lo.text("fine"))]) as service:
        assert Asking(service.url).ask()["content"] == [lo.text("fine")]


def test_a_reply_of_one_megabyte_arrives_whole() -> None:
    words = "".join(chr(0x61 + n % 26) if n % 7 else "é" for n in range(1_000_000))
    stream = lo.raw_stream(lo.begin(), lo.block(0, lo.text(words), pieces=20_000), lo.end("end_turn"))
    with lo.serve([stream]) as service:
        assert Asking(service.url).ask()["content"] == [lo.text(words)]


def test_an_endless_reply_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hhd.effects.assembly.EFFECT_BYTES_MAX", 100_000)

    def endless(answer: lo.Answer) -> None:
        answer.stream()
        answer.write(lo.begin() + lo.event("content_block_start", index=0, content_block=lo.text("")))
        while not answer.stop.is_set():
            answer.event("content_block_delta", index=0, delta={"type": "text_delta", "text": "x" * 1000})

    with lo.serve([endless]) as service, pytest.raises(ModelUnavailable, match="passes"):
        Asking(service.url).ask()


def test_one_endless_event_is_cut_off_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hhd.effects.messages_api.WIRE_BYTES_MAX", 100_000)

    def endless(answer: lo.Answer) -> None:
        answer.stream()
        answer.write(b"event: x\ndata: ")
        while not answer.stop.is_set():
            answer.write(b"x" * 1000)

    with lo.serve([endless]) as service, pytest.raises(ModelUnavailable, match="longer"):
        Asking(service.url).ask()


def test_a_slow_drip_ends_by_the_deadline_of_the_call() -> None:
    def drip(answer: lo.Answer) -> None:
        answer.stream()
        while not answer.stop.wait(0.02):
            answer.write(b": still here\n")

    with lo.serve([drip]) as service, pytest.raises(ModelUnavailable, match="timeout_seconds"):
        Asking(service.url, timeout_seconds=0.2, retries=0).ask()


def test_silence_in_a_stream_ends_by_the_stall_limit() -> None:
    def silent(answer: lo.Answer) -> None:
        answer.stream()
        answer.write(lo.begin())
        answer.stop.wait(10)

    with lo.serve([silent]) as service, pytest.raises(ModelUnavailable, match=r"stalled|did not answer in time"):
        Asking(service.url, stall_seconds=0.5, retries=0).ask()  # A busy machine may be silent before it answers.


def test_a_refusal_reaches_the_agent() -> None:
    with lo.serve([lo.message(lo.text("I"), reason="refusal")]) as service:
        assert Asking(service.url).ask()["stop_reason"] == "refusal"


def test_a_tool_call_cut_by_max_tokens_has_no_input_and_says_so() -> None:
    whole, cut = lo.call("read", path="a"), {**lo.call("bash"), "input": '{"command": "rm -rf bu'}
    pieces = lo.begin() + lo.block(0, whole) + lo.block(1, cut, stop=False) + lo.end("max_tokens")
    with lo.serve([lo.raw_stream(pieces)]) as service:
        reply = Asking(service.url).ask()
    assert reply["stop_reason"] == "max_tokens"
    assert reply["content"] == [whole, lo.call("bash")]


def test_an_error_event_inside_the_stream_reaches_the_agent_with_its_status() -> None:
    trouble = lo.event("error", error={"type": "overloaded_error", "message": "Overloaded"})
    with lo.serve([lo.raw_stream(lo.begin(), trouble)]) as service:
        reply = Asking(service.url).ask()
        assert len(service.requests) == 2, "it is asked for again before the agent hears of it"
    assert reply == {"error": {"type": "overloaded_error", "message": "Overloaded"}, "status": 529}


def test_an_error_event_that_does_not_come_again_is_never_heard_of() -> None:
    trouble = lo.event("error", error={"type": "overloaded_error", "message": "Overloaded"})
    with lo.serve([lo.raw_stream(lo.begin(), trouble), lo.message(lo.text("fine"))]) as service:
        assert Asking(service.url).ask()["content"] == [lo.text("fine")]


def test_an_error_event_that_asking_again_cannot_mend_is_final() -> None:
    trouble = lo.event("error", error={"type": "invalid_request_error", "message": "prompt is too long"})
    with lo.serve([lo.raw_stream(lo.begin(), trouble)]) as service:
        assert Asking(service.url).ask()["status"] == 400 and len(service.requests) == 1


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_not_followed_and_the_key_stays_here(status: int) -> None:
    with lo.serve([lo.message(lo.text("gotcha"))]) as thief:
        elsewhere = thief.url.replace("127.0.0.1", "localhost") + "/v1/messages"
        with lo.serve([lambda answer: answer.json(status, {}, location=elsewhere)]) as service:
            with pytest.raises(ModelUnavailable, match="another address"):
                Asking(service.url).ask()
            assert [request.headers["x-api-key"] for request in service.requests] == [SECRET]
        assert thief.requests == []


def test_a_wrong_key_an_unknown_model_and_no_network_are_one_sentence_each() -> None:
    refusal = lo.error(401, "authentication_error", f"invalid x-api-key\x1b[2J\n{'z' * 9999}")
    with lo.serve([refusal]) as service, pytest.raises(ModelUnavailable, match="key") as wrong:
        Asking(service.url).ask()
    missing = lo.error(404, "not_found_error", "model: m-1")
    with lo.serve([missing]) as service, pytest.raises(ModelUnavailable, match="no model m-1") as unknown:
        Asking(service.url).ask()
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        with pytest.raises(ModelUnavailable, match="Connection refused") as gone:
            Asking(f"http://127.0.0.1:{unused.getsockname()[1]}", retries=0).ask()
    for raised in (wrong, unknown, gone):
        sentence = str(raised.value)
        assert sentence.isprintable() and len(sentence) < 500 and SECRET not in sentence
    assert (wrong.value.exit, unknown.value.exit, gone.value.exit) == (3, 3, 4)


def test_the_key_is_in_no_repr() -> None:
    asking = Asking("http://127.0.0.1:1")
    assert SECRET not in repr(asking.model)


def test_an_endpoint_that_does_not_stream_is_understood() -> None:
    whole = {"type": "message", "content": [lo.text("all"), lo.call("ls", path=".")], "stop_reason": "tool_use"}
    with lo.serve(
        [lambda answer: answer.json(200, {**whole, "usage": {"input_tokens": 3, "output_tokens": 4}})]
    ) as service:
        asking = Asking(service.url)
        reply = asking.ask()
    assert reply["content"] == whole["content"] and reply["usage"] == {"input_tokens": 3, "output_tokens": 4}
    assert asking.heard() == "all"


def test_a_surrogate_pair_split_between_two_events_is_one_character() -> None:
    start = lo.event("content_block_start", index=0, content_block=lo.text(""))
    halves = [
        lo.event("content_block_delta", index=0, delta={"type": "text_delta", "text": half}) for half in "\ud83c\udf88x"
    ]
    with lo.serve([lo.raw_stream(lo.begin(), start, *halves, lo.end("end_turn"))]) as service:
        assert Asking(service.url).ask()["content"] == [lo.text("\U0001f388x")]


@pytest.mark.parametrize(
    "fields",
    [
        {"tools": [{"type": "web_search_20250305", "name": "web_search"}]},
        {"tools": "all"},
        {"messages": "hi"},
        {
            "messages": [
                {"role": "user", "content": [{"type": "image", "source": {"type": "url", "url": "http://x/?leak"}}]}
            ]
        },
    ],
)
def test_a_guest_cannot_make_the_service_reach_out(fields: dict[str, Any]) -> None:
    with lo.serve([lo.message(lo.text("ok"))]) as service:
        reply = Asking(service.url).ask(**fields)
        assert reply["status"] == 400 and service.requests == []
        assert Asking(service.url).ask(tools=[{"name": "read", "input_schema": {}}])["stop_reason"] == "end_turn"


def test_a_summary_is_not_shown_as_the_agents_words() -> None:
    with lo.serve([lo.message(lo.text("a summary"))]) as service:
        asking = Asking(service.url)
        assert asking.ask(purpose="compaction")["content"] == [lo.text("a summary")]
    assert asking.heard() == "" and "summarised" in asking.heard(Kind.NOTICE)
