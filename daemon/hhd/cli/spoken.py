"""All that can be said on the command line, as values: what the manual and the completions are made of.

Both come from the commands themselves, as `--help` does, so neither can fall behind.
"""

from __future__ import annotations

from dataclasses import dataclass

import click

from hhd.cli import COMMANDS
from hhd.cli.tree import hhd


@dataclass(frozen=True, kw_only=True)
class Option:
    """One option: its names, what stands for its value (empty: it has none), the values it may have, its help."""

    names: tuple[str, ...]
    value: str
    choices: tuple[str, ...]
    help: str


@dataclass(frozen=True, kw_only=True)
class Spoken:
    """One command, or group of commands: `words` after `hhd`, its line in the table, its help, what goes with it."""

    words: tuple[str, ...]
    line: str
    help: str
    usage: str
    options: tuple[Option, ...]
    files: bool
    """Whether what follows may be the name of a file or folder."""
    below: tuple[Spoken, ...]


def all_spoken() -> tuple[Spoken, ...]:
    """Return every command of the table, in its order, with those below it."""
    context = click.Context(hhd, info_name="hhd", **hhd.context_settings)
    found = []
    for name, (_, line) in COMMANDS.items():
        command = hhd.get_command(context, name)
        assert command is not None
        found.append(_spoken((name,), line, command, context))
    return tuple(found)


def flat(many: tuple[Spoken, ...]) -> list[Spoken]:
    """Return commands and all below them, each before those below it."""
    return [one for top in many for one in (top, *flat(top.below))]


def _spoken(words: tuple[str, ...], line: str, command: click.Command, above: click.Context) -> Spoken:
    context = click.Context(command, info_name=words[-1], parent=above)
    below: list[Spoken] = []
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            one = command.get_command(context, name)
            if one is not None and not one.hidden:
                below.append(_spoken((*words, name), one.get_short_help_str(200), one, context))
    parameters = command.get_params(context)
    return Spoken(
        words=words,
        line=line,
        help=(command.help or "").replace("\b\n", "").strip(),
        usage=" ".join(command.collect_usage_pieces(context)),
        options=tuple(_option(one) for one in parameters if isinstance(one, click.Option) and not one.hidden),
        files=any(isinstance(one.type, click.Path | click.File) for one in parameters),
        below=tuple(below),
    )


def _option(option: click.Option) -> Option:
    choices = tuple(map(str, option.type.choices)) if isinstance(option.type, click.Choice) else ()
    value = "" if option.is_flag or option.count else (option.metavar or option.type.name).upper().replace(" ", "-")
    return Option(
        names=(*option.opts, *option.secondary_opts),
        value="|".join(choices) or value,
        choices=choices,
        help=(option.help or "").strip(),
    )
