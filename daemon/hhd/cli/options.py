"""Arguments and options that many commands have; apart, since click takes as long to import as a command to run."""

from __future__ import annotations

import click

SESSION = click.argument("session")
JSON = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
HEAD = click.option("--head", help="One of its heads, by its name or id, or the begin of one.")
