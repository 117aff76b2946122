"""The command `hhd completions`: scripts that complete the words of hhd in bash, zsh and fish.

Each is made of the commands as they are, whole, so that completing starts no process.
"""

from __future__ import annotations

import click

from hhd.cli.lines import write
from hhd.cli.spoken import Option, Spoken, all_spoken, flat

SHELLS = ("bash", "zsh", "fish")


@click.command("completions")
@click.argument("shell", type=click.Choice(SHELLS))
def command(shell: str) -> None:
    """Print a script that completes commands and options in SHELL.

    For bash: hhd completions bash > ~/.local/share/bash-completion/completions/hhd. For fish: hhd completions fish >
    ~/.config/fish/completions/hhd.fish. For zsh: save it as _hhd in a folder of your fpath.
    """
    write(script(shell))


def script(shell: str) -> str:
    """Return the script for a shell of `SHELLS`."""
    return {"bash": _bash, "zsh": _zsh, "fish": _fish}[shell](all_spoken())


def _bash(top: tuple[Spoken, ...]) -> str:
    cases, values = [], []
    for one in flat(top):
        words = [*(below.words[-1] for below in one.below), *_names(one)]
        cases.append(f"        {_quoted(' '.join(one.words))}) words={_quoted(' '.join(words))} ;;")
        for option in one.options:
            if option.value:
                for name in option.names:
                    key = _quoted(f"{' '.join(one.words)} {name}")
                    chosen = _quoted(" ".join(option.choices))
                    values.append(f"        {key}) _hhd_value {chosen}; return ;;")
    groups = "|".join(_quoted(" ".join(one.words)) for one in flat(top) if one.below) or "''"
    return f"""\
# bash completion for hhd; made by: hhd completions bash
_hhd_value() {{
    if [ -n "$1" ]; then
        COMPREPLY=($(compgen -W "$1" -- "$cur"))
    else
        COMPREPLY=($(compgen -f -- "$cur"))
    fi
}}
_hhd() {{
    local cur=${{COMP_WORDS[COMP_CWORD]}} prev=${{COMP_WORDS[COMP_CWORD-1]}} at="" words="" n
    COMPREPLY=()
    for ((n = 1; n < COMP_CWORD; n++)); do
        case "$at" in ''|{groups}) ;; *) break ;; esac
        case "${{COMP_WORDS[n]}}" in -*) ;; *) at="${{at:+$at }}${{COMP_WORDS[n]}}" ;; esac
    done
    case "$at $prev" in
{_lines(values)}
    esac
    case "$at" in
        '') words={_quoted(" ".join([*(one.words[0] for one in top), "--help", "--version"]))} ;;
{_lines(cases)}
    esac
    COMPREPLY=($(compgen -W "$words" -- "$cur"))
}}
complete -o default -F _hhd hhd
"""


def _zsh(top: tuple[Spoken, ...]) -> str:
    commands = _lines([f"        {_quoted(f'{_colons(one.words[0])}:{one.line}')}" for one in top])
    cases = []
    for one in flat(top):
        told = [(below.words[-1], below.line) for below in one.below]
        told += [(name, option.help) for option in one.options for name in option.names]
        rows = _lines([f"                {_quoted(f'{_colons(word)}:{meaning}')}" for word, meaning in told])
        cases.append(f"        {_quoted(' '.join(one.words))})\n            found=(\n{rows}\n            ) ;;")
    groups = "|".join(_quoted(" ".join(one.words)) for one in flat(top) if one.below) or "''"
    return f"""\
#compdef hhd
# zsh completion for hhd; made by: hhd completions zsh
_hhd() {{
    local at="" n
    local -a found
    for ((n = 2; n < CURRENT; n++)); do
        case "$at" in ''|{groups}) ;; *) break ;; esac
        case "${{words[n]}}" in -*) ;; *) at="${{at:+$at }}${{words[n]}}" ;; esac
    done
    case "$at" in
        '')
            found=(
{commands}
            )
            ;;
{_lines(cases)}
    esac
    if [[ -n "$at" && "${{words[CURRENT]}}" != -* ]]; then
        _files
    fi
    _describe 'hhd' found
}}
if [ "$funcstack[1]" = _hhd ]; then _hhd "$@"; else compdef _hhd hhd; fi
"""


def _fish(top: tuple[Spoken, ...]) -> str:
    lines = [
        "# fish completion for hhd; made by: hhd completions fish",
        "function __hhd_at",
        "    set -l words (commandline -opc | string match -v -- '-*')",
        "    set words[1] hhd",
        '    string match -q -- "hhd $argv[1] *" "$words "',
        "end",
        "function __hhd_first",
        "    test (count (commandline -opc | string match -v -- '-*')) -eq $argv[1]",
        "end",
    ]
    for one in top:
        lines.append(f"complete -c hhd -f -n '__hhd_first 1' -a {_fished(one.words[0])} -d {_fished(one.line)}")
    for one in flat(top):
        at = _fished(f"__hhd_at {_fished(' '.join(one.words))}")
        for below in one.below:
            both = _fished(f"__hhd_at {_fished(' '.join(one.words))}; and __hhd_first {len(one.words) + 1}")
            lines.append(f"complete -c hhd -f -n {both} -a {_fished(below.words[-1])} -d {_fished(below.line)}")
        for option in one.options:
            lines.append(f"complete -c hhd -n {at} {_fish_names(option)} -d {_fished(option.help)}")
    return _lines(lines) + "\n"


def _fish_names(option: Option) -> str:
    words = [f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in option.names]
    if option.value:
        words.append(f"-x -a {_fished(' '.join(option.choices))}" if option.choices else "-r")
    return " ".join(words)


def _names(one: Spoken) -> list[str]:
    return [name for option in one.options for name in option.names]


def _lines(lines: list[str]) -> str:
    return "\n".join(lines)


def _quoted(words: str) -> str:
    """One word of bash and zsh."""
    return "'" + words.replace("'", "'\\''") + "'"


def _fished(words: str) -> str:
    """One word of fish."""
    return "'" + words.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _colons(words: str) -> str:
    return words.replace(":", "\\:")
