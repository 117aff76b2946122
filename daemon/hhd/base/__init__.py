"""The ground floor: clock, dice, files, paths, configuration, errors. It knows nothing of sessions."""
