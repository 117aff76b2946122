"""Objects of a repository, read through one git process and cut into pieces."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from hhd.workspace.contents import Put
from hhd.workspace.view import View
from hhd_protocol.limits import WORKSPACE_FILE_BYTES_MAX, WORKSPACE_PIECE_BYTES
from hhd_protocol.workspace import EMPTY, Content


def blobs(view: View, wanted: Iterable[bytes], put: Put) -> Mapping[bytes, Content]:
    """Return the contents of the objects `wanted`, by object id; raises RefusedError if one is not there."""
    asked = sorted(set(wanted))
    found: dict[bytes, Content] = {}
    if not asked:
        return found
    with view.git.piped("cat-file", "--batch", env=view.env) as process:
        assert process.stdin is not None and process.stdout is not None
        for one in asked:  # One at a time: with more, both pipes could fill up.
            process.stdin.write(one.hex().encode() + b"\n")
            process.stdin.flush()
            words = process.stdout.readline().split()
            if len(words) != 3 or words[1] != b"blob" or not words[2].isdigit():
                raise view.refused(ValueError(f"its object {one.hex()} is missing"))
            left = size = int(words[2])
            if size > WORKSPACE_FILE_BYTES_MAX:
                raise view.refused(ValueError(f"its object {one.hex()} is larger than a file that can travel"))
            pieces = []
            while left:
                piece = process.stdout.read(min(left, WORKSPACE_PIECE_BYTES))
                if not piece:
                    raise view.refused(ValueError(f"its object {one.hex()} is cut short"))
                pieces.append(put(piece))
                left -= len(piece)
            process.stdout.read(1)
            found[one] = Content(size=size, pieces=tuple(pieces)) if size else EMPTY
        process.stdin.close()
    return found
