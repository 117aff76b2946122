"""The control socket: the daemon's end, a program's end, and where it lies; which verbs there are, it does not know."""
