"""A folder with an ARM64 Python and our compiled dependencies, run by qemu-user on any Linux machine.

Debian's packages are fetched by apt with lists and cache of its own (nothing of the system is changed, no root needed)
and unpacked with `dpkg-deb -x`; the dependencies are the aarch64 wheels of exactly the versions installed here. It is
built once, in `HHD_ARM64_ROOT` or the user's cache, and used read-only afterwards.

Use: `arm64.root.need()` in a test marked `arm64` skips with a reason where something is missing;
`arm64.root.python("-m", "hhd", "capsule", ...)` is a whole command for `subprocess.run`, `environment()` its variables.
A process takes about a second.
"""

from __future__ import annotations

import fcntl
import functools
import importlib.metadata
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[2]
PACKAGES = ("python3-minimal", "libpython3-stdlib", "libssl3", "zlib1g", "libstdc++6")
WHEELS = (
    *("cbor2", "cffi", "click", "msgspec", "pathspec", "pynacl", "typing_extensions", "wasmtime", "zstandard"),
    *("automerge", "cryptography", "ifaddr", "pyopenssl", "spake2", "zeroconf"),
    *("annotated_types", "anthropic", "anyio", "docstring_parser", "h11", "httpcore2", "httpx2", "idna"),
    *("jiter", "opentelemetry_api", "pydantic", "pydantic_core", "sniffio", "truststore", "typing_inspection"),
)
"""What a capsule step, a session at work, a daemon and the client of a model import, with what those import."""

_MADE_BY = "4"
"""Raise when the recipe changes: a folder made by another is made anew."""

_SITE_CUSTOMIZE = """
import os, sys
sys.executable = os.environ["HHD_ARM64_PYTHON"]  # so that a child process is emulated, too
"""


@functools.cache
def missing() -> str | None:
    """Why emulated ARM64 cannot be had here; None once the root is there."""
    if not sys.platform.startswith("linux"):
        return "emulated ARM64 needs Linux"
    for tool in ("qemu-aarch64", "apt-get", "dpkg-deb"):
        if shutil.which(tool) is None:
            return f"emulated ARM64 needs {tool}"
    try:
        _build()
        found = subprocess.run(
            python("-c", "import hhd.runtime.guest, cbor2, zstandard, platform as p; print(p.machine())"),
            env=environment(),
            capture_output=True,
            text=True,
            timeout=240,
        )
    except (OSError, subprocess.SubprocessError, LookupError) as error:
        return f"the ARM64 root could not be built: {error}"
    return None if found.stdout == "aarch64\n" else f"the ARM64 Python does not run: {found.stderr[-300:]}"


def need() -> None:
    """Skip the test, with a reason, where emulated ARM64 is not to be had."""
    if reason := missing():
        pytest.skip(reason)


def python(*arguments: str) -> list[str]:
    """The command that runs the emulated Python with `arguments`."""
    return [str(folder() / "python"), *arguments]


def environment(**more: str) -> dict[str, str]:
    """The variables an emulated process needs, with those of this process and `more`.

    Compiling there takes seconds, so compiled modules are kept beside the root, for all tests.
    """
    path = ":".join(str(PROJECT / part) for part in ("daemon", "protocol", "."))
    cache = str(folder() / "hhd-cache")
    return {**os.environ, "HHD_ARM64_PATH": path, "HHD_CACHE_HOME": cache, **more}


def folder() -> Path:
    """Where the root is."""
    if chosen := os.environ.get("HHD_ARM64_ROOT"):
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "hhd-tests" / "arm64"


def _recipe() -> str:
    wheels = [f"{name}=={importlib.metadata.version(name)}" for name in WHEELS]
    return "\n".join((_MADE_BY, f"{sys.version_info[:2]}", *PACKAGES, *wheels))


def _build() -> None:
    target = folder()
    target.parent.mkdir(parents=True, exist_ok=True)
    with open(target.parent / "arm64.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        stamp = target / "recipe"
        if not stamp.exists() or stamp.read_text() != _recipe():
            shutil.rmtree(target, ignore_errors=True)
            target.mkdir()
            _unpack_packages(target)
            _unpack_wheels(target)
            _write_starter(target)
            stamp.write_text(_recipe())


def _unpack_packages(target: Path) -> None:
    apt = target / "apt"
    for part in ("state/lists/partial", "cache/archives/partial"):
        (apt / part).mkdir(parents=True)
    (apt / "state" / "status").touch()
    (apt / "conf").write_text(
        f'APT::Architecture "arm64"; APT::Architectures {{ "arm64"; }}; APT::Sandbox::User "";\n'
        f'Dir::State "{apt}/state"; Dir::State::status "{apt}/state/status"; Dir::Cache "{apt}/cache";\n'
        'APT::Keep-Downloaded-Packages "true"; DPkg::Post-Invoke ""; APT::Update::Post-Invoke "";\n'
    )
    run = functools.partial(
        subprocess.run, env={**os.environ, "APT_CONFIG": str(apt / "conf")}, capture_output=True, text=True
    )
    run(["apt-get", "-q", "update"])  # a source without ARM64 fails here and does not matter
    done = run(["apt-get", "-q", "-y", "--no-install-recommends", "--download-only", "install", *PACKAGES])
    if done.returncode:
        raise LookupError(f"apt-get: {done.stderr[-300:]}")
    for package in sorted((apt / "cache" / "archives").glob("*.deb")):
        subprocess.run(["dpkg-deb", "-x", package, target], check=True)
    shutil.rmtree(apt)


def _unpack_wheels(target: Path) -> None:
    wheels, site = target / "wheels", target / "site"
    version = _debian_python(target).name.removeprefix("python")
    platforms = [f"--platform=manylinux{each}_aarch64" for each in ("2014", "_2_17", "_2_26", "_2_28", "_2_34")]
    names = [f"{name}=={importlib.metadata.version(name)}" for name in WHEELS]
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pip",
            "download",
            "-q",
            "--disable-pip-version-check",
            "--no-deps",
            "--only-binary=:all:",
            *platforms,
            f"--python-version={version}",
            "--implementation=cp",
            f"--dest={wheels}",
            *names,
        ],
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise LookupError(f"pip download: {done.stderr[-300:]}")
    for wheel in wheels.glob("*.whl"):
        zipfile.ZipFile(wheel).extractall(site)
    shutil.rmtree(wheels)
    (site / "sitecustomize.py").write_text(_SITE_CUSTOMIZE)


def _write_starter(target: Path) -> None:
    starter = target / "python"
    starter.write_text(
        "#!/bin/sh\n"
        f'export HHD_ARM64_PYTHON="{starter}" PYTHONPATH="{target}/site:${{HHD_ARM64_PATH:?}}"\n'
        f'export PYTHONHOME="{target}/usr" PYTHONPYCACHEPREFIX="{target}/pycache"\n'
        f'exec {shutil.which("qemu-aarch64")} -L "{target}" "{_debian_python(target)}" "$@"\n'
    )
    starter.chmod(0o755)


def _debian_python(target: Path) -> Path:
    found = sorted((target / "usr" / "bin").glob("python3.[0-9]*[0-9]"))
    if not found:
        raise LookupError("the packages hold no Python")
    return found[-1]
