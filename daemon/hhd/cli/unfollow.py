"""The command `hhd unfollow`: see `hhd.cli.follow`."""

from hhd.cli.follow import unfollow as command

__all__ = ["command"]
