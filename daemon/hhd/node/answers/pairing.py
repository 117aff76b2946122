"""What a person is told while two devices are paired."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class PairingStep:
    """One step. `kind` says which of the fields mean something.

    `code`: the `code` to type on the other device, within `seconds`; `port`: where it may connect. `found`: this device
    talks with the one at `address`. `question`: the `words` that both screens show, the `device` at the other end with
    the `name` it gave itself, and what would become of it: `takes_in`: the other one joins this device's group as
    `role`; else this one joins the other's, of `others` more devices. It is answered by the verb `pair_answer`. `done`:
    the two are of one group.
    """

    kind: str
    code: str = ""
    seconds: int = 0
    port: int = 0
    address: str = ""
    words: tuple[str, ...] = ()
    device: str = ""
    name: str = ""
    role: str = ""
    takes_in: bool = False
    others: int = 0
