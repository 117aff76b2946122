"""Writes a whole file, in one durable step."""

from __future__ import annotations

from hhd.effects.limits import FILE_BYTES_MAX
from hhd.effects.tools.gitplace import refuse_gits_own
from hhd.effects.tools.tool import Context, Input, Reply, Tool, by_place, failed


class WriteInput(Input, frozen=True, kw_only=True):
    """`content` becomes all that is in the file."""

    path: str
    content: str


def _act(asked: WriteInput, context: Context) -> Reply:
    content = asked.content.encode()
    if len(content) > FILE_BYTES_MAX:
        return failed(f"The content passes {FILE_BYTES_MAX} bytes; nothing was written.")
    place = context.place(asked.path)
    refuse_gits_own(place)
    new = context.workspace.replace_file(place, content)
    lines = asked.content.count("\n") + (not asked.content.endswith("\n") and bool(asked.content))
    size = f"{lines} line{'' if lines == 1 else 's'}, {len(content)} byte{'' if len(content) == 1 else 's'}"
    return Reply(output=f"{'Created' if new else 'Replaced'} {place} ({size}).")


WRITE: Tool[WriteInput] = Tool(
    name="write", input=WriteInput, repeatable=False, changes=True, subject=by_place("write", refuse_gits_own), act=_act
)  # fmt: skip
