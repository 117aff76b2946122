"""The hallway: what hhd does, in the terms its user knows, by means of the rooms."""
