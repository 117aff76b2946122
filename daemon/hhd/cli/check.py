"""The command `hhd check`."""

from __future__ import annotations

import json

import click

from hhd.app import stores
from hhd.base.errors import Exit
from hhd.base.text import visible


@click.command("check")
@click.option("--repair", is_flag=True, help="Mend what can be mended; the damaged file is kept beside the new one.")
@click.option("--read-data", is_flag=True, help="Also unpack every page and chunk and compare it with its id.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(repair: bool, read_data: bool, as_json: bool) -> int:
    """Read the whole store and say what is damaged, and which sessions are sound.

    Exit status 0: nothing is wrong (any more). 1: something is.
    """
    done: list[str] = []
    lost: list[str] = []
    if repair:
        result = stores.repair()
        report, done, lost = result.report, result.done, result.lost
    else:
        report = stores.check(read_data=read_data)
    status = Exit.UNEXPECTED if report.findings else Exit.DONE
    if as_json:
        print(
            json.dumps(
                {
                    "findings": [{"what": one.what, "problem": one.problem} for one in report.findings],
                    "sound": [session.hex() for session in report.sound],
                    "harmed": {
                        session.hex(): sorted(one.hex() for one in checkpoints)
                        for session, checkpoints in report.harmed.items()
                    },
                    "objects": report.objects,
                    "rows": report.rows,
                    "bytes": report.bytes,
                    "repaired": done,
                    "lost": lost,
                }
            )
        )
        return status
    for sentence in done:
        print(f"mended: {visible(sentence)}")
    for sentence in lost:
        print(f"lost: {visible(sentence)}")
    for finding in report.findings:
        print(f"damaged: {visible(finding.what)}: {visible(finding.problem)}")
    for session, checkpoints in report.harmed.items():
        print(f"session {session.hex()[:16]}: harmed, {len(checkpoints)} checkpoints cannot be read")
    print(
        f"{report.objects} objects ({report.bytes} bytes), {report.rows} rows, {len(report.sessions)} sessions, "
        f"{len(report.sound)} of them sound: {'damage was found' if report.findings else 'nothing is damaged'}."
    )
    if report.findings and not repair:
        print("Run `hhd check --repair` to mend what can be mended.")
    return status
