"""Reads a command as one simple command, or not at all.

A policy pattern must never match text that a shell takes for more than one program with fixed words. So this is not a
shell parser that knows what is dangerous; it knows what is plain, and everything else has no words:

* outside quotes: letters, digits and `_ . / : @ % + , = -` (and `~`, `^`, `#` within a word, where they are plain);
* within '...': anything that can be typed on one line;
* within "...": the same, without `$`, backtick, backslash and `!`;
* between words: blanks and tabs.

No newline, no control character, no operator, no redirection, no expansion, no glob, no brace, no backslash, no
assignment before the command, and no word of the shell's grammar (`if`, `time`, `!` ...) as the command.
"""

from __future__ import annotations

_BARE = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./:@%+,=-")
_BARE_WITHIN = frozenset("~^#")
"""Plain only after another character of the same word: `#` begins a comment, `~` a home folder."""

_NOT_IN_DOUBLE = frozenset('"$`\\!')

_GRAMMAR = frozenset({
    "if", "then", "else", "elif", "fi", "for", "in", "do", "done", "while", "until", "case", "esac", "select",
    "function", "time", "coproc", "{", "}", "[[", "]]", "!",
})  # fmt: skip

_WRAPPERS = frozenset({
    "eval", "exec", "command", "builtin", "source", ".", "trap", "alias", "enable", "hash", "bind", "complete",
    "compgen", "mapfile", "readarray", "fc", "sh", "bash", "dash", "ash", "zsh", "ksh", "mksh", "fish", "csh",
    "tcsh", "busybox", "toybox", "env", "nohup", "nice", "ionice", "chrt", "taskset", "setsid", "setpriv",
    "timeout", "time", "stdbuf", "chroot", "unshare", "nsenter", "bwrap", "flatpak-spawn", "sudo", "doas", "su",
    "runuser", "pkexec", "xargs", "parallel", "watch", "script", "expect", "systemd-run", "at", "batch",
    "flock", "strace", "ltrace",
})  # fmt: skip
"""Commands whose further words are a command: a prefix of one says nothing about what runs."""

_INTERPRETERS = frozenset({
    "python", "python3", "perl", "ruby", "node", "deno", "php", "lua", "tclsh", "awk", "gawk", "mawk", "find",
    "ssh", "gdb",
})  # fmt: skip
"""Commands that run a program given in their words: their name alone says as little."""


def words(command: str) -> tuple[str, ...] | None:
    """The words of `command` with quotes removed if it is one simple command in plain spelling, else None."""
    found: list[str] = []
    at = 0
    while at < len(command):
        if command[at] in " \t":
            at += 1
            continue
        read = _word(command, at)
        if read is None:
            return None
        word, at = read
        found.append(word)
    if not found or not found[0] or "=" in found[0] or found[0] in _GRAMMAR or found[0].startswith(("%", "-")):
        return None
    return tuple(found)


def wraps_another(found: tuple[str, ...]) -> bool:
    """Whether the command only carries another command in its further words."""
    return found[0].rpartition("/")[2] in _WRAPPERS


def says_nothing(prefix: tuple[str, ...]) -> bool:
    """Whether commands that begin with `prefix` can do anything at all."""
    return wraps_another(prefix) or (len(prefix) == 1 and prefix[0].rpartition("/")[2] in _INTERPRETERS)


def _word(command: str, at: int) -> tuple[str, int] | None:
    """The word that begins at `at`, and where it ends."""
    word = ""
    begin = at
    while at < len(command) and command[at] not in " \t":
        char = command[at]
        if char in "'\"":
            end = command.find(char, at + 1)
            inner = command[at + 1 : end]
            if end < 0 or not all(_typed(one) for one in inner) or (char == '"' and _NOT_IN_DOUBLE & set(inner)):
                return None
            word += inner
            at = end + 1
        elif char in _BARE or (char in _BARE_WITHIN and at > begin):
            if char == "~" and command[at - 1] in ":=":
                return None
            word += char
            at += 1
        else:
            return None
    return word, at


def _typed(char: str) -> bool:
    return char.isprintable()
