"""Ranges of versions, as Helm understands them: the semantics of Masterminds' semver, version 3.5. Pure.

version    versions, and which one is higher
ranges     which versions a range contains
selection  the highest of some names, or the nearest ones if none is in the range
"""
