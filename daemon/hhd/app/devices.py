"""The devices of this person: shown, named, allowed, put out; asked of the daemon if one runs, else done here."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from hhd.app import sessions

if TYPE_CHECKING:
    from hhd.node.answers.device import Device
    from hhd.node.answers.group import Allowed, Gathering, Named, Refounded, Unpaired
    from hhd.node.answers.syncing import Syncings
    from hhd.node.group_verbs import GroupVerbs

T = TypeVar("T")


@contextmanager
def here() -> Iterator[GroupVerbs]:
    """The verbs on devices, in this process."""
    from hhd.node import store
    from hhd.node.group_verbs import GroupVerbs

    me = store.identity()
    with store.opened(me) as opened:
        yield GroupVerbs(store=opened, me=me)


def gathering() -> Gathering:
    """Who is a member, and who was."""
    from hhd.node.answers.group import Gathering

    return _done("devices", Gathering, lambda verbs: verbs.devices(), changes=False)


def unjoined() -> frozenset[str]:
    """The ids of members that have not said yet that they joined, so that nothing is known of what they have."""
    return frozenset(one.id for one in gathering().members if not one.joined)


def syncings() -> Syncings:
    """How it stands with the others: what went there and what they lack; without a daemon only the latter."""
    from hhd.app import syncing
    from hhd.base.errors import RefusedError

    try:
        return syncing.status()
    except RefusedError:  # None runs, or one that is older than this hhd.
        with here() as verbs:
            return verbs.lagging()


def allow(name: str, approve: bool) -> Allowed:
    """Let a device approve for this one, or no longer."""
    from hhd.node.answers.group import Allowed

    return _done("device_allow", Allowed, lambda verbs: verbs.allow(name, approve), name=name, approve=approve)


def rename(name: str, title: str) -> Named:
    """Call a device something else."""
    from hhd.node.answers.group import Named

    return _done("device_rename", Named, lambda verbs: verbs.rename_device(name, title), name=name, title=title)


def unpair(name: str) -> Unpaired:
    """Put a device out."""
    from hhd.node.answers.group import Unpaired

    return _done("unpair", Unpaired, lambda verbs: verbs.unpair(name), name=name)


def meant(name: str) -> Device:
    """The member that `name` means, and nothing is done to it."""
    from hhd.node.answers.device import Device

    return _done("device_meant", Device, lambda verbs: verbs.meant(name), changes=False, name=name)


def refound() -> Refounded:
    """Begin the group anew, of this device alone."""
    from hhd.node.answers.group import Refounded

    return _done("refound", Refounded, lambda verbs: verbs.refound())


def _done(
    verb: str, wanted: type[T], act: Callable[[GroupVerbs], T], *, changes: bool = True, **given: str | bool
) -> T:
    link = sessions.daemon_link()
    if link is None:
        with here() as verbs:
            return act(verbs)
    from hhd.node.asking import Asking

    with link:
        return Asking(link).ask(verb, wanted, changes=changes, **given)
