"""The command line: a table of commands, each imported only when it is called."""

from __future__ import annotations

import importlib
import json
import sys

import click
from click.shell_completion import CompletionItem

from hhd.base.errors import Exit, UserError

COMMANDS = {
    "capsule": ("hhd.cli.capsule", "Make, step, run and look at capsules: one session in one file."),
}
"""Name of a command: the module that holds it as `command`, and its line of help."""


class _Lazy(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command = importlib.import_module(COMMANDS[cmd_name][0]).command
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in COMMANDS.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        return [CompletionItem(name, help=line) for name, (_, line) in COMMANDS.items() if name.startswith(incomplete)]


def _version(ctx: click.Context, _param: click.Parameter, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        from importlib.metadata import version

        click.echo(f"hhd {version('hhd')}")
        ctx.exit()


@click.group(cls=_Lazy, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--version", is_flag=True, callback=_version, expose_value=False, is_eager=True, help="Show the version.")
def hhd() -> None:
    """Move a running agent session between your devices: same stack, same memory, same workspace."""


def run(arguments: list[str] | None = None) -> int:
    """Run one command line and return its exit status; errors are one sentence on stderr.

    With `--json` an error is also the one JSON object on stdout: `{"error": SENTENCE, "exit": STATUS}`.
    """
    words = sys.argv[1:] if arguments is None else arguments
    as_json = "--json" in words
    try:
        status = hhd.main(args=words, prog_name="hhd", standalone_mode=False)
        return int(status) if isinstance(status, int) else Exit.DONE
    except click.exceptions.Abort:
        return _fail("Interrupted.", 130, as_json)
    except click.ClickException as error:
        hint = f" Try '{error.ctx.command_path} --help'." if isinstance(error, click.UsageError) and error.ctx else ""
        return _fail(error.format_message().rstrip(".") + "." + hint, Exit.USAGE, as_json)
    except UserError as error:
        return _fail(str(error), error.exit, as_json)
    except BrokenPipeError:
        sys.stderr.close()
        return Exit.UNEXPECTED


def _fail(sentence: str, status: int, as_json: bool) -> int:
    from hhd.base.text import visible

    if as_json:
        print(json.dumps({"error": sentence, "exit": int(status)}))
    print(f"hhd: {visible(sentence)}", file=sys.stderr)
    return int(status)
