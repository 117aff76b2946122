"""The table of tools."""

from __future__ import annotations

from collections.abc import Mapping

from hhd.effects.tools.bash import BASH
from hhd.effects.tools.edit import EDIT
from hhd.effects.tools.glob import GLOB
from hhd.effects.tools.grep import GREP
from hhd.effects.tools.read import READ
from hhd.effects.tools.tool import AnyTool
from hhd.effects.tools.write import WRITE

TOOLS: Mapping[str, AnyTool] = {tool.name: tool for tool in (BASH, READ, WRITE, EDIT, GLOB, GREP)}
"""Every tool by its name."""
