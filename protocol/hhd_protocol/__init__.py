"""What crosses a boundary between two devices or two versions: pure code without I/O, clock or dice."""
