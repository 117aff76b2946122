"""What devices tell one another so that all have the same (`protocol/spec/sync.md`)."""

from hhd_protocol.sync.chains import Chains, Frontier, session_digest
from hhd_protocol.sync.encoding import decode_message, encode_message
from hhd_protocol.sync.machine import Sync
from hhd_protocol.sync.messages import Message

__all__ = ["Chains", "Frontier", "Message", "Sync", "decode_message", "encode_message", "session_digest"]
