"""The command `hhd manual`: the manual page, hhd(1), in the language of man(7)."""

from __future__ import annotations

import click

from hhd.base.release import RELEASE
from hhd.cli.lines import write
from hhd.cli.spoken import Spoken, all_spoken

_STATUS = (
    ("0", "Done."),
    ("1", "Something unexpected."),
    ("2", "The words of the command are off."),
    ("3", "Refused, with nothing changed."),
    ("4", "Failed, with what was begun undone."),
    ("5", "It cannot be known what happened; the sentence says what to run next."),
)
_ENVIRONMENT = (
    ("HHD_CONFIG_HOME, HHD_DATA_HOME, HHD_CACHE_HOME, HHD_WORKSPACES_HOME", "Where hhd keeps things; see hhd paths."),
    ("ANTHROPIC_API_KEY, ANTHROPIC_AUTH_TOKEN, ANTHROPIC_BASE_URL", "The key for the model, and where the model is."),
)


@click.command("manual")
def command() -> None:
    """Print the manual page. Read it by: hhd manual | man -l -

    To keep it: hhd manual > ~/.local/share/man/man1/hhd.1
    """
    write(page())


def page() -> str:
    """Return the manual page."""
    lines = [
        f'.TH HHD 1 "" "hhd {RELEASE}" "User commands"',
        ".SH NAME",
        r"hhd \- move a running agent session between your devices",
        ".SH SYNOPSIS",
        r".B hhd",
        r".I command",
        r"[\fIoptions\fR] [\fIarguments\fR]",
        ".SH DESCRIPTION",
        "hhd, the harness handoff daemon, moves a running coding-agent session between your own devices the way a "
        "suspended process is resumed: same call stack, same memory, same conversation, same workspace.",
        ".PP",
        _text(
            "Each command tells more of itself with --help. With --json it prints JSON; an error is then one object."
        ),
        ".SH COMMANDS",
    ]
    for one in all_spoken():
        lines += _command(one)
    lines += [".SH EXIT STATUS", *_table(_STATUS), ".SH ENVIRONMENT", *_table(_ENVIRONMENT)]
    return "".join(f"{line}\n" for line in lines)


def _command(one: Spoken) -> list[str]:
    lines = [f".SS hhd {_text(' '.join(one.words))} {_text(one.usage)}".rstrip(), _text(one.line)]
    for paragraph in one.help.split("\n\n"):
        if paragraph and paragraph.strip() != one.line:
            lines += [".PP", *(_text(line.strip()) for line in paragraph.splitlines())]
    for option in one.options:
        names = ", ".join(rf"\fB{_text(name)}\fR" for name in option.names)
        lines += [".TP", names + (rf" \fI{_text(option.value)}\fR" if option.value else ""), _text(option.help)]
    for below in one.below:
        lines += _command(below)
    return lines


def _table(rows: tuple[tuple[str, str], ...]) -> list[str]:
    return [line for name, meaning in rows for line in (".TP", rf"\fB{_text(name)}\fR", _text(meaning))]


def _text(words: str) -> str:
    """Words as roff prints them: a hyphen that is typed as one, and nothing taken for a request."""
    plain = words.replace("\\", r"\e").replace("-", r"\-")
    return rf"\&{plain}" if plain[:1] in (".", "'") else plain
