"""The words of the project: every string that a user reads, and the idioms that the style guide forbids.

`strings` lists what a user reads (`hack/generate --strings`); `idioms` finds what `.github/CONTRIBUTING.md` forbids.
"""
