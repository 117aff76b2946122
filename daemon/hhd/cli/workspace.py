"""The command `hhd workspace`: a folder captured, looked at, and made to appear elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from hhd.app import folders
from hhd.base.text import visible
from hhd.cli import telling
from hhd.cli.options import JSON, SESSION

if TYPE_CHECKING:
    from hhd.node.workspace_answers import Kept
    from hhd.node.workspaces import Workspaces

CHANGES_SHOWN = 200
AT = click.option("--at", metavar="CHECKPOINT", help="Of a session: the state it had there. [default: its main head]")
FOLDER = click.Path(path_type=Path, file_okay=False)


@click.group("workspace")
def command() -> None:
    """Capture a working folder, and make a capture appear in one, bit for bit and never over your changes."""


@command.command("capture")
@click.argument("folder", type=FOLDER, default=".")
@click.option("--name", "named", multiple=True, help="Take this path although it is ignored, or holds credentials.")
@click.option("--max-bytes", type=click.IntRange(min=1), help="How much of all files may be read.")
@JSON
def capture(folder: Path, named: tuple[str, ...], max_bytes: int | None, as_json: bool) -> None:
    """Keep the state of FOLDER in the store: revision, index, changes, untracked files. Nothing in it changes."""
    with _opened(as_json) as verbs:
        made = verbs.capture(folder, named=named, bytes_max=max_bytes)
    if as_json:
        telling.as_object(made)
        return
    telling.lines([*_lines(made), f"{made.new_bytes:,} bytes were not in the store yet."])


@command.command("show")
@click.argument("capture")
@AT
@JSON
def show(capture: str, at: str | None, as_json: bool) -> None:
    """Say what CAPTURE holds: the begin of its id, a folder that was captured, or a session."""
    with _opened(as_json) as verbs:
        found = verbs.show(capture, at=at)
    if as_json:
        telling.as_object(found)
        return
    out = [f"left out ({reason}): {path}" for path, reason in found.left_out]
    telling.lines([*_lines(found), *out])


@command.command("diff")
@click.argument("capture")
@click.option("-C", "folder", type=FOLDER, help="The folder, where it is not the one that was captured.")
@AT
@JSON
def diff(capture: str, folder: Path | None, at: str | None, as_json: bool) -> None:
    """Say what differs between CAPTURE (an id, a folder, or a session) and its folder."""
    with _opened(as_json) as verbs:
        found = verbs.diff(capture, folder, at=at)
    if as_json:
        telling.as_object(found, same=found.same)
        return
    lines = [f"{what:<7} {how:<8} {path}" for what, how, path in found.changes[:CHANGES_SHOWN]]
    if len(found.changes) > CHANGES_SHOWN:
        lines.append(f"and {len(found.changes) - CHANGES_SHOWN} more")
    for what, change in (("HEAD", found.head), ("branch", found.branch)):
        if change is not None:
            lines.append(f"{what} was {change[0] or 'none'}, is {change[1] or 'none'}")
    telling.lines(lines or [f"{found.folder} is as capture {found.capture[:12]} says."])


@command.command("findings")
@SESSION
@JSON
def findings(session: str, as_json: bool) -> None:
    """Say where captured files and texts of SESSION look as if they held a credential; never what it is."""
    with _opened(as_json) as verbs:
        found = verbs.findings(session)
    if as_json:
        telling.as_object(found)
        return
    named = f"{telling.brief(found.session)} ({telling.title(found.title)})"
    lines = [f"{visible(where, one_line=True)}, line {line}: looks like {kind}" for where, line, kind in found.places]
    telling.lines(lines or [f"Nothing in {named} looked like a credential."])


@command.command("map")
@SESSION
@click.argument("folder", type=FOLDER)
@JSON
def map_session(session: str, folder: Path, as_json: bool) -> None:
    """Say that SESSION works in FOLDER on this device."""
    with _opened(as_json) as verbs:
        done = verbs.map(session, folder)
    if as_json:
        telling.as_object(done)
        return
    folder_shown = visible(done.folder, one_line=True)
    telling.lines([f"{telling.brief(done.session)} ({telling.title(done.title)}) works in {folder_shown} here"])


@command.command("apply")
@click.argument("capture")
@click.argument("folder", type=FOLDER, required=False)
@AT
@JSON
def apply(capture: str, folder: Path | None, at: str | None, as_json: bool) -> None:
    """Make CAPTURE appear in FOLDER in one step; where that would lose anything, in a new folder of hhd's."""
    with _opened(as_json) as verbs:
        done = verbs.apply(capture, folder, at=at)
    if as_json:
        telling.as_object(done)
        return
    lines = [visible(done.instead, one_line=True)] if done.instead else []
    how = "now stands in" if done.in_place else "is a new folder"
    telling.lines([*lines, f"capture {done.capture[:12]} {how}: {visible(done.folder, one_line=True)}", *done.notes])


@contextmanager
def _opened(as_json: bool) -> Iterator[Workspaces]:
    with folders.workspaces() as verbs:
        if not as_json:
            for line in verbs.recovered:
                click.echo(line, err=True)
        yield verbs


def _lines(one: Kept) -> list[str]:
    whence = f" of {one.folder}" if one.folder else ""
    lines = [f"capture {one.capture[:16]}{whence}"]
    if one.kind == "repository":
        head = one.head[:12] or "no commit yet"
        doing = f", a {one.operation} in progress" if one.operation else ""
        lines.append(f"on {one.branch or 'no branch'} at {head}{doing}; {one.index} staged entries")
    more = len(one.left_out) + one.left_out_more
    lines.append(f"{one.entries} files and links that no commit has, {one.bytes:,} bytes; {more} left out")
    return lines
