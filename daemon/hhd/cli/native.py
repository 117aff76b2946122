"""The commands `hhd native ...`: sessions of Claude Code, Codex and Pi, found, read, searched and kept."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from hhd.app import natives
from hhd.base.errors import Exit
from hhd.base.text import visible
from hhd.cli import native_convert

if TYPE_CHECKING:
    from hhd.native.cards import Card
    from hhd_protocol.transcript import Header, Item

_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
_HARNESS = click.option("--harness", type=click.Choice(["claude", "codex", "pi"]), help="Only this client's sessions.")
_CWD = click.option(
    "--cwd", type=click.Path(path_type=Path, file_okay=False), help="Only sessions of this working directory."
)

_BAR_CELLS = 24
_LIST_CHARS = 60
_BLOCK_LINES = 40
_BLOCK_CHARS = 6000


@click.group("native")
def command() -> None:
    """Find, read, search, keep and convert sessions of Claude Code, Codex and Pi."""


command.add_command(native_convert.convert)
command.add_command(native_convert.verify)
command.add_command(native_convert.resume)


@command.command("ls")
@_HARNESS
@_CWD
@_JSON
def ls(harness: str | None, cwd: Path | None, as_json: bool) -> None:
    """List the sessions on this device, newest first."""
    with _bar("looking at sessions") as steps:
        cards = natives.listed(harness=harness, cwd=cwd, steps=steps)
    if as_json:
        _print_json({"sessions": [_card(card) for card in cards]})
        return
    home = str(Path.home())
    rows = []
    for card in cards:
        where = card.cwd or "?"
        where = "~" + where[len(home) :] if where == home or where.startswith(home + os.sep) else where
        what = card.title or card.prompt or f"({card.note or 'no prompt near its begin'})"
        when = (card.ended or card.started or "")[:16].replace("T", " ")
        rows.append(
            _line(f"{card.harness:6} {card.id:36} {when:16} {_size(card.bytes):>6} {where}  {what[:_LIST_CHARS]}")
        )
    if rows:
        print("\n".join(rows))
    else:
        print("No sessions found.", file=sys.stderr)


@command.command("show")
@click.argument("session")
@click.option("--from", "turn", type=int, help="Begin at this prompt (1 is the first, -1 the last).")
@_JSON
def show(session: str, turn: int | None, as_json: bool) -> None:
    """Show the conversation of SESSION, an id (or its begin) or a file.

    With --json the transcript comes as JSON Lines: its header, then one item a line.
    """
    with _bar("looking for the session") as steps:
        path = natives.file(session, steps=steps)
    with _bytes_bar("reading", path) as progress:
        header, items = natives.shown(path, turn=turn, progress=progress)
    if as_json:
        from hhd_protocol.transcript import encode_header, encode_item

        out = sys.stdout.buffer
        out.write(encode_header(header) + b"\n")
        for _, item in items:
            out.write(encode_item(item) + b"\n")
        out.flush()
        return
    _head(header)
    shown = None
    for number, item in items:
        if number != shown:
            shown = number
            print(f"\n-- {number} --" if number else "")
        _show_item(item)


@command.command("info")
@click.argument("session")
@_JSON
def info(session: str, as_json: bool) -> None:
    """Say what SESSION holds, and what became of every record of its file."""
    with _bar("looking for the session") as steps:
        path = natives.file(session, steps=steps)
    counts: dict[str, int] = {}
    with _bytes_bar("reading", path) as progress, natives.opened(path, progress=progress) as reading:
        for item in reading.items():
            name = type(item).__name__.lower()
            counts[name] = counts.get(name, 0) + 1
        header, account = reading.header, reading.account
    if as_json:
        import msgspec

        _print_json(
            {
                "header": msgspec.to_builtins(header),
                "items": counts,
                "records": account.records,
                "account": msgspec.to_builtins(account.tallies),
                "changes": msgspec.to_builtins(account.changes),
            }
        )
        return
    _head(header)
    print("items: " + (", ".join(f"{number} {name}" for name, number in sorted(counts.items())) or "none"))
    print(f"records: {account.records}")
    for tally in account.tallies:
        where = ", ".join(f"{a}" if a == b else f"{a}-{b}" for _, a, b in tally.lines[:6])
        more = ", …" if len(tally.lines) > 6 or not tally.lines_complete else ""
        print(
            _line(f"  {tally.records:7} {tally.verdict.value:10} {tally.reason.value:14} {tally.kind}: {where}{more}")
        )
    for change in account.changes:
        first = change.source and change.source.line
        print(_line(f"  {change.did.value}: {change.why} ({change.count}, first in line {first})"))


@command.command("search")
@click.argument("text")
@_HARNESS
@_CWD
@click.option("--limit", type=click.IntRange(min=1), default=100, show_default=True, help="Stop after so many places.")
@_JSON
def search(text: str, harness: str | None, cwd: Path | None, limit: int, as_json: bool) -> None:
    """Find TEXT in what was said, called and answered; capital letters do not matter."""
    found: list[dict[str, object]] = []
    with _bar("searching") as steps:
        for number, hit in enumerate(natives.search(text, harness=harness, cwd=cwd, steps=steps)):
            if number >= limit:
                break
            if as_json:
                more = {"line": hit.line, "speaker": hit.speaker, "text": hit.snippet, "live": hit.live}
                found.append({**_card(hit.card), **more})
            else:
                _clear()
                print(_line(f"{hit.card.harness} {hit.card.id} line {hit.line}, {hit.speaker}: {hit.snippet}"))
    if as_json:
        _print_json({"places": found})


@command.command("archive")
@click.argument("sessions", nargs=-1)
@click.option("--all", "every", is_flag=True, help="Keep every session of every client.")
@click.option("--list", "listing", is_flag=True, help="List what is kept.")
@click.option("--check", "checking", is_flag=True, help="Read the whole archive and report damage.")
@click.option(
    "--restore",
    type=click.Path(path_type=Path, readable=False),
    help="Write the kept original of SESSION below this folder.",
)
@_JSON
def archive(
    sessions: tuple[str, ...], every: bool, listing: bool, checking: bool, restore: Path | None, as_json: bool
) -> int:
    """Keep the originals of SESSIONS exactly, side folders included; what is kept already costs nothing."""
    if listing:
        kept = list(natives.kept())
        names = [{"harness": o.harness.value, "id": o.id, "bytes": o.size, "files": len(o.files)} for o in kept]
        _rows({"originals": names}, names, as_json)
        return Exit.DONE
    if checking:
        damages = natives.check()
        _rows({"damages": damages}, [{"damage": damage} for damage in damages], as_json)
        return Exit.UNEXPECTED if damages else Exit.DONE
    if restore is not None:
        if len(sessions) != 1:
            raise click.UsageError("Name one session to restore.")
        paths = natives.restore(sessions[0], restore)
        _rows({"files": [str(p) for p in paths]}, [{"file": str(p)} for p in paths], as_json)
        return Exit.DONE
    if not sessions and not every:
        raise click.UsageError("Name a session, or use --all.")
    rows: list[dict[str, object]] = []
    with _bar("keeping") as steps:
        if every:
            for card, result in natives.keep_all(steps=steps):
                if isinstance(result, str):
                    rows.append({"harness": card.harness, "id": card.id, "error": result})
                else:
                    rows.append({"harness": card.harness, "id": card.id, **_kept(result.new, result.written)})
        for name in sessions:
            done = natives.keep(natives.file(name, steps=steps))
            row: dict[str, object] = {"harness": done.original.harness.value, "id": done.original.id}
            rows.append({**row, **_kept(done.new, done.written)})
    _rows({"kept": rows}, rows, as_json)
    return Exit.DONE


def _kept(new: bool, written: int) -> dict[str, object]:
    return {"new": new, "written_bytes": written}


def _rows(whole: object, rows: Sequence[Mapping[str, object]], as_json: bool) -> None:
    if as_json:
        _print_json(whole)
        return
    for row in rows:
        print(
            _line(
                "  ".join(
                    f"{key} {value}" if key not in ("harness", "id") else f"{value}" for key, value in row.items()
                )
            )
        )


def _card(card: Card) -> dict[str, object]:
    import msgspec

    return {name: value for name, value in msgspec.structs.asdict(card).items() if name not in ("inode",)}


def _head(header: Header) -> None:
    for name, value in natives.facts(header):
        print(_line(f"{name}: {value[:200]}"))


def _show_item(item: Item) -> None:
    speaker, text = natives.spoken(item)
    mark = "" if getattr(item, "live", True) else " (not sent to the model)"
    outcome = getattr(getattr(item, "outcome", None), "value", "")
    about = f" ({outcome})" if outcome in ("error", "missing") else ""
    pictures = sum(1 for part in getattr(item, "parts", ()) if not hasattr(part, "text"))
    more = f" [{pictures} more part{'s' * (pictures != 1)}]" if pictures else ""
    shown = visible(text[:_BLOCK_CHARS])
    cut = shown.split("\n")
    left_out = len(text) > _BLOCK_CHARS or len(cut) > _BLOCK_LINES
    body = "\n".join("  " + line for line in cut[:_BLOCK_LINES])
    print(f"{_line(speaker)}{about}{mark}{more}:")
    if shown:
        print(body)
    if left_out:
        print(f"  … {len(text)} characters in all; the whole with --json")


def _line(text: str) -> str:
    return visible(text, one_line=True)


def _size(size: int) -> str:
    for unit in ("B", "KB", "MB"):
        if size < 1000:
            return f"{size} {unit}"
        size //= 1000
    return f"{size} GB"


def _print_json(value: object) -> None:
    json.dump(value, sys.stdout)
    print()


@contextmanager
def _bar(what: str) -> Iterator[Steps]:
    """A progress bar on standard error, if that is a terminal; it shows up only when there is much to do."""
    bar = Steps(what)
    try:
        yield bar
    finally:
        bar.end()


@contextmanager
def _bytes_bar(what: str, path: Path) -> Iterator[Bytes]:
    bar = Bytes(what, path)
    try:
        yield bar
    finally:
        bar.end()


def _clear() -> None:
    if sys.stderr.isatty():
        sys.stderr.write("\r\x1b[K")


class Steps:
    """Shows how much of how much is done."""

    _SHOWN_FROM = 200

    def __init__(self, what: str) -> None:
        self._what = what
        self._terminal = sys.stderr.isatty()
        self._shown = -1

    def __call__(self, done: int, total: int) -> None:
        if not self._terminal or total < self._SHOWN_FROM:
            return
        percent = 100 * done // total
        if percent != self._shown:
            self._shown = percent
            cells = _BAR_CELLS * percent // 100
            bar = "#" * cells + "." * (_BAR_CELLS - cells)
            sys.stderr.write(f"\r{self._what} [{bar}] {percent}%")
            sys.stderr.flush()

    def end(self) -> None:
        """Take the bar away."""
        if self._shown >= 0:
            _clear()
            sys.stderr.flush()


class Bytes(Steps):
    """Shows how much of a file has been read."""

    _SHOWN_FROM = 50_000_000

    def __init__(self, what: str, path: Path) -> None:
        super().__init__(what)
        self._total = path.stat().st_size
        self._done = 0

    def __call__(self, more: int, _total: int = 0) -> None:
        self._done += more
        super().__call__(self._done, self._total)
