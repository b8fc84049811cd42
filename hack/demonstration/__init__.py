"""The demonstration `hack/demo`: every line after a `$` is run as it stands, by bash, and what came back is below it.

Reading order: `story` (what is shown, in order) → `stage` (what it is shown on: cluster, registry, controller, and how
they go) → `shell` (a command, its output and its deadline) → `push` (a command of its own: a folder becomes an image).
"""
