"""The configuration of this device: one TOML file, `config.toml`, read afresh by each command, held by the daemon.

Every key is in `TABLES` with its kind, default and meaning; `document()` writes the commented file that a person
starts from. What is not in the table is refused by name and never ignored: a misspelt limit that silently does nothing
is worse than a command that stops. A file that holds a credential must be readable by this user alone. The environment
supplies credentials too (`ModelConfig.credential` says how the two are paired). Nothing here is ever read from a
workspace, a capsule or a peer.
"""

from __future__ import annotations

import os
import stat
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from hhd.base.errors import RefusedError
from hhd.base.paths import config_folder

FORMAT = 1
"""Of the file; a newer one is refused in one sentence, an older one migrated after a copy (`config_format`).

A file that names none has format 1, the first."""

FILE_BYTES_MAX = 1024 * 1024
"""A configuration typed by a person; more is some other file."""

MODEL_DEFAULT = "claude-sonnet-5-5"
SERVICE_DEFAULT = "https://api.anthropic.com"


@dataclass(frozen=True, kw_only=True)
class Key:
    """One key of the file: its kind, its default (None: absent means absent), its bounds, what it is for."""

    kind: type
    default: object
    meaning: str
    least: float = 0
    most: float = float("inf")


MODEL_KEYS: Mapping[str, Key] = {
    "name": Key(kind=str, default=MODEL_DEFAULT, meaning="the model, or scripted:FILE"),
    "base_url": Key(kind=str, default=None, meaning="an endpoint that speaks the Messages API"),
    "api_key": Key(kind=str, default=None, meaning="for the service at base_url; the file must then be 0600"),
    "auth_token": Key(kind=str, default=None, meaning="a bearer token instead of a key; the file must then be 0600"),
    "allow_plain_http": Key(kind=bool, default=False, meaning="let conversation and key go unencrypted to base_url"),
    "timeout_seconds": Key(
        kind=float, default=900.0, meaning="one model call, from first to last byte", least=1, most=86400
    ),
    "stall_seconds": Key(kind=float, default=120.0, meaning="silence within a call", least=1, most=86400),
    "retries": Key(kind=int, default=2, meaning="of overloaded, rate-limited and unreachable calls", most=20),
    "calls_max": Key(kind=int, default=200, meaning="model calls of one session before hhd asks", least=1, most=10**9),
    "tokens_max": Key(
        kind=int, default=10_000_000, meaning="tokens of one session before hhd asks", least=1, most=10**15
    ),
}
"""The table `[model]`."""

STORE_KEYS: Mapping[str, Key] = {
    "keep_days": Key(kind=int, default=30, meaning="turn borders younger than this keep their content", most=100_000),
    "bytes_max": Key(kind=int, default=0, meaning="the store grows to this size at most (0: any)", most=2**60),
    "free_bytes_min": Key(
        kind=int, default=128 * 1024 * 1024, meaning="of the disk that the store leaves free", most=2**60
    ),
}
"""The table `[store]`."""

IDENTITY_KEYS: Mapping[str, Key] = {
    "keyring": Key(kind=bool, default=False, meaning="make this device's key in the keyring, not in a file"),
}
"""The table `[identity]`."""

LINKS_KEYS: Mapping[str, Key] = {
    "port": Key(
        kind=int, default=0, meaning="where other devices reach this one (0: 17470, or a free one)", most=65535
    ),
    "multicast": Key(kind=bool, default=True, meaning="find devices on the same network, and be found"),
    "bytes_per_second": Key(kind=int, default=0, meaning="sent to each device at most (0: any)", most=2**40),
}
"""The table `[links]`."""

SYNC_KEYS: Mapping[str, Key] = {
    "session_bytes_max": Key(kind=int, default=0, meaning="taken of one session from others (0: any)", most=2**60),
    "spare_battery": Key(kind=bool, default=True, meaning="on battery, send content together twice a minute"),
    "spare_metered": Key(kind=bool, default=True, meaning="the same on a metered network, where the system says so"),
}
"""The table `[sync]`."""

TABLES: Mapping[str, Mapping[str, Key]] = {
    "model": MODEL_KEYS,
    "store": STORE_KEYS,
    "identity": IDENTITY_KEYS,
    "links": LINKS_KEYS,
    "sync": SYNC_KEYS,
}

_SECRET = frozenset({"api_key", "auth_token"})


@dataclass(frozen=True, kw_only=True)
class Credential:
    """What proves to one endpoint who is calling. Never shown: its repr leaves the value out."""

    base_url: str
    api_key: str | None = field(default=None, repr=False)
    auth_token: str | None = field(default=None, repr=False)


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """The table `[model]`; see `MODEL_KEYS`."""

    name: str
    base_url: str | None
    api_key: str | None = field(repr=False)
    auth_token: str | None = field(repr=False)
    allow_plain_http: bool
    timeout_seconds: float
    stall_seconds: float
    retries: int
    calls_max: int
    tokens_max: int

    def credential(self, environ: Mapping[str, str] | None = None) -> Credential:
        """The endpoint and the key for it, from the environment and this table.

        `ANTHROPIC_BASE_URL`, `ANTHROPIC_API_KEY` and `ANTHROPIC_AUTH_TOKEN` win over the file, with one exception: a
        key is never sent to an address that was set beside another key. Raises RefusedError when there is no key, or
        when it would go unencrypted over a network.
        """
        env = os.environ if environ is None else environ
        url, own = env.get("ANTHROPIC_BASE_URL") or None, bool(self.api_key or self.auth_token)
        env_key, env_token = env.get("ANTHROPIC_API_KEY") or None, env.get("ANTHROPIC_AUTH_TOKEN") or None
        if own and (url is None if self.base_url else not (env_key or env_token)):
            key, token = self.api_key, self.auth_token
        elif env_key or env_token:
            key, token = env_key, env_token
        else:
            key = token = None
        url = url or self.base_url or SERVICE_DEFAULT
        if not key and not token:
            where = f" for {_host(url)}" if url != SERVICE_DEFAULT else ""
            raise RefusedError(
                f"There is no key{where}: set ANTHROPIC_API_KEY, or api_key beside base_url under [model] in {path()}."
            )
        _insist_on_private_line(url, self.allow_plain_http)
        return Credential(base_url=url, api_key=key, auth_token=None if key else token)

    def secrets(self, environ: Mapping[str, str] | None = None) -> tuple[str, ...]:
        """Every key and token this process knows: what no command may be given."""
        env = os.environ if environ is None else environ
        found = (self.api_key, self.auth_token, env.get("ANTHROPIC_API_KEY"), env.get("ANTHROPIC_AUTH_TOKEN"))
        return tuple(secret for secret in found if secret)


@dataclass(frozen=True, kw_only=True)
class StoreConfig:
    """The table `[store]`; see `STORE_KEYS`."""

    keep_days: int
    bytes_max: int
    free_bytes_min: int


@dataclass(frozen=True, kw_only=True)
class IdentityConfig:
    """The table `[identity]`; see `IDENTITY_KEYS`."""

    keyring: bool


@dataclass(frozen=True, kw_only=True)
class LinksConfig:
    """The table `[links]`; see `LINKS_KEYS`."""

    port: int
    multicast: bool
    bytes_per_second: int


@dataclass(frozen=True, kw_only=True)
class SyncConfig:
    """The table `[sync]`; see `SYNC_KEYS`."""

    session_bytes_max: int
    spare_battery: bool
    spare_metered: bool


@dataclass(frozen=True, kw_only=True)
class Config:
    """Everything the person set on this device, defaults filled in."""

    model: ModelConfig
    store: StoreConfig
    identity: IdentityConfig
    links: LinksConfig
    sync: SyncConfig
    policy: Mapping[str, object]
    """The table `[policy]` as it stands in the file; its schema is `hhd.effects.policy`'s."""


def path() -> Path:
    """Where the file is looked for."""
    return config_folder() / "config.toml"


_held: tuple[Config, bytes] | None = None


def hold(text: bytes | None = None) -> Config:
    """Let `load` answer from now on with the file as it is now, whatever it says later; or with this `text` of it.

    Raises RefusedError where it cannot be read: what was held before is still held.
    """
    global _held
    file = path()
    if text is None:
        _of(file, _read(file), private=False)  # An older format is migrated, so what is held is of this one.
    raw = _read(file) if text is None else text
    _held = _of(file, raw, private=text is not None), raw
    return _held[0]


def held() -> bytes | None:
    """Return the text that is held, for a process of this one's to hold too; None where nothing is."""
    return None if _held is None else _held[1]


def let_go() -> None:
    """Read afresh again."""
    global _held
    _held = None


def load(file: Path | None = None) -> Config:
    """Read the configuration, or return the one that is held; a file that is not there is an empty one.

    Raises RefusedError, with the place and the remedy, for a file that cannot be read, that others can read though it
    holds a credential, that is of a newer format, or that holds an unknown key or a value of the wrong kind.
    """
    if _held is not None and file is None:
        return _held[0]
    file = file or path()
    return _of(file, _read(file), private=False)


def _of(file: Path, raw: bytes, *, private: bool) -> Config:
    """`raw` as a configuration; `private`: nobody else has it, whatever the mode of the file is by now."""
    tree = _parsed(file, raw)
    number = tree.pop("format", 1 if raw else FORMAT)
    if not isinstance(number, int) or isinstance(number, bool) or number < 1:
        raise RefusedError(f"{file}: format must be a whole number from 1; this hhd writes {FORMAT}.")
    if number > FORMAT:
        raise RefusedError(f"{file} has format {number} and this hhd knows {FORMAT}: upgrade hhd.")
    if number < FORMAT:
        from hhd.base.config_format import migrated  # Only here: the file is read by every command.

        tree = _parsed(file, migrated(file, raw.decode("utf-8"), number, FORMAT).encode())
        tree.pop("format", None)
    policy = tree.pop("policy", {})
    if not isinstance(policy, dict):
        raise RefusedError(f"{file}: policy must be a table, [policy].")
    _insist_on_known(file, "", tree, TABLES)
    model = _table(file, "model", tree.get("model", {}), MODEL_KEYS)
    if any(model[name] for name in _SECRET) and not private:
        _insist_on_private_file(file)
    store = _table(file, "store", tree.get("store", {}), STORE_KEYS)
    identity = _table(file, "identity", tree.get("identity", {}), IDENTITY_KEYS)
    links = _table(file, "links", tree.get("links", {}), LINKS_KEYS)
    sync = _table(file, "sync", tree.get("sync", {}), SYNC_KEYS)
    return Config(
        model=ModelConfig(**model),  # type: ignore[arg-type]
        store=StoreConfig(**store),  # type: ignore[arg-type]
        identity=IdentityConfig(**identity),  # type: ignore[arg-type]
        links=LinksConfig(**links),  # type: ignore[arg-type]
        sync=SyncConfig(**sync),  # type: ignore[arg-type]
        policy=policy,
    )


def document() -> str:
    """The text of a configuration file that changes nothing: every key, commented out, with its meaning."""
    lines = ["# hhd on this device. Every key may be left out; nothing here travels.", f"format = {FORMAT}"]
    for table, keys in TABLES.items():
        lines += ["", f"[{table}]"]
        for name, key in keys.items():
            shown = '"..."' if key.default is None else _toml(key.default)
            lines.append(f"# {name} = {shown}".ljust(38) + f"# {key.meaning}")
    return "\n".join([*lines, *_POLICY]) + "\n"


_POLICY = (
    "",
    "[policy]",
    '# allow = ["bash(npm test *)"]        # rules TOOL or TOOL(PATTERN): run unasked',
    '# ask = ["read(**/.env)"]             # asked about; so are bash, write and edit where no rule speaks',
    '# deny = ["bash(git push *)"]         # refused',
    '# environment = ["NPM_TOKEN"]         # variables that commands get besides PATH, HOME, LANG and the like',
    "",
    "[policy.sandbox]",
    '# use = "auto"                        # or "require", "off"',
    "# network = true                      # for commands in the sandbox",
    '# git = "protected"                   # or "writable": hooks and settings of the workspace\'s repository',
    '# hide = ["~/Documents"]              # besides hhd\'s folders and the places of keys, such as ~/.ssh',
    '# show = ["~/.npmrc"]                 # one of those places of keys, after all',
    '# writable = ["~/.npm"]               # besides the workspace',
)
"""The part of `document` about a table whose schema is `hhd.effects.policy`'s and `.sandbox`'s."""


def _parsed(file: Path, raw: bytes) -> dict[str, object]:
    try:
        return tomllib.loads(raw.decode("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RefusedError(f"{file} is not TOML ({error}); correct it or move it away.") from error


def _read(file: Path) -> bytes:
    try:
        with open(file, "rb") as source:
            raw = source.read(FILE_BYTES_MAX + 1)
    except FileNotFoundError:
        return b""
    except OSError as error:
        raise RefusedError(f"The configuration {file} cannot be read: {error.strerror}.") from error
    if len(raw) > FILE_BYTES_MAX:
        raise RefusedError(f"The configuration {file} passes {FILE_BYTES_MAX} bytes; that is some other file.")
    return raw


def _table(file: Path, name: str, found: object, keys: Mapping[str, Key]) -> dict[str, object]:
    if not isinstance(found, dict):
        raise RefusedError(f"{file}: {name} must be a table, [{name}].")
    _insist_on_known(file, f"[{name}] ", found, keys)
    return {key: _value(file, f"[{name}] {key}", found.get(key), rule) for key, rule in keys.items()}


def _value(file: Path, place: str, found: object, rule: Key) -> object:
    if found is None:
        return rule.default
    if rule.kind is float and type(found) is int:
        found = float(found)
    if type(found) is not rule.kind:
        kind = {str: "text in quotes", bool: "true or false", int: "a whole number", float: "a number"}[rule.kind]
        raise RefusedError(f"{file}: {place} must be {kind}.")
    if isinstance(found, int | float) and not isinstance(found, bool) and not rule.least <= found <= rule.most:
        raise RefusedError(f"{file}: {place} must be from {rule.least:g} to {rule.most:g}.")
    if found == "":
        raise RefusedError(f"{file}: {place} is empty; leave the line out instead.")
    return found


def _insist_on_known(file: Path, place: str, found: Mapping[str, object], known: Mapping[str, object]) -> None:
    for name in found:
        if name not in known:
            import difflib

            near = difflib.get_close_matches(name, known, n=1)
            hint = (
                f"did you mean {near[0]}?"
                if near
                else f"known are {', '.join([*known, *([] if place else ['policy'])])}."
            )
            raise RefusedError(f"{file}: {place}{name!r} is not a setting of hhd; {hint}")


def _insist_on_private_file(file: Path) -> None:
    found = os.stat(file)
    if found.st_uid != os.geteuid():
        raise RefusedError(f"{file} holds a key and belongs to another user; nothing was sent.")
    if stat.S_IMODE(found.st_mode) & 0o077:
        raise RefusedError(f"{file} holds a key and others can read it: chmod 600 {file}.")


def _insist_on_private_line(url: str, allow_plain: bool) -> None:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise RefusedError("The base URL of the model service is not an http or https address; nothing was sent.")
    if parts.username or parts.password:
        raise RefusedError("The base URL of the model service holds a password; give a key in its own setting instead.")
    if parts.scheme == "http" and not _is_loopback(parts.hostname) and not allow_plain:
        raise RefusedError(
            f"{_host(url)} is reached without encryption, so key and conversation would be readable on the way: use "
            "https, or set allow_plain_http under [model]."
        )


def _is_loopback(host: str) -> bool:
    import ipaddress

    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _host(url: str) -> str:
    return urlsplit(url).netloc.rpartition("@")[2] or "the address"


def _toml(value: object) -> str:
    return (
        str(value).lower()
        if isinstance(value, bool)
        else f'"{value}"'
        if isinstance(value, str)
        else f"{value:_}"
        if isinstance(value, int)
        else str(value)
    )
