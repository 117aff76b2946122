"""One device's part in one session: what it may do now, and what it has to write for it (`protocol/spec/holding.md`).

A `Part` is a value: what this device knows, what its own store says, and how things stand around it. Inputs make
another part (`replace`, `learned`); `decide` says what to do next, and nothing is remembered beside the part. So a
message that comes twice, late or in another order changes nothing, and after a restart the same facts give the same
answer. The three doors: `may_append`, `may_start`, and `fencing.resolve` for what others send.

Outputs are in order: what is persisted stands before what is sent, and that before what is run. A list holds at most
one `Persist`; whoever carries it out signs the draft as this device's next statement, makes it durable, gives the
part what it learned (`signed`), and decides again. `Done` ends the list that fulfils the wish.

Rejected: a machine that is told "you were fenced" and reacts. It needs every event exactly once; a part that is
looked at afresh needs none.
"""

from __future__ import annotations

from hhd_protocol.holding.deciding import decide
from hhd_protocol.holding.drafts import (
    CheckpointDraft,
    Done,
    Draft,
    IntentDraft,
    Output,
    Persist,
    ReceiptDraft,
    RecordDraft,
    Refuse,
    Run,
    Send,
    Stop,
)
from hhd_protocol.holding.known import Known
from hhd_protocol.holding.part import Around, Clocks, Leg, Part
from hhd_protocol.holding.refusals import WORDS, Refusal, WayOut, Why
from hhd_protocol.holding.wishes import Append, GoOnFrom, Release, Settle, Start, TakeOver, Wish, Word

__all__ = [
    "WORDS",
    "Append",
    "Around",
    "CheckpointDraft",
    "Clocks",
    "Done",
    "Draft",
    "GoOnFrom",
    "IntentDraft",
    "Known",
    "Leg",
    "Output",
    "Part",
    "Persist",
    "ReceiptDraft",
    "RecordDraft",
    "Refusal",
    "Refuse",
    "Release",
    "Run",
    "Send",
    "Settle",
    "Start",
    "Stop",
    "TakeOver",
    "WayOut",
    "Why",
    "Wish",
    "Word",
    "decide",
]
