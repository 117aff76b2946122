"""Sessions handed from this device to another, and taken from another: one part a file, joined in `handoffs`."""
