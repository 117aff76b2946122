"""The environment of a command.

A command gets a short list of harmless variables and what the person named in `[policy] environment`. Nothing else: no
model key, no agent socket, no token that happened to be in the shell hhd was started from.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from hhd.base.errors import RefusedError

ALLOWED = frozenset({
    "PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR", "XDG_DATA_DIRS",
    "JAVA_HOME", "GOPATH", "GOROOT", "CARGO_HOME", "RUSTUP_HOME", "PYENV_ROOT", "NVM_DIR", "VIRTUAL_ENV",
    "CONDA_PREFIX", "NIX_PATH", "SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE",
})  # fmt: skip
"""Copied where they are set, besides LC_*: where things are and which language to speak."""

FIXED = {"TERM": "dumb", "PAGER": "cat", "GIT_PAGER": "cat", "GIT_TERMINAL_PROMPT": "0", "HHD": "1"}
"""Nobody sits at the command: no colours, no pager, no prompt. HHD tells a script that an agent runs it."""

_PATH = "/usr/local/bin:/usr/bin:/bin"
"""Where hhd itself has no PATH. Relative entries of one are left out: they would be looked for in the workspace."""

_NEVER = re.compile(
    r"HHD_.*|ANTHROPIC_.*|LD_.*|DYLD_.*|BASH_ENV|ENV|BASH_FUNC_.*|SHELLOPTS|BASHOPTS|PS4|PROMPT_COMMAND"
)
"""Names a person cannot pass on: hhd's and the model's, and those that make bash or the loader run something else."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def named(table: Mapping[str, object]) -> tuple[str, ...]:
    """The variables that `[policy] environment` passes on; raises RefusedError for one that must not be."""
    value = table.get("environment", [])
    if not isinstance(value, list) or not all(isinstance(item, str) and _NAME.fullmatch(item) for item in value):
        raise RefusedError("[policy] environment must be a list of names of environment variables.")
    for name in value:
        if _NEVER.fullmatch(name):
            raise RefusedError(f"[policy] environment names {name}, which commands never get.")
    return tuple(value)


def for_commands(
    environ: Mapping[str, str], *, named: Iterable[str] = (), secrets: Iterable[str] = (), walled: bool
) -> dict[str, str]:
    """The environment a command gets, of `environ` (that of hhd).

    `secrets`: values (the model key) that are left out under whatever name. `walled`: within the sandbox, where
    TMPDIR would point at what is hidden.
    """
    kept = {
        name: value
        for name, value in environ.items()
        if name in ALLOWED or name.startswith("LC_") or (name in set(named) and not _NEVER.fullmatch(name))
    }
    if walled:
        kept.pop("TMPDIR", None)
    hidden = {secret for secret in secrets if secret}
    kept = {name: value for name, value in kept.items() if not any(secret in value for secret in hidden)}
    kept["PATH"] = ":".join(entry for entry in kept.get("PATH", "").split(":") if entry.startswith("/")) or _PATH
    return {**kept, **FIXED}
