"""The command `hhd config`: where this device's configuration is, what it says, and what it could say."""

from __future__ import annotations

import dataclasses

import click

from hhd.base import config
from hhd.base.text import visible

_HIDDEN = frozenset({"api_key", "auth_token"})


@click.command("config")
@click.option("--example", is_flag=True, help="Print a file that names every setting and changes none.")
def command(example: bool) -> None:
    """Say where the configuration is, and what holds by it and its defaults; keys are not shown."""
    if example:
        click.echo(config.document(), nl=False)
        return
    file = config.path()
    loaded = config.load()
    click.echo(f"{visible(str(file), one_line=True)}{'' if file.exists() else ' (not there: all defaults)'}")
    for table in ("model", "store", "identity"):
        for name, value in dataclasses.asdict(getattr(loaded, table)).items():
            if value is not None:
                shown = "(set, not shown)" if name in _HIDDEN else visible(str(value), one_line=True)
                click.echo(f"  {table}.{name} = {shown}")
    for name, value in loaded.policy.items():
        click.echo(f"  policy.{visible(name, one_line=True)} = {visible(str(value), one_line=True)}")
