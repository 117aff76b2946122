"""The items of a transcript and the facts at its head.

Order. Items come as they happened. `live` says whether the model would still be sent the item if the session were
resumed by its own client; what a compaction replaced, what lies behind a gap and what the client never sends comes
in its place with `live` false, so that nothing a person did is hidden.

Pairing. Every `Call` has exactly one `Result` after it. Where none was recorded the result has the outcome MISSING,
has no parts, and stands right after the group of calls. A result without a call is a `Note` of kind ORPHAN_RESULT.

Text. All text is well-formed Unicode: half a surrogate pair became U+FFFD, which the account reports. `Call.arguments`
is the source's own spelling (for JSON: any escapes included), so that numbers stay as they were written.
"""

from __future__ import annotations

import enum

import msgspec


class Harness(enum.Enum):
    """The client that wrote a session."""

    CLAUDE = "claude"
    CODEX = "codex"
    PI = "pi"


class At(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """Where something comes from: file (index into `Header.files`), line from 1, record id, part within the record."""

    file: int
    line: int
    record: str | None = None
    part: int = 0


class TextPart(msgspec.Struct, frozen=True, gc=False, tag="text", tag_field="part"):
    """Plain text within a message or a result; empty and blank texts are kept as they are."""

    text: str


class MediaPart(msgspec.Struct, frozen=True, gc=False, kw_only=True, tag="media", tag_field="part"):
    """A picture or a document: `base64` (as spelt in the source) or `url`, never both; neither if the source had none.

    `form` is "image", "document" or what the source calls it; `mime` and `name` are None where the source is silent.
    """

    form: str
    mime: str | None = None
    base64: str | None = None
    url: str | None = None
    name: str | None = None


class OtherPart(msgspec.Struct, frozen=True, gc=False, kw_only=True, tag="other", tag_field="part"):
    """A part of a kind that has no place here (a tool reference, a future kind): its name and its JSON as spelt."""

    form: str
    json: str


Part = TextPart | MediaPart | OtherPart


class Message(msgspec.Struct, frozen=True, gc=False, kw_only=True, tag="message", tag_field="item"):
    """What the person said: never anything a client, a vendor or a project file put in."""

    at: At
    parts: tuple[Part, ...]
    time: str | None = None
    live: bool = True


class Text(msgspec.Struct, frozen=True, gc=False, kw_only=True, tag="text", tag_field="item"):
    """Text of the assistant.

    `reply` is the source's id of the reply this is a part of: neighbours with equal ids are one reply. `model` is what
    the source names. Both are None where the source is silent. The same holds in `Thinking` and `Call`.
    """

    at: At
    text: str
    reply: str | None = None
    model: str | None = None
    time: str | None = None
    live: bool = True


class Thinking(msgspec.Struct, frozen=True, gc=False, kw_only=True, tag="thinking", tag_field="item"):
    """What the assistant thought: readable text, a sealed form bound to account and provider, or both.

    `sealed_form` is "signature" (over the text), "redacted" or "encrypted"; None if and only if `sealed` is.
    """

    at: At
    text: str
    sealed: str | None = None
    sealed_form: str | None = None
    reply: str | None = None
    model: str | None = None
    time: str | None = None
    live: bool = True


class Form(enum.Enum):
    """How to read `Call.arguments`."""

    JSON = "json"
    TEXT = "text"


class Call(msgspec.Struct, frozen=True, gc=False, kw_only=True, tag="call", tag_field="item"):
    """A tool call. `arguments` in the source's spelling; of form JSON it is meant as an object, but may be broken.

    `by_provider`: run on the provider's side (a web search); such a call may have no result of its own, and then the
    missing one is not an interruption. `native` is the source's name of the record's or block's type.
    """

    at: At
    id: str
    name: str
    arguments: str
    form: Form = Form.JSON
    native: str = ""
    namespace: str | None = None
    by_provider: bool = False
    reply: str | None = None
    model: str | None = None
    time: str | None = None
    live: bool = True


class Outcome(enum.Enum):
    """How a call ended. UNKNOWN: the source has no error flag (Codex). MISSING: no result was recorded."""

    OK = "ok"
    ERROR = "error"
    UNKNOWN = "unknown"
    MISSING = "missing"


class Result(msgspec.Struct, frozen=True, gc=False, kw_only=True, tag="result", tag_field="item"):
    """The answer to the call `call`. `at` of a MISSING result is that of the call.

    `exit_code` comes from a field or an event of the source, never from text. `plain` says that the source held the
    content as one string (not as a list), or None when it held none. `spilled` is the path inside the session's own
    side folder, relative to the session file's folder, of a text too big for the record.
    """

    at: At
    call: str
    parts: tuple[Part, ...] = ()
    outcome: Outcome = Outcome.OK
    plain: bool | None = None
    exit_code: int | None = None
    name: str | None = None
    spilled: str | None = None
    time: str | None = None
    live: bool = True


class Compaction(msgspec.Struct, frozen=True, gc=False, kw_only=True, tag="compaction", tag_field="item"):
    """From here on the model gets `summary` in place of what came before.

    Items before it that are still sent have `live` true, the others false. `kept_first`: the client sends the kept
    items before the summary (Codex), else after it. The next `standins` items were put in by the compaction itself
    (Codex's replacement history): they repeat or replace what came before, and have this record's `at`.
    `live` false: the summary does not reach the model (a later compaction or its own stand-ins replaced it).
    The summary is kept with the frame of the client's own words that it may have.
    """

    at: At
    summary: str | None
    trigger: str | None = None
    kept_first: bool = False
    standins: int = 0
    tokens_before: int | None = None
    time: str | None = None
    live: bool = True


class Shell(msgspec.Struct, frozen=True, gc=False, kw_only=True, tag="shell", tag_field="item"):
    """A command the person ran beside the conversation. `live` false: it was never shown to the model.

    `output_path` is a path of the source machine (data, never to be followed) or None; `exit_code` is None when the
    command was cancelled or the source has none.
    """

    at: At
    command: str
    output: str
    exit_code: int | None = None
    cancelled: bool = False
    truncated: bool = False
    output_path: str | None = None
    time: str | None = None
    live: bool = True


class NoteKind(enum.Enum):
    """What a text is that reaches the model but that neither person nor assistant wrote as conversation."""

    LOCAL_COMMAND = "local-command"
    HARNESS = "harness"
    BRANCH_SUMMARY = "branch-summary"
    CUSTOM = "custom"
    ORPHAN_RESULT = "orphan-result"
    SECOND_RESULT = "second-result"
    SUBAGENT_REPORT = "subagent-report"
    API_ERROR = "api-error"
    ABORTED = "aborted"


class Note(msgspec.Struct, frozen=True, gc=False, kw_only=True, tag="note", tag_field="item"):
    """Text with a label instead of a speaker. `label` is the source's own word for it, `about` the id it refers to.

    `about` is the call of an orphan result, the entry a branch summary leaves, or None.
    """

    at: At
    kind: NoteKind
    parts: tuple[Part, ...]
    label: str | None = None
    about: str | None = None
    time: str | None = None
    live: bool = True


class Gap(msgspec.Struct, frozen=True, gc=False, kw_only=True, tag="gap", tag_field="item"):
    """The record at `at` names a predecessor (`missing`) that is not there.

    `bridged`: the client goes on as if nothing were missing. Otherwise the items before the gap have `live` false.
    `behind` counts the records on the far side that could still be read.
    """

    at: At
    missing: str
    bridged: bool
    behind: int
    why: str = ""


Item = Message | Text | Thinking | Call | Result | Compaction | Shell | Note | Gap


class SourceFile(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A file that items come from; `role` is "session", "base" (an ancestor's record) or "subagent"."""

    path: str
    role: str = "session"


class Branch(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A line of conversation that was left (a rewind, a fork, a rollback): records that are not among the items.

    `at` is its first record, `from_record` the record it left the main line at (None: it begins at a root).
    """

    at: At
    from_record: str | None
    records: int
    lines: tuple[int, ...] = ()


class Subagent(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A helper's own conversation: a file beside the session (`path`), or records inside it (`path` None)."""

    id: str
    path: str | None
    records: int | None
    call: str | None = None
    type: str | None = None
    description: str | None = None


class Header(msgspec.Struct, frozen=True, kw_only=True):
    """The facts about a session.

    `id`: by which the client resumes it. `versions`, `cwds`, `models`: in order of first appearance, the last one in
    force last. `started`, `ended`: times as spelt in the first and last record that has one. `parent`: the session
    this one was forked from or belongs to. `refused`: why the client itself would not open this file, or None.
    """

    harness: Harness
    id: str | None
    files: tuple[SourceFile, ...]
    format_version: str | None = None
    versions: tuple[str, ...] = ()
    cwds: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    git_branch: str | None = None
    git_revision: str | None = None
    title: str | None = None
    first_prompt: str | None = None
    started: str | None = None
    ended: str | None = None
    parent: str | None = None
    refused: str | None = None
    branches: tuple[Branch, ...] = ()
    subagents: tuple[Subagent, ...] = ()
    side_files: tuple[str, ...] = ()
