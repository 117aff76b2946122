"""Conversions of native sessions for the faces: convert, check, and hand over to the real client."""

from __future__ import annotations

import os
import shlex
import shutil
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec

from hhd.base import files
from hhd.base.errors import RefusedError, UsageError, UserError
from hhd.base.paths import data_folder, private_folder
from hhd.native.convert.conversion import Converter, Did, Kept, Manifest, Wish
from hhd.native.convert.folders import place
from hhd.native.convert.history import Conversion, History
from hhd.native.convert.returning import original_in_place
from hhd.native.convert.writer import Session
from hhd.native.homes import Homes
from hhd.native.opening import open_session
from hhd.node import native
from hhd.node.this_device import own_box
from hhd_protocol.transcript import Call, Harness, LossKind, Message, Result, TextPart, counts
from hhd_protocol.transcript import Did as Fate

_KEY_BYTES = 32
_ROWS_A_WRITE = 8192
_PATH_BYTES_MAX = 4096


@dataclass(frozen=True, kw_only=True)
class Converted:
    """What a conversion did, and where its manifest stands (None: not asked for, only looked, or nothing to do)."""

    manifest: Manifest
    manifest_path: Path | None


def convert(
    path: Path,
    *,
    target: Harness,
    cwd: Path | None,
    out: Path | None,
    install: bool,
    strict: tuple[LossKind, ...] = (),
    redact: bool = False,
    anew: bool = False,
    manifest: Path | None = None,
) -> Converted:
    """Convert the session in `path`; without `out` and `install` only look.

    `manifest`: a file to write the place of every item on both sides to; hhd itself keeps none, since it says much of
    a session. Raises RefusedError, with nothing written, where `strict` names a kind of which something would change
    or be lost.
    """
    with native.opened(path) as reading:
        header = reading.header
        cwds = header.cwds
    folder = _folder(cwd, cwds, target, install)
    home = _home(target) if install else out
    wish = Wish(target=target, home=home, cwd=folder, redact=redact, anew=anew)
    with tempfile.TemporaryDirectory(prefix="hhd-original-") as aside:
        converter = _converter(Path(aside))
        if strict:
            _refuse_losses(converter.convert(path, Wish(target=target, home=None, cwd=folder, redact=redact)), strict)
        if home is None:
            return Converted(manifest=converter.convert(path, wish), manifest_path=None)
        with suppress(UserError, OSError):
            # The way back wants the original even after its client has removed it.
            native.keep(path)
        if manifest is None:
            return Converted(manifest=converter.convert(path, wish), manifest_path=None)
        with _ManifestFile(manifest) as file:
            made = converter.convert(path, wish, kept=file.row)
            kept_at = file.close(made) if made.did is not Did.UNCHANGED else None
        return Converted(manifest=made, manifest_path=kept_at)


def verify(path: Path, *, with_client: bool) -> dict[str, object]:
    """Read the session in `path` and count what does not fit together, by name."""
    with native.opened(path) as reading:
        items = calls = unpaired = 0
        said: str | None = None
        waiting: set[str] = set()
        for item in reading.items():
            items += 1
            if isinstance(item, Message) and item.live:
                said = next(
                    (part.text for part in item.parts if isinstance(part, TextPart) and part.text.strip()), said
                )
            if isinstance(item, Call):
                calls += 1
                unpaired += item.id in waiting
                waiting.add(item.id)
            elif isinstance(item, Result):
                unpaired += item.call not in waiting
                waiting.discard(item.call)
        header = reading.header
    found: dict[str, object] = {
        "harness": header.harness.value,
        "id": header.id,
        "items": items,
        "calls": calls,
        "unpaired": unpaired + len(waiting),
        "refused": header.refused,
    }
    if with_client:
        from hhd.native.convert.with_client import takes_it_up  # A web server, which nothing else here needs.

        found["client"] = takes_it_up(path, header.harness, header.id or path.stem, said)
    return found


def resume_command(path: Path, *, target: Harness) -> tuple[list[str], Path]:
    """The command by which the client `target` goes on with the session, and the folder to run it in.

    A session of another client is converted and put in its place first.
    """
    with native.opened(path) as reading:
        header = reading.header
    if header.harness is target:
        session_id, where, cwd = header.id or path.stem, path, _existing(header.cwds) or Path.cwd()
        words = ["hhd", "native", "convert", str(path), "--to", target.value, "--install", "--cwd", str(cwd)]
        again = f"make one that it takes: {shlex.join(words)}"
        if target is Harness.PI and header.cwds and not os.path.isdir(header.cwds[0]):
            raise RefusedError(f"Pi opens no session whose folder is gone, here {header.cwds[0]}; {again}")
        if target is Harness.CODEX and not Path(os.path.realpath(path)).is_relative_to(os.path.realpath(_home(target))):
            raise RefusedError(f"Codex finds only sessions below {_home(target)}, not {path}; {again}")
    else:
        done = convert(path, target=target, cwd=_existing(header.cwds) or Path.cwd(), out=None, install=True).manifest
        assert done.path is not None
        session_id, where, cwd = done.session.id, done.path, Path(done.session.cwd)
    return client_command(target, session_id, where, cwd), cwd


def client_command(target: Harness, session_id: str, path: Path, cwd: Path) -> list[str]:
    """How one resumes a session by the client's own command, in the folder `cwd`."""
    if target is Harness.CLAUDE:
        if os.path.abspath(path) != str(place(_home(target), target, Session(id=session_id, cwd=str(cwd), started=""))):
            # By its id the client finds it only in the folder that it worked in; by its file from anywhere.
            return ["claude", "--resume", os.path.abspath(path)]
        return ["claude", "--resume", session_id]
    if target is Harness.CODEX:
        return ["codex", "resume", session_id]
    return ["pi", "--session", os.path.abspath(path)]


def insist_on_client(target: Harness) -> str:
    """Return the client's program, or raise RefusedError: asked before anything is converted for it."""
    program = shutil.which(target.value)
    if program is None:
        raise RefusedError(f"{target.value} is not installed here; with --print its command is shown instead.")
    return program


def run_client(target: Harness, command: list[str], cwd: Path) -> None:
    """Become the client. Raises RefusedError when it is not installed."""
    program = insist_on_client(target)
    os.chdir(cwd)
    os.execv(program, command)


def _refuse_losses(looked: Manifest, strict: tuple[LossKind, ...]) -> None:
    found = counts(loss for loss in looked.losses if loss.kind in strict and loss.did is not Fate.LEFT_OUT)
    if found:
        what = ", ".join(f"{number} {kind.value} {did.value}" for (kind, did), number in found.items())
        raise RefusedError(
            f"Refused, since --strict names what would not come along whole: {what}; nothing was written."
        )


def _folder(cwd: Path | None, cwds: tuple[str, ...], target: Harness, install: bool) -> str:
    chosen = cwd if cwd is not None else (Path(cwds[-1]) if cwds and os.path.isabs(cwds[-1]) else Path.cwd())
    chosen = Path(os.path.abspath(chosen))
    if "\x00" in str(chosen) or len(os.fsencode(chosen)) >= _PATH_BYTES_MAX:
        raise UsageError("The folder that the session names cannot exist anywhere; name one with --cwd.")
    if install and not os.path.isdir(chosen):
        why = " Pi opens no session whose folder is gone." if target is Harness.PI else ""
        raise UsageError(f"There is no folder {chosen} here; name one with --cwd.{why}")
    return str(chosen)


def _existing(cwds: tuple[str, ...]) -> Path | None:
    return next((Path(cwd) for cwd in reversed(cwds) if os.path.isabs(cwd) and os.path.isdir(cwd)), None)


def _home(target: Harness) -> Path:
    homes = Homes.of()
    return {Harness.CLAUDE: homes.claude, Harness.CODEX: homes.codex, Harness.PI: homes.pi}[target]


def _converter(aside: Path) -> Converter:
    """A converter that takes originals out of the archive to the folder `aside`, for as long as that is there."""
    return Converter(
        open_reading=open_session,
        history=History(_own_folder() / "conversions", own_box("native-conversions")),
        error_key=_error_key(),
        fresh_id=lambda: str(uuid.uuid4()),
        original=lambda conversion: _original(conversion, aside),
    )


def _original(conversion: Conversion, aside: Path) -> Path | None:
    """The original in its place, or a copy taken from the archive to the folder `aside`."""
    found = original_in_place(conversion)
    if found is not None:
        return found
    from hhd.node import originals  # Who only looks goes without the store.

    with originals.opened() as whole:
        for original in reversed(whole.originals(conversion.source_harness, conversion.source_id)):
            path = whole.restore(original, aside / original.name)[0]
            source = msgspec.structs.replace(conversion.source, path=str(path))
            if (there := original_in_place(msgspec.structs.replace(conversion, source=source))) is not None:
                return there
    return None


def _own_folder() -> Path:
    return private_folder(private_folder(data_folder()) / "native")


def _error_key() -> bytes:
    """The secret that signs error flags: made on first use, and never silently made anew."""
    path = _own_folder() / "error-key"
    try:
        key = path.read_bytes()
    except FileNotFoundError:
        files.replace(path, [os.urandom(_KEY_BYTES)])
        key = path.read_bytes()
    if len(key) != _KEY_BYTES:
        raise RefusedError(f"{path} should hold {_KEY_BYTES} bytes and does not; nothing was done.")
    return key


class _ManifestFile:
    """The manifest on disk, JSON Lines: what was done, then losses, then the place of every item on both sides."""

    def __init__(self, path: Path) -> None:
        self._rows: list[tuple[int, int, int, int]] = []
        self._path = Path(os.path.abspath(path))
        self._aside = files.temporary(self._path)
        try:
            self._file = open(self._aside, "xb", opener=_private)  # noqa: SIM115
        except OSError as error:
            raise RefusedError(f"{path} cannot be written ({error.strerror}); nothing was done.") from error
        self._encode = msgspec.json.Encoder().encode_lines

    def __enter__(self) -> _ManifestFile:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
        self._aside.unlink(missing_ok=True)

    def row(self, kept: Kept) -> None:
        """One item that came along."""
        self._rows.append((kept.source.file, kept.source.line, kept.source.part, kept.line))
        if len(self._rows) >= _ROWS_A_WRITE:
            self._flush()

    def close(self, manifest: Manifest) -> Path:
        """Put the manifest in its place and return where that is."""
        self._flush()
        self._file.close()
        files.replace(self._path, self._pieces(manifest))
        return self._path

    def _pieces(self, manifest: Manifest) -> Iterator[bytes]:
        yield self._encode([summary(manifest)])
        yield self._encode([{"loss": loss} for loss in manifest.losses])
        with open(self._aside, "rb") as file:
            while block := file.read(1 << 20):
                yield block

    def _flush(self) -> None:
        self._file.write(self._encode(self._rows))
        self._rows.clear()


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_CLOEXEC, 0o600)


def summary(manifest: Manifest) -> dict[str, object]:
    """A manifest as one JSON object, without its rows."""
    return {
        "did": manifest.did.value,
        "from": manifest.source.harness.value,
        "source_id": manifest.source.id,
        "to": manifest.target.value,
        "id": manifest.session.id,
        "path": str(manifest.path) if manifest.path is not None else None,
        "cwd": manifest.session.cwd,
        "items": manifest.items,
        "bytes": manifest.bytes,
        "returned": manifest.returned,
        "records": manifest.account.records,
        "losses": [
            {"kind": kind.value, "did": did.value, "count": number}
            for (kind, did), number in counts(manifest.losses).items()
        ],
    }
