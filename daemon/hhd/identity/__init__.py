"""Who this device is: its Ed25519 key, its id, its certificates (`protocol/spec/identity.md`)."""
