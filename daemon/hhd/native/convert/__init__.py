"""Conversion of a native session into a session of another client, with an account of all that could not come along.

    reader ── items ─▶ arrange ── steps ─▶ writer ── lines ─▶ aside ── read back, compared ─▶ published

`arrange` makes every choice about what is kept, changed or lost, and says so; a writer only spells. So what is read
back from the written file equals the steps, exactly, and a silent loss is a bug that the comparison finds.
"""
