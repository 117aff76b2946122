"""The command `hhd`."""

from __future__ import annotations


def main() -> None:
    """Run the command line; the exit status is one of `hhd.base.errors.Exit`."""
    from hhd.cli import run

    raise SystemExit(run())


if __name__ == "__main__":
    main()
