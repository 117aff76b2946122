"""The harness-neutral transcript (`protocol/spec/transcript.md`): what a session says, whichever client wrote it.

A transcript is a `Header`, a stream of items in the order in which they happened, and an `Account` of every record
of the source. Items are msgspec structs rather than dataclasses: a reader makes hundreds of thousands a second, and
a frozen dataclass costs ten times as much to make.
"""

from __future__ import annotations

from hhd_protocol.transcript.account import (
    Account,
    AccountBook,
    Did,
    Loss,
    LossKind,
    Reason,
    Tally,
    Verdict,
    counts,
)
from hhd_protocol.transcript.encoding import (
    decode_header,
    decode_item,
    encode_header,
    encode_item,
    parts_text,
    well_formed,
)
from hhd_protocol.transcript.items import (
    At,
    Branch,
    Call,
    Compaction,
    Form,
    Gap,
    Harness,
    Header,
    Item,
    MediaPart,
    Message,
    Note,
    NoteKind,
    OtherPart,
    Outcome,
    Part,
    Result,
    Shell,
    SourceFile,
    Subagent,
    Text,
    TextPart,
    Thinking,
)

__all__ = [
    "Account",
    "AccountBook",
    "At",
    "Branch",
    "Call",
    "Compaction",
    "Did",
    "Form",
    "Gap",
    "Harness",
    "Header",
    "Item",
    "Loss",
    "LossKind",
    "MediaPart",
    "Message",
    "Note",
    "NoteKind",
    "OtherPart",
    "Outcome",
    "Part",
    "Reason",
    "Result",
    "Shell",
    "SourceFile",
    "Subagent",
    "Tally",
    "Text",
    "TextPart",
    "Thinking",
    "Verdict",
    "counts",
    "decode_header",
    "decode_item",
    "encode_header",
    "encode_item",
    "parts_text",
    "well_formed",
]
