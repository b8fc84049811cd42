"""The demonstration `hack/demo`: bash runs every line after a `$` as shown, and its output is below it.

Reading order: `__main__` (the steps, in order) → `stage` (cluster, registry and controller, and their cleanup) →
`shell` (a command, its output and its deadline) → `push` (a separate command that pushes a folder as an image).
`picture` draws the recording in README.md.
"""
