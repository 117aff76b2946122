"""Every bound of what tools may take, read, write and return on this device, each with its reason."""

from __future__ import annotations

LINKS_MAX = 40
"""Symbolic links followed for one path: what Linux allows."""

PATH_BYTES_MAX = 4096
"""One path: PATH_MAX of Linux."""

NAME_BYTES_MAX = 255
"""One component of a path: NAME_MAX of common file systems."""

OUTPUT_BYTES_MAX = 100_000
"""What one tool call returns: the agent keeps as much for the model, and more would only fill transcripts."""

COMMAND_BYTES_MAX = 120 * 1024
"""One bash command: Linux refuses a single argument past 128 KiB."""

BASH_SECONDS_DEFAULT = 120
"""A command without a timeout of its own: most builds and tests end sooner, and a hung one must not hold a session."""

BASH_SECONDS_MAX = 3600
"""The longest timeout a call may ask for (`agent-effects.md`)."""

BASH_GRACE_SECONDS = 2.0
"""Between SIGTERM and SIGKILL: git and compilers remove their lock and temporary files in well under this."""

BASH_DRAIN_SECONDS = 10.0
"""After SIGKILL: a process stuck in the kernel must not hold the session for ever."""

READ_LINES_DEFAULT = 2000
"""Lines of one `read` without a limit: a long source file."""

READ_SCAN_BYTES_MAX = 1024 * 1024 * 1024
"""How far `read` looks for its first line: a second or two of a warm disk."""

FILE_BYTES_MAX = 16 * 1024 * 1024
"""A file that `edit` changes whole in memory, and the most that `write` writes: a request cannot carry more."""

SNIFF_BYTES = 8192
"""How much of a file is looked at to tell text from binary: git looks at 8000."""

SEARCH_SECONDS_MAX = 30.0
"""One `grep` or `glob`: a regular expression can be made to run for years, so it runs in a process that is ended."""

SEARCH_ENTRIES_MAX = 200_000
"""Entries one search looks at: the Linux kernel's tree has 90,000."""

SEARCH_FILE_BYTES_MAX = 8 * 1024 * 1024
"""Files past this are passed over by `grep` and counted: they are data, not source."""

SEARCH_LINES_DEFAULT = 200
"""Lines of one `grep` without a limit."""

SEARCH_PATHS_MAX = 1000
"""Paths of one `glob`: more is a sign that the pattern is too wide."""

SEARCH_LINE_CHARS_MAX = 500
"""Characters of one line shown by `grep`: minified files have lines of megabytes."""

PATTERN_CHARS_MAX = 4096
"""One glob or regular expression."""
