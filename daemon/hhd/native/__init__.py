"""Native sessions: the records of Claude Code, Codex and Pi, found, read, searched and kept.

One reader a client (`claude`, `codex`, `pi`), all over one `Source` of lines. A reader goes through a file twice: first
it learns the shape (which records are the conversation, what was left, what a compaction replaced), keeping a few
bytes a record; then it gives items. Memory therefore grows with the longest line and slowly with the number of
records, not with the size of the file. The first 16 MiB are kept decoded between the two, so most sessions are decoded
once only.
"""
