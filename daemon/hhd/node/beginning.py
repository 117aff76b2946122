"""What a daemon does before it listens: holds its configuration, and brings older formats to this one."""

from __future__ import annotations

from hhd.base import config, log
from hhd.base.notify import ServiceManager
from hhd.node import store
from hhd.node.this_device import store_folder
from hhd.store.layout import FORMAT
from hhd.store.note import noted_format

MIGRATION_SECONDS_MAX = 3600
"""Of the largest store there may be, on a slow disk: the service manager would end it in the middle."""


def prepare(manager: ServiceManager) -> None:
    """Hold the configuration, and migrate a store of an older format now: later, whoever asks first would wait for it.

    Each is copied first (`config_format`, `store.database`), and the log says so. Raises RefusedError where either
    cannot be read: there is nothing older to go on with.
    """
    config.hold()
    number = noted_format(store_folder())
    if number is not None and number < FORMAT:
        manager.starts_slowly(MIGRATION_SECONDS_MAX, "Bringing the store to the present format.")
        with store.opened():
            log.warn("store_migrated", format=number)
