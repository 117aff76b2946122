"""The cache of compiled modules: machine code made once per module, settings, library and processor.

Loading compiled code executes it, so an entry counts only if it lies in a 0700 folder of this user, is a plain file
that this user wrote and nobody else can write to, and holds the digest of its own payload; anything else is compiled
anew and replaced. Entries are written whole or not at all. The bytes that were verified are the bytes that are loaded,
so nothing can be put in between.

Compiling a module from outside may take for ever or all memory: it happens in a process of its own, under limits.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import stat
import sys
from pathlib import Path

from hhd.base import paths
from hhd.base.errors import RefusedError
from hhd.base.text import visible
from hhd.runtime import wasmtime_c as c
from hhd.runtime.engine import engine, engine_identity
from hhd_protocol.ids import Sha256

COMPILED_BYTES_MAX = 256 * 1024 * 1024
"""Compiled code is three to four times its module, which has at most 16 MiB."""

COMPILE_SECONDS_MAX = 120
"""Wall time of one compilation; the largest of our modules takes a quarter of a second."""

ENTRIES_MAX = 64
"""Compiled modules that are kept, the newest: each takes one to two MiB, and a session needs one."""

_MAGIC = b"hhdcode1"
_HEAD_BYTES = len(_MAGIC) + hashlib.sha256().digest_size


def load_compiled(wasm: bytes, *, cache: Path | None = None) -> tuple[int, Sha256]:
    """Return the address of the compiled module and the digest of `wasm`; `cache` is by default the user's folder.

    A cache that cannot be used (no room, read-only, another user's) costs time only. Raises RefusedError for a module
    that is not valid, or takes more time or memory to compile than is allowed.
    """
    digest = Sha256(hashlib.sha256(wasm).digest())
    key = hashlib.sha256(digest + engine_identity().encode()).hexdigest()
    folder = _open_folder(cache or paths.cache_folder() / "modules")
    try:
        if folder is not None and (code := _read(folder, key)) is not None:
            try:
                return _load(code), digest
            except c.VendorError:
                pass  # the library knows better than our key that it cannot run this: compile anew
        code = _compile_apart(wasm)
        if folder is not None:
            _write(folder, key, code)
        return _load(code), digest
    finally:
        if folder is not None:
            os.close(folder)


def _load(code: bytes) -> int:
    module = ctypes.c_void_p()
    c.check(c.lib.wasmtime_module_deserialize(engine(), code, len(code), module))
    assert module.value
    return module.value


def _open_folder(folder: Path) -> int | None:
    """A descriptor of the cache folder, so that what was checked is what is used; None if there is no such folder."""
    try:
        paths.private_folder(folder)
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except (OSError, RefusedError):
        return None
    found = os.fstat(fd)
    if found.st_uid != os.geteuid() or found.st_mode & 0o077:
        os.close(fd)
        return None
    return fd


def _read(folder: int, key: str) -> bytes | None:
    """The verified code of an entry; None if there is none that can be trusted."""
    try:
        fd = os.open(key, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, dir_fd=folder)
    except OSError:
        return None
    with open(fd, "rb", buffering=0) as file:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o077:
            return None
        if not _HEAD_BYTES < found.st_size <= _HEAD_BYTES + COMPILED_BYTES_MAX:
            return None
        head = file.read(_HEAD_BYTES)
        code = file.read(found.st_size - _HEAD_BYTES)
    good = len(code) == found.st_size - _HEAD_BYTES and head == _MAGIC + hashlib.sha256(code).digest()
    return code if good else None


def _write(folder: int, key: str, code: bytes) -> None:
    """Put an entry in its place, whole. No fsync: an entry that a power cut damages is noticed and made again."""
    temp = f"{key}.{os.getpid()}.tmp"
    try:
        fd = os.open(temp, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=folder)
    except OSError:
        return
    try:
        with open(fd, "wb", buffering=0) as file:
            for piece in (_MAGIC + hashlib.sha256(code).digest(), memoryview(code)):
                while piece:
                    piece = piece[file.write(piece) :]
        os.rename(temp, key, src_dir_fd=folder, dst_dir_fd=folder)
        _prune(folder)
    except OSError:
        try:
            os.unlink(temp, dir_fd=folder)
        except OSError:
            return


def _prune(folder: int) -> None:
    """Remove the oldest entries past the bound, and with them what a writer that was killed left behind."""
    ages = sorted((os.stat(name, dir_fd=folder, follow_symlinks=False).st_mtime, name) for name in os.listdir(folder))
    for _, name in ages[:-ENTRIES_MAX]:
        os.unlink(name, dir_fd=folder)


def _compile_apart(wasm: bytes) -> bytes:
    import signal
    import subprocess  # only here: it takes longer to import than a cached module takes to load

    from hhd.runtime import compile

    try:
        done = subprocess.run(
            [sys.executable, "-P", "-m", "hhd.runtime.compile", str(COMPILED_BYTES_MAX)],
            input=wasm,
            capture_output=True,
            timeout=COMPILE_SECONDS_MAX,
        )
    except subprocess.TimeoutExpired:
        raise RefusedError(f"The module was refused: compiling it took more than {COMPILE_SECONDS_MAX} s.") from None
    if done.returncode == 0:
        return done.stdout
    if done.returncode == compile.REFUSED:
        said = done.stderr.decode("utf-8", "replace").splitlines()[-1]
        raise RefusedError(f"The module was refused: {visible(said[:320], one_line=True)}.")
    if done.returncode == -signal.SIGABRT and compile.AT_THE_BORDER in done.stderr:
        raise RefusedError(
            "The module was refused: its imports or exports have types that the guest ABI does not have."
        )
    if done.returncode < 0 or done.returncode == compile.OUT_OF_MEMORY:
        raise RefusedError("The module was refused: compiling it takes more time or memory than is allowed.")
    raise RuntimeError(f"the compiler failed: {done.stderr.decode('utf-8', 'replace')[-2000:]}")
