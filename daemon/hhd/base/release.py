"""Which release of hhd this is."""

RELEASE = "0.1.0.dev0"
"""The version of the distribution, which takes longer to look up than `hhd ls` takes."""
