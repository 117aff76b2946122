"""What a power cut can leave behind: `recorder` watches a process write, `images` builds every disk that may remain.

Use: `recorder.record(command, root, log)` runs a command and returns its records; `images.images(records, rng)` yields
`Image(files, marks)`: a disk that a cut could leave, and the marks that the process had made by then. The test says
whether everything promised by those marks is there. `images.without(records, n)` forgets one sync.
"""
