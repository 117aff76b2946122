"""The command `hhd pair`."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Generator
from typing import TYPE_CHECKING

import click

from hhd.app import daemons, peering
from hhd.base.errors import RefusedError, UncertainError
from hhd.base.text import short, visible
from hhd.cli import telling
from hhd.cli.agreeing import agreed

if TYPE_CHECKING:
    from hhd.node.answers.pairing import PairingStep

NAME_CHARS = 80
"""It came from the other device, and stands beside what a person has to read."""


@click.command("pair")
@click.argument("code", required=False)
@click.option("--host", metavar="HOST[:PORT]", help="Where the other device is. [default: looked for on this network]")
@click.option(
    "--role",
    type=click.Choice(["full", "controller", "store-only"]),
    help="What the device that joins may do; said where the code is shown. [default: full]",
)
def command(code: str | None, host: str | None, role: str | None) -> None:
    """Make two of your devices known to each other.

    Run it without CODE on one device: it shows a code. Run it with that CODE on the other one. Both then show the same
    words and ask; compare them, and answer on both. A code is good for one guess and for five minutes.
    """
    if code is None and host is not None:
        raise click.UsageError("--host goes with a CODE: it says where the device is that shows it")
    if code is not None and role is not None:
        raise click.UsageError("--role is said on the device that shows the code: hhd pair --role ROLE")
    daemons.up()
    steps = peering.pair_show(role or "full") if code is None else peering.pair_with(code, host=host)
    with contextlib.closing(steps):  # Who goes away closes the code.
        _follow(steps)


def _follow(steps: Generator[PairingStep, None, None]) -> None:
    yes = False
    try:
        for step in steps:
            _tell(step)
            if step.kind == "question":
                yes = agreed("Are these words on both screens, and do you want this?", as_json=False)
                peering.pair_answer(yes, step.words)  # If it comes too late, the next step says what happened.
    except KeyboardInterrupt:
        if yes:
            raise UncertainError(
                "Interrupted after your yes: hhd devices, on both, says whether they are paired."
            ) from None
        raise RefusedError("Interrupted; nothing was changed.") from None


def _tell(step: PairingStep) -> None:
    match step.kind:
        case "code":
            port = f" (or hhd pair {step.code} --host HERE:{step.port})" if step.port else ""
            telling.lines(
                [
                    f"On the other device run: hhd pair {step.code}{port}",
                    f"The code is good for one guess, within {round(step.seconds / 60)} minutes. Ctrl-C closes it.",
                ]
            )
        case "found":
            telling.lines([f"Talking with {visible(step.address, one_line=True)}."])
        case "question":
            telling.lines(_question(step))
        case "done":
            telling.lines([f"Paired with {_called(step)}. Its id is {step.device}."])
    sys.stdout.flush()  # Whoever reads the code from a pipe needs it now.


def _question(step: PairingStep) -> list[str]:
    called = _called(step)
    becomes = (
        f"{called[:1].upper()}{called[1:]} joins this device's group as {step.role}."
        if step.takes_in
        else f"This device joins the group of {called} as {step.role}"
        + (f", with {telling.count(step.others, 'more device')} in it." if step.others else ".")
    )
    return ["", "    " + "  ".join(step.words), "", becomes, f"The other device's id is {step.device}."]


def _called(step: PairingStep) -> str:
    name = short(step.name, NAME_CHARS)
    return f"the device that calls itself '{name}'" if name else "the other device"
