"""Expressions of users about objects, in CEL: whether one is well-formed, and what it says about an object.

An object is `self`, as in the rules of CustomResourceDefinitions. Its usual parts are also there by name, so that
expressions for Flux can be pasted. No part is named `self`, so the two do not meet.

Google's runtime does the work. It checks types before it evaluates, keeps to the specification, and ends a
comprehension after 10,000 steps; but each step may take long on large values, and holds the interpreter meanwhile. So
the controller runs this module as a child that may be killed (observe/evaluation.py), and the command line calls it.

The runtime is the extra `expressions`. Imports nothing but the standard library, and the runtime only where it is
needed: the child starts in 0.1 s.
"""

from __future__ import annotations

import importlib.util
import json
import marshal
import os
import re
import signal
import sys
from collections.abc import Sequence
from functools import cache, lru_cache
from typing import Any, TypeAlias

Answer: TypeAlias = bool | str
"""What an expression says about an object; a text: why that is not known yet."""
PARTS = ("apiVersion", "kind", "metadata", "spec", "status", "data")
SECONDS = 0.25
"""Processor time for one request: hundreds of times what an expression about conditions takes."""
OUT_OF_MEMORY = 3
"""Status of a child that had no memory left; where the runtime noticed that, it has ended by SIGABRT."""
NOT_KNOWN = "it cannot be evaluated"
MISSING = 'expressions need the Python package cel-expr-python; run pip install ".[expressions]" in a clone of RukPak'
_PLACE = re.compile(r"ERROR: <input>:(-?\d+):(-?\d+): ([^\n]*)")
_MISSING = re.compile(r'(?:Key not found in map : "?|No value with name ")([^"]*)')
_TYPES = re.compile(r"No matching overloads found : (.*)")
# What the parser would also accept, the container of names, which is empty, and the status code.
_NOISE = re.compile(r" expecting \{.*| \(in container ''\)| \[[A-Z_]+\]$")
_UNDECLARED = re.compile(r"undeclared reference to '([^']*)'")
_SIZE_BYTES = 8


def is_available() -> bool:
    """Return whether the runtime is installed. Without it nothing is known of an expression."""
    return importlib.util.find_spec("cel_expr_python") is not None


def find_problem(expression: str) -> str:
    """Return what is wrong with an expression, and where; empty if nothing is. Only if the runtime is available."""
    try:
        found = _compile(expression).return_type().name()
    except RuntimeError as error:
        return _describe_problem(str(error), expression)
    return "" if found in ("BOOL", "DYN") else f"is of type {found.lower()}; compare it with a value"


def evaluate(expressions: Sequence[str], manifest: Any) -> list[Answer]:
    """Return what well-formed expressions say about an object, in the same order."""
    if not is_available():
        return [MISSING] * len(expressions)
    values = {"self": manifest, **{name: manifest[name] for name in PARTS if name in manifest}}
    return [_answer(each, values) for each in expressions]


def _answer(expression: str, values: dict[str, Any]) -> Answer:
    try:
        result = _compile(expression).eval(data=values)
    except (RuntimeError, ValueError) as error:  # ValueError: a text with half a surrogate pair
        return _describe_error(str(error), expression)
    kind = result.type().name()
    if kind == "ERROR":
        return _describe_error(str(result.plain_value()), expression)
    return bool(result.value()) if kind == "BOOL" else f"it is of type {kind.lower()}, neither true nor false"


@cache
def _environment() -> Any:
    from cel_expr_python import cel  # noqa: PLC0415 - 20 ms and 10 MB, for those that have expressions
    from cel_expr_python.ext import ext_optional, ext_strings  # noqa: PLC0415

    variables = dict.fromkeys(("self", *PARTS), cel.Type.DYN)
    return cel.NewEnv(variables=variables, extensions=[ext_optional.ExtOptional(), ext_strings.ExtStrings()])


@lru_cache(maxsize=256)
def _compile(expression: str) -> Any:
    return _environment().compile(expression)


def _describe_problem(text: str, expression: str) -> str:
    found = _PLACE.search(text)
    if found is None:
        return "is too long or nested too deeply"
    line, column, problem = int(found[1]), int(found[2]), _NOISE.sub("", found[3])
    problem = f"{problem}{_hint_at_names(problem, expression)}"
    return f"line {line}, column {column}: {problem}" if line > 0 else problem


def _hint_at_names(problem: str, expression: str) -> str:
    # `object`, as in admission policies, is what most come with.
    found = _UNDECLARED.fullmatch(problem)
    if found is None or re.search(rf"(?<![\w]){re.escape(found[1])}\s*\(", expression):  # a function
        return ""
    field = found[1].partition(".")[2]
    if field.partition(".")[0] in PARTS:
        return f" (fields are named directly: {field}, or self.{field})"
    return f" (fields are named directly: {', '.join(PARTS)}; self is the object)"


def _describe_error(text: str, expression: str) -> str:
    # Values of the object may be confidential.
    if found := _MISSING.search(text):
        return f'there is no field "{found[1]}"' if found[1] in expression else "a field is missing"
    if found := _TYPES.search(text):
        return f"the types of its values do not match: {found[1]}"
    return "it takes more than 10,000 steps" if "Iteration budget" in text else NOT_KNOWN


# the child


def write(value: Any) -> bytes:
    """Return a request: a text to find the problems of, or expressions with an object.

    Raises: ValueError if an object is nested too deeply.
    """
    text = marshal.dumps(value)
    return len(text).to_bytes(_SIZE_BYTES) + text


def main() -> None:
    """Answer requests from standard input with one line of JSON each, until it ends.

    A request that takes too much processor time ends the process, by the signal that nobody handles.
    """
    if is_available():
        _environment()  # which no request pays for
    try:
        _answer_all()
    except MemoryError:
        os._exit(OUT_OF_MEMORY)


def _answer_all() -> None:
    while size := sys.stdin.buffer.read(_SIZE_BYTES):
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        request = marshal.loads(sys.stdin.buffer.read(int.from_bytes(size)))  # noqa: S302 - of the controller
        answer = find_problem(request) if isinstance(request, str) else evaluate(*request)
        signal.setitimer(signal.ITIMER_PROF, 0)
        sys.stdout.buffer.write(json.dumps(answer).encode() + b"\n")
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
