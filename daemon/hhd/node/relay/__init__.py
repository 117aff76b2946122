"""Sessions that run at another device, watched and spoken to from here: one part a file, joined in `relays`."""
