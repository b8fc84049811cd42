"""Nesting of YAML that libyaml refuses, from 0.2.6 on: more than 1000 levels.

It reads ahead as far as a key may reach, so it may refuse the nesting before a reader here has met its own limit.
"""

from __future__ import annotations

from functools import cache

import yaml

# A key has at most 1024 characters. What libyaml refuses beyond that, we have refused before.
_LEVELS = 2000


def is_refused_nesting(error: yaml.MarkedYAMLError) -> bool:
    """Return whether libyaml refused a text since it is nested too deeply."""
    return error.problem is not None and error.problem == _refusal()


@cache
def _refusal() -> str | None:
    """Return what the installed libyaml says of such nesting, since its errors have no codes; None if it bears it."""
    try:
        for _ in yaml.parse(b"[" * _LEVELS + b"]" * _LEVELS, yaml.CSafeLoader):
            pass
    except yaml.MarkedYAMLError as error:
        return error.problem
    return None
