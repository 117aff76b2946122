"""What is here brought to the other members, and what is theirs taken in: one part a file, joined in `syncing`."""
