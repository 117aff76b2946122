"""What may be asked of sessions, one method a verb: the same whoever asks, a terminal here or a socket.

Arguments and answers are plain values (`hhd.node.answers`); what is told as it comes is an iterator. What cannot be
done is a UserError. Who asks names sessions, heads, checkpoints and devices as `hhd.node.naming` says.

What only one verb needs is imported by that verb: a terminal asks for one and ends.
"""

from __future__ import annotations

from dataclasses import dataclass

from hhd.node.control_changing import Changing
from hhd.node.control_looking import Looking


@dataclass(frozen=True, kw_only=True)
class ControlService(Looking, Changing):
    """The verbs on the sessions in `store`, asked of this device, `me`."""
