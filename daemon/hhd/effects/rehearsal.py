"""A call to no service: the client of a model made, used and closed once, so that a process forked after it need not.

What the client imports late, compiles and keeps is then there before the fork, and shared. No address is looked up and
no socket is made: the client asks an object in this process.
"""

from __future__ import annotations

from hhd.base.config import Credential, ModelConfig
from hhd.effects.messages_api import MessagesApi, load_sdk

_HOST = "http://rehearsal.invalid"
_REPLY = b"""event: message_start
data: {"type":"message_start","message":{"role":"assistant","content":[],"usage":{"input_tokens":1}}}

event: content_block_start
data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Ready."}}

event: content_block_stop
data: {"type":"content_block_stop","index":0}

event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":1}}

event: message_stop
data: {"type":"message_stop"}

"""
_REQUEST = b'{"max_tokens":1,"messages":[{"role":"user","content":[{"type":"text","text":"Ready?"}]}]}'
_CONFIG = ModelConfig(
    name="rehearsal", base_url=_HOST, api_key="none", auth_token=None, allow_plain_http=True, timeout_seconds=10,
    stall_seconds=10, retries=0, calls_max=1, tokens_max=1,
)  # fmt: skip


def rehearse() -> bytes:
    """Load the client, make one call that reaches nobody, and return its reply."""
    load_sdk()
    import encodings.idna  # noqa: F401  A host's name goes through it.

    import httpx2

    def served(request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, headers={"content-type": "text/event-stream"}, content=_REPLY)

    real = MessagesApi(name="rehearsal", credential=Credential(base_url=_HOST, api_key="none"), config=_CONFIG)
    real.client().close()  # Its connections, TLS among them, are made from modules that nothing else imports.
    model = MessagesApi(
        name="rehearsal",
        credential=Credential(base_url=_HOST, api_key="none"),
        config=_CONFIG,
        transport=httpx2.MockTransport(served),
    )
    reply = model.answer(_REQUEST, position=0, watch=lambda told: None)
    model.client().close()
    return reply
