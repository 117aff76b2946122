"""The workspace: what is in a working folder, taken as a value, and made to appear in a folder."""
