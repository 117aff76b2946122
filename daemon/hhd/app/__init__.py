"""The one place that constructs: rooms are made here and handed to the hallway.

A file for each thing that faces ask for. Each door in it imports what it opens on, and nothing else.
"""
