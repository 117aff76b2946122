"""Finding this person's other devices on the networks that this one is on."""
