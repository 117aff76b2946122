"""Emulated ARM64 for tests: `root` builds an interpreter with our dependencies once, `run` runs Python in it."""
