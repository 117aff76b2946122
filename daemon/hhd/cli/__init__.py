"""The command line: a table of commands, each imported only when it is called."""

from __future__ import annotations

import sys

from hhd.base.errors import Exit, UserError

COMMANDS = {
    "config": ("hhd.cli.config", "Say where this device's configuration is, and what could stand in it."),
    "up": ("hhd.cli.up", "Start the daemon in the background."),
    "down": ("hhd.cli.down", "End the daemon."),
    "restart": (
        "hhd.cli.restart",
        "End the daemon and start it anew, as after an upgrade.",
    ),
    "doctor": ("hhd.cli.doctor", "Say what may keep hhd from working here, and how to mend it."),
    "logs": ("hhd.cli.logs", "Show what the daemon noted; -f follows."),
    "status": ("hhd.cli.status", "Say whether the daemon runs."),
    "daemon": ("hhd.cli.daemon", "Be the daemon, in the foreground."),
    "run": ("hhd.cli.run", "Let the agent work in a folder."),
    "attach": ("hhd.cli.attach", "Come to a session at this terminal: watch it, answer it, speak to it."),
    "send": ("hhd.cli.send", "Say something to a session."),
    "pause": ("hhd.cli.pause", "Pause a session, or all that are at work."),
    "resume": ("hhd.cli.resume", "Go on with a session."),
    "ls": ("hhd.cli.ls", "List the sessions of this device, newest first."),
    "show": ("hhd.cli.show", "Show where a session stands, and its conversation."),
    "log": ("hhd.cli.log", "List what devices signed in a session; -f follows."),
    "heads": ("hhd.cli.heads", "List where each line of a session's work ends."),
    "diff": ("hhd.cli.diff", "Show what two heads of a session did past the place where they part."),
    "pick": ("hhd.cli.pick", "Say which head of a session you prefer."),
    "rename": ("hhd.cli.rename", "Give a session a title."),
    "archive": ("hhd.cli.archive", "Leave a session out of lists, or show it again."),
    "settle": ("hhd.cli.settle", "Say what became of what was begun and not heard of again."),
    "approve": ("hhd.cli.approve", "Say yes to what a session waits with."),
    "deny": ("hhd.cli.deny", "Say no to what a session waits with."),
    "fork": ("hhd.cli.fork", "Make a new session that begins as another was."),
    "export": ("hhd.cli.export", "Write a session to a capsule file, plain or sealed."),
    "import": ("hhd.cli.importing", "Make a session of a capsule file."),
    "transfer": ("hhd.cli.transfer", "Hand a session on to another of your devices, where it goes on."),
    "transfers": ("hhd.cli.transfers", "List sessions on their way to or from other devices."),
    "receive": ("hhd.cli.receive", "Take a session from a file that another device made for this one."),
    "takeover": ("hhd.cli.takeover", "Take a session over from a device that is gone."),
    "rm": ("hhd.cli.rm", "Remove a session, here or on all your devices."),
    "devices": ("hhd.cli.devices", "List your devices, and say what another one may do for this one."),
    "rename-device": ("hhd.cli.rename_device", "Give one of your devices another name."),
    "unpair": ("hhd.cli.unpair", "Put one of your devices out: nothing it says counts from now on."),
    "pair": ("hhd.cli.pair", "Make two of your devices known to each other, by a short code."),
    "sync": ("hhd.cli.sync", "Say how far your other devices are; --pause, --resume."),
    "follow": ("hhd.cli.follow", "Let one of your devices have a session."),
    "unfollow": ("hhd.cli.unfollow", "Send nothing more of a session to one of your devices."),
    "peer": ("hhd.cli.peer", "Say where your other devices are, and see which are linked."),
    "capsule": ("hhd.cli.capsule", "Make, step, run and look at capsules: one session in one file."),
    "policy": ("hhd.cli.policy", "Show what a session may do on this device, and why."),
    "native": ("hhd.cli.native", "Find, read, search and keep sessions of Claude Code, Codex and Pi."),
    "workspace": ("hhd.cli.workspace", "Capture a working folder, and make a capture appear in one."),
    "check": ("hhd.cli.check", "Read the whole store and say what is damaged; --repair mends it."),
    "gc": ("hhd.cli.gc", "Thin old checkpoints and free what nothing needs."),
    "du": ("hhd.cli.du", "Say what uses how much of the store."),
    "completions": ("hhd.cli.completions", "Print a script that completes hhd's words in bash, zsh or fish."),
    "manual": ("hhd.cli.manual", "Print the manual page, hhd(1)."),
    "paths": ("hhd.cli.paths", "Say where hhd keeps things on this device."),
}
"""Name of a command: the module that holds it as `command`, and its line of help."""


def run(arguments: list[str] | None = None) -> int:
    """Run one command line and return its exit status; errors are one sentence on stderr.

    With `--json` an error is also the one JSON object on stdout: `{"error": SENTENCE, "exit": STATUS}`.
    """
    words = sys.argv[1:] if arguments is None else arguments
    as_json = "--json" in words
    try:
        status = _quick(words) if words[:1] in (["capsule"], ["ls"], ["transfer"]) else _by_click(words)
        sys.stdout.flush()
        return status
    except UserError as error:
        return fail(str(error), error.exit, as_json)
    except KeyboardInterrupt:
        return fail("Interrupted.", Exit.UNEXPECTED, as_json)
    except BrokenPipeError:
        _leave_stdout()
        return Exit.UNEXPECTED
    except OSError as error:
        _leave_stdout()
        place = f" ({error.filename})" if error.filename else ""
        return fail(f"The system said: {error.strerror or error}{place}.", Exit.UNEXPECTED, False)


def _leave_stdout() -> None:
    """Nobody reads what is left to print, or it cannot be written: do not try again on the way out."""
    import os

    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def _quick(words: list[str]) -> int:
    """Do `ls`, `transfer` and `capsule step|run` without importing click, which takes as long as these themselves."""
    from hhd.cli import quick

    call = quick.parse(words)
    return _by_click(words) if call is None else call()


def _by_click(words: list[str]) -> int:
    import click

    from hhd.cli.tree import hhd

    as_json = "--json" in words
    try:
        status = hhd.main(args=words, prog_name="hhd", standalone_mode=False)
        return int(status) if isinstance(status, int) else Exit.DONE
    except click.exceptions.Abort:
        return fail("Interrupted.", Exit.UNEXPECTED, as_json)
    except click.ClickException as error:
        if error.__class__.__name__ == "NoArgsIsHelpError":  # Click before 8.2 prints the help by itself.
            print(error.format_message(), file=sys.stderr)
            return Exit.USAGE
        hint = f" Try '{error.ctx.command_path} --help'." if isinstance(error, click.UsageError) and error.ctx else ""
        return fail(error.format_message().rstrip(".") + "." + hint, Exit.USAGE, as_json)


def fail(sentence: str, status: int, as_json: bool) -> int:
    """Print one sentence on stderr, and with `as_json` the one object on stdout; return `status`."""
    import contextlib

    from hhd.base.text import visible

    try:
        if as_json:
            import json

            print(json.dumps({"error": sentence, "exit": int(status)}))
        sys.stdout.flush()
    except OSError:
        _leave_stdout()
    with contextlib.suppress(OSError):
        print(f"hhd: {visible(sentence)}", file=sys.stderr)
    return int(status)
