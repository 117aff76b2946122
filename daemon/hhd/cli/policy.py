"""The commands `hhd policy ...`: what a session may do on this device, and why."""

from __future__ import annotations

import json
from pathlib import Path

import click

from hhd.app import policies
from hhd.base.text import visible

_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@click.group("policy")
def command() -> None:
    """Show what a session may do on this device: the rules in force, and the walls around commands."""


@command.command("show")
@_JSON
def show(as_json: bool) -> None:
    """Show the rules, what holds where none speaks, and whether commands run in a sandbox."""
    found = policies.in_force()
    if as_json:
        shown = {
            "file": str(found.file),
            "rules": [{"verdict": verdict, "rule": text} for verdict, text in found.rules],
            "defaults": dict(found.defaults),
            "environment": list(found.environment),
            "sandbox": {"on": found.sandbox, "says": list(found.walls)},
        }
        print(json.dumps(shown))
        return
    print(f"Rules, from [policy] in {visible(str(found.file), one_line=True)}:")
    for verdict, text in found.rules or [("", "none")]:
        print(f"  {verdict:6}{visible(text, one_line=True)}")
    print("Where no rule speaks:")
    for tool, verdict in found.defaults:
        print(f"  {verdict:6}{tool}")
    for sentence in found.walls:
        print(sentence)
    print(f"Variables a command gets, where they are set: {', '.join(found.environment)}, LC_*.")


@command.command("check")
@click.argument("tool")
@click.argument("what")
@click.option("-C", "folder", type=click.Path(path_type=Path, file_okay=False), default=".", help="The workspace.")
@_JSON
def check(tool: str, what: str, folder: Path, as_json: bool) -> None:
    """Say what would become of one call: TOOL with the command or path WHAT. Nothing is run."""
    found = policies.judge(tool, what, folder=folder)
    if as_json:
        print(json.dumps({"verdict": found.verdict, "reason": found.reason}))
    else:
        print(f"{found.verdict}: {found.reason}")
