"""The format helm: a chart, rendered by the real Helm, as objects and hooks.

Reading order: `format` (the story), `configuration` (spec.config), `chart` (which one, and its files), `schemas` (what
Helm must not follow), `program` and `child` (Helm, and what it may do), `complaints` and `hiding` (what it says),
`output`.
"""
