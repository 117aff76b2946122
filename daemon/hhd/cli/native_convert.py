"""The commands `hhd native convert`, `verify` and `resume`."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import click

from hhd.app import natives
from hhd.base.errors import Exit
from hhd.base.text import visible
from hhd.cli.typed import typed

if TYPE_CHECKING:
    from hhd.node.native_convert import Converted

_CLIENTS = click.Choice(["claude", "codex", "pi"])
_JSON = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
_NAMES = {"claude": "Claude Code", "codex": "Codex", "pi": "Pi"}
_DONE = {
    "looked": "Nothing was written: put it in its place with --install, or below a folder with --out.",
    "written": "Written to {path}",
    "updated": "Brought up to date: {path}",
    "unchanged": "Nothing to do, the session has not grown since it was converted: {path}",
}


@click.command("convert")
@click.argument("session")
@click.option("--to", "target", type=_CLIENTS, required=True, help="The client to convert to.")
@click.option(
    "--cwd", type=click.Path(path_type=Path, readable=False), help="The folder the session works in. [default: its own]"
)
@click.option(
    "--out",
    type=click.Path(path_type=Path, readable=False),
    help="Write below this folder, laid out as in the client's home.",
)
@click.option("--install", is_flag=True, help="Write where the client looks for its sessions.")
@click.option("--explain", is_flag=True, help="Name every single thing that did not come along as it was.")
@click.option(
    "--strict", multiple=True, metavar="KIND", help="Refuse if anything of this kind would change or be lost."
)
@click.option("--redact", is_flag=True, help="Take out what looks like credentials.")
@click.option(
    "--manifest",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write the place of every item on both sides to this new file.",
)
@click.option("--new", "anew", is_flag=True, help="Make another session, even if an earlier conversion exists.")
@_JSON
def convert(
    session: str,
    target: str,
    cwd: Path | None,
    out: Path | None,
    install: bool,
    explain: bool,
    strict: tuple[str, ...],
    redact: bool,
    manifest: Path | None,
    anew: bool,
    as_json: bool,
) -> None:
    """Make of SESSION, an id (or its begin) or a file, a session of another client.

    The source is only read, and nothing that exists is written to.
    """
    if out is not None and install:
        raise click.UsageError("Choose one of --out and --install.")
    if manifest is not None and (out is None and not install):
        raise click.UsageError("--manifest goes with --out or --install.")
    if manifest is not None and manifest.exists():
        raise click.UsageError(f"{manifest} exists; nothing that exists is written to.")
    path = natives.file(session, steps=lambda _done, _total: None)
    done = natives.convert(
        path,
        target=target,
        cwd=cwd,
        out=out,
        install=install,
        strict=strict,
        redact=redact,
        anew=anew,
        manifest=manifest,
    )
    if as_json:
        _print_json({**natives.conversion_summary(done), "manifest": done.manifest_path and str(done.manifest_path)})
        return
    _tell(done, explain, installed=install)
    if manifest is not None and done.manifest_path is None:
        print(f"{typed(manifest)} was not written, since nothing was converted; --new makes another session.")


@click.command("verify")
@click.argument("session")
@click.option("--with-client", is_flag=True, help="Let the real client load it too.")
@_JSON
def verify(session: str, with_client: bool, as_json: bool) -> int:
    """Read SESSION whole and say whether a client could resume it: every call with its result."""
    path = natives.file(session, steps=lambda _done, _total: None)
    found = natives.verify(path, with_client=with_client)
    bad = bool(found["unpaired"] or found["refused"] or found.get("client") not in (None, "accepts it"))
    if as_json:
        _print_json({**found, "sound": not bad})
    else:
        for name, value in found.items():
            if value is not None:
                print(visible(f"{name}: {value}", one_line=True))
        print("It does not fit together." if bad else "It fits together.")
    return Exit.UNEXPECTED if bad else Exit.DONE


@click.command("resume")
@click.argument("session")
@click.option("--with", "target", type=_CLIENTS, required=True, help="The client to go on with.")
@click.option("--print", "only_print", is_flag=True, help="Show the command instead of running it.")
def resume(session: str, target: str, only_print: bool) -> None:
    """Go on with SESSION in the real client, converting it first where it is another's."""
    path = natives.file(session, steps=lambda _done, _total: None)
    command, cwd = natives.resume(path, target=target, run=not only_print)
    if only_print:
        print(f"cd {shlex.quote(str(cwd))} && {shlex.join(command)}")
        return
    natives.run_client(target, command, cwd)


def _tell(done: Converted, explain: bool, *, installed: bool) -> None:
    manifest = done.manifest
    source, target = _NAMES[manifest.source.harness.value], _NAMES[manifest.target.value]
    print(f"{source} session {visible(manifest.source.id or '?', one_line=True)} to {target}.")
    print(visible(_DONE[manifest.did.value].format(path=manifest.path), one_line=True))
    if manifest.did.value == "unchanged":
        return
    if manifest.returned:
        print(f"It came from {target}: its first legs are its own records again, {manifest.items} items were added.")
    else:
        print(f"{manifest.items} items came along.")
    rows: dict[tuple[str, str, str], int] = {}
    for loss in manifest.losses:
        key = (loss.did.value, loss.kind.value, loss.why)
        rows[key] = rows.get(key, 0) + loss.count
    for (did, kind, why), number in sorted(rows.items()):
        print(visible(f"  {did:8} {number:6} {kind}: {why}", one_line=True))
    if explain:
        for loss in manifest.losses:
            place = f"line {loss.source.line}" if loss.source is not None else "the session"
            there = f", now line {loss.target.line}" if loss.target is not None else ""
            print(
                visible(
                    f"  {place}{there}: {loss.kind.value} {loss.did.value}, {loss.why} ({loss.count})", one_line=True
                )
            )
    if done.manifest_path is not None:
        print(f"The place of every item on both sides: {typed(done.manifest_path)}")
    if manifest.path is not None and installed:  # Elsewhere a client may not find it, or not open it.
        print(f"Go on with: hhd native resume {typed(manifest.path)} --with {manifest.target.value}")


def _print_json(value: object) -> None:
    print(json.dumps(value))
