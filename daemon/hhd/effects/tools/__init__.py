"""The tools of an agent, one file each."""
