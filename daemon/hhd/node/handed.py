"""What of a terminal's environment a session keeps: what commands may get, and where the model is with its key.

Nothing else of it is kept, for however short a time, and nothing of it is written down.
"""

from __future__ import annotations

from collections.abc import Mapping

from hhd.base import config
from hhd.effects import environment
from hhd.node.going import Hand

BASE_URL, API_KEY, AUTH_TOKEN = "ANTHROPIC_BASE_URL", "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"


def hand(given: Mapping[str, str] | None, key: str | None) -> Hand:
    """Return what is kept of a terminal's environment `given`, and of a `key` for the model handed over beside it.

    A key is never used with an address that was set beside another one: the two come from one terminal, or neither.
    Raises RefusedError where the configuration is off.
    """
    around = given or {}
    model = {name: around[name] for name in (BASE_URL, API_KEY, AUTH_TOKEN) if around.get(name)}
    if key is not None:
        model.pop(AUTH_TOKEN, None)
        model[API_KEY] = key
    has_key = API_KEY in model or AUTH_TOKEN in model
    named = environment.named(config.load().policy)
    kept = None
    if given is not None:
        kept = environment.for_commands(given, named=named, secrets=model.values(), walled=False)
    return Hand(environment=kept, model=model if has_key else None)
