"""Whether the network that this device is on is paid for by the byte, as NetworkManager says it.

It is asked over the system's D-Bus, and only where it runs: nothing is started by asking. macOS tells a program without
a bundle nothing of this, and where nobody says anything the network is not metered.
"""

from __future__ import annotations

NAME, PATH = "org.freedesktop.NetworkManager", "/org/freedesktop/NetworkManager"
METERED = (1, 3)
"""Of NMMetered: yes, and guessed to be (a phone's hotspot); 0 is not known, 2 and 4 are no."""
ANSWER_SECONDS = 1.0
"""NetworkManager answers in a millisecond; a bus that hangs costs a thread this long, and nothing waits for it."""


def is_metered() -> bool:
    """Return whether what this device reaches the world through is metered; False where nobody says."""
    try:  # Where it is asked for: a device that is not to be spared does without. It is there on Linux only.
        from jeepney import DBusAddress, MessageFlag, MessageType, Properties  # type: ignore[import-untyped]
        from jeepney.io.blocking import open_dbus_connection  # type: ignore[import-untyped]
        from jeepney.wrappers import DBusErrorResponse  # type: ignore[import-untyped]
    except ImportError:
        return False
    asked = Properties(DBusAddress(PATH, bus_name=NAME, interface=NAME)).get("Metered")
    asked.header.flags |= MessageFlag.no_auto_start
    try:
        with open_dbus_connection("SYSTEM", auth_timeout=ANSWER_SECONDS) as bus:
            reply = bus.send_and_get_reply(asked, timeout=ANSWER_SECONDS)
    except (OSError, ValueError, KeyError, RuntimeError, DBusErrorResponse):
        # No bus, none that lets this user in, or an address that is none.
        return False
    if reply.header.message_type is not MessageType.method_return:
        return False  # No NetworkManager, or one that does not say.
    match reply.body:
        case (("u", int(said)),):
            return said in METERED
    return False
