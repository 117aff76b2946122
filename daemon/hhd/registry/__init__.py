"""The shared document of one person's devices: names, titles, wishes, picked heads, archived flags.

Begin with `registry.py` (what others use), then `registers.py` (what is in the document and what concurrent edits
come to), then `document.py` (automerge, which only that file knows). `pieces.py` is what is kept of it, `shown.py`
what lists show of it. `protocol/spec/registry.md` is the format.
Nothing here has authority: who may advance a session never rests on it.
"""
