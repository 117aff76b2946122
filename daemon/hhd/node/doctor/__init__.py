"""What may keep hhd from working on this device, each look with a sentence that says how to mend it."""
