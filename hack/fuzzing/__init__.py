"""Fuzzing of every parser of foreign bytes: one table of targets, used by `hack/fuzz` and by the tests.

Reading order: `target` (what a target is, and what holds for all) → `archives`, `documents`, `texts`, `records` (the
targets) → `table` → `corpus` (the inputs that are kept) → `drawing` (more of them by hypothesis) → `findings` (what
failed, minimized and kept) → `guided` (atheris, in a process of its own). `__main__` is the command
`hack/fuzz`; `tests/unit/hack/fuzzing` replays the corpus, and draws a few inputs for each target.
"""
