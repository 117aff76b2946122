"""The sealed store of this device: pages, record logs, modules, records and keys, all sealed, in one SQLite file.

Begin reading at `store.py` (what others use), then `database.py` (what makes a write a promise), then `rows.py` and
`objects.py` (what is in the file). `protocol/spec/store.md` says what is inside sealed objects.
"""
