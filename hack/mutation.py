"""`hack/mutate`: change the controller at places drawn by a seed, and see whether a test fails.

A change that no test notices has SURVIVED: it is equivalent to the code, or a test is missing. Each is made in a copy
of the last commit, and is found only if the test that fails does so again, alone, and passes without it. What no test
should notice is not changed: log messages, docstrings, types, assertions and `__repr__`.

Exit status: 0 if all changes were found, 1 if one survived, 2 for misuse.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import chain, zip_longest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CODE, TESTS, INTEGRATION = "controller", "tests/unit", "tests/integration"
WORKERS = 2
RUN_SECONDS = 900
"""Longer than all unit tests take, or a file of others: a change with which they take longer is found."""
TEST_BYTES = 4 << 30
"""Memory of each process that runs tests: a change may make a loop endless."""
LAST_FAILED = ".pytest_cache/v/cache/lastfailed"
NO_FAILURE = {0, 5}
"""pytest's exit statuses: all tests passed, or none was selected."""
_SOURCE = "{SOURCE}"
"""In what replaces a part of the code, the source of that part."""
_MOST_SHOWN = 60
_NAMED_TEST = re.compile(r"\btest_\w+\.py\b")
_UNNOTICED_CALLS = re.compile(r"(self\.)?_?log\.|warnings\.")
_UNNOTICED_FIELDS = {"annotation", "bases", "decorator_list", "returns"}


# Changes


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutation:
    """One change: a part of a file, and what replaces it."""

    path: str
    """Of the file, relative to the repository."""
    kind: str
    line: int
    span: tuple[int, int]
    """Where the part begins and ends, in bytes."""
    before: str
    after: str

    def __str__(self) -> str:
        """Return the place and the change in one line."""
        texts = (" ".join(text.split()) for text in (self.before, self.after))
        before, after = (text if len(text) <= _MOST_SHOWN else f"{text[: _MOST_SHOWN - 1]}…" for text in texts)
        return f"{self.path}:{self.line}  {self.kind}: {before}  ->  {after}"

    def apply(self, source: str) -> str:
        """Return the source of the file after the change."""
        (begin, end), encoded = self.span, source.encode()
        return (encoded[:begin] + self.after.encode() + encoded[end:]).decode()


def find_mutations(path: str, source: str) -> list[Mutation]:
    """Return all changes that can be made to a file, in its order."""
    found, encoded, starts = [], source.encode(), [0]
    for line in encoded.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    for kind, part, template in chain.from_iterable(map(_changes, _walk(ast.parse(source)))):
        begin = starts[part.lineno - 1] + part.col_offset
        end = starts[(part.end_lineno or 0) - 1] + (part.end_col_offset or 0)
        before = encoded[begin:end].decode()
        after = template.replace(_SOURCE, before)
        found.append(Mutation(path=path, kind=kind, line=part.lineno, span=(begin, end), before=before, after=after))
    return sorted(found, key=lambda mutation: (mutation.span, mutation.kind))


def _walk(node: ast.AST) -> Iterator[ast.AST]:
    """Yield a node and those below it, as far as a test can notice them."""
    if _is_unnoticed(node):
        return
    yield node
    for name, value in ast.iter_fields(node):
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and name not in _UNNOTICED_FIELDS:
                yield from _walk(child)


def _is_unnoticed(node: ast.AST) -> bool:
    match node:
        # Python 3.11 does not say where the parts of an f-string are.
        case ast.Assert() | ast.JoinedStr() | ast.FunctionDef(name="__repr__") | ast.arguments():
            return True
        case ast.If():
            return ast.unparse(node.test) in {"TYPE_CHECKING", "__name__ == '__main__'"}
        case ast.Expr(value=ast.Call() as call):
            return _UNNOTICED_CALLS.match(ast.unparse(call.func)) is not None
    return False


def _changes(node: ast.AST) -> Iterator[tuple[str, ast.expr | ast.stmt, str]]:
    """Yield kinds of changes, with the part that is replaced, and by what."""
    match node:
        case ast.Compare():
            yield "comparison turned", node, f"(not ({_SOURCE}))"
        case ast.UnaryOp(op=ast.Not()):
            yield "negation dropped", node, f"({ast.unparse(node.operand)})"
        case ast.BoolOp(op=operator, values=values):
            other, neutral = (ast.Or(), "True") if isinstance(operator, ast.And) else (ast.And(), "False")
            yield "operator exchanged", node, f"({ast.unparse(ast.BoolOp(other, values))})"
            yield from (("condition dropped", value, neutral) for value in values)
        case ast.If(test=ast.Constant()):
            pass
        case ast.If(test=condition) | ast.IfExp(test=condition) | ast.comprehension(ifs=[condition]):
            yield "condition dropped", condition, "True"
        case ast.Expr(value=ast.Call()):
            yield "call left out", node, "pass"
        case ast.Raise():
            yield "error not raised", node, "pass"
        case ast.Return(value=ast.Constant(value=bool() as answer)):
            yield "result replaced", node, f"return {not answer}"
        case ast.Return(value=ast.expr() as value) if ast.unparse(value) != "None":
            yield "result replaced", node, "return None"


def draw(mutations: Sequence[Mutation], count: int, seed: int) -> list[Mutation]:
    """Draw changes, equally many of each kind as long as there are some, and return them in the order of the code."""
    generator = random.Random(seed)  # noqa: S311 -- not a secret
    kinds: dict[str, list[Mutation]] = {}
    for mutation in generator.sample(mutations, len(mutations)):
        kinds.setdefault(mutation.kind, []).append(mutation)
    in_turn = chain.from_iterable(zip_longest(*kinds.values()))
    drawn = [mutation for mutation in in_turn if mutation][:count]
    return sorted(drawn, key=lambda mutation: (mutation.path, mutation.span, mutation.kind))


# Tests


def choose_tests(path: str, tests: Mapping[str, str]) -> tuple[list[str], list[str]]:
    """Return the test files of the nearest folder, and all others; first those that name the module.

    Args:
        path: of the module, such as `controller/apply/plan.py`.
        tests: the sources of all test files by path.
    """
    parts = Path(path).with_suffix("").parts
    folders = (Path(TESTS, *parts[:length]) for length in range(len(parts), 0, -1))
    near = next(found for folder in folders if (found := [test for test in tests if _is_near(Path(test), folder)]))
    package, name = ".".join(("rukpak", *parts[:-1])), parts[-1]
    names = re.compile(rf"{package}\.{name}\b|from {package} import .*\b{name}\b")

    def order(test: str) -> tuple[bool, bool, str]:
        return Path(test).stem != f"test_{name}", not names.search(tests[test]), test

    return sorted(near, key=order), sorted(tests.keys() - near, key=order)


def choose_integration_tests(path: str, pages: Mapping[str, str], tests: Iterable[str]) -> list[str]:
    """Return the integration tests that show what a module promises: those that the nearest README names.

    Args:
        path: of the module.
        pages: all README.md files of the controller, by path.
        tests: the paths of all integration tests.
    """
    named = {Path(test).name: test for test in tests}
    for folder in Path(path).parents:
        found = _NAMED_TEST.findall(pages.get(str(folder / "README.md"), ""))
        if chosen := [named[name] for name in dict.fromkeys(found) if name in named]:
            return chosen
    return []


def _is_near(test: Path, folder: Path) -> bool:
    """Whether a test is in a folder, or below it unless all tests of the controller are."""
    return test.parent == folder or (folder != Path(TESTS, CODE) and folder in test.parents)


def find_failure(copy: Path, tests: Sequence[str], workers: int = 0, without: Iterable[str] = ()) -> str:
    """Run tests in a copy, without some, until one fails. Returns: which one, or what else ended them; empty: none."""
    (copy / LAST_FAILED).unlink(missing_ok=True)
    command = ["prlimit", f"--data={TEST_BYTES}", sys.executable, "-m", "pytest", "-x", "-q", f"-n{workers}"]
    command += [*(f"--deselect={test}" for test in without), *tests]
    environment, quiet = os.environ | {"PYTHONPATH": str(copy)}, subprocess.DEVNULL
    with subprocess.Popen(
        command, cwd=copy, env=environment, stdin=quiet, stdout=quiet, stderr=quiet, start_new_session=True
    ) as process:
        try:
            status = process.wait(RUN_SECONDS)
        except subprocess.TimeoutExpired:
            return f"tests took more than {RUN_SECONDS} s"
        finally:
            with suppress(ProcessLookupError):  # what a test has started may outlive it
                os.killpg(process.pid, signal.SIGKILL)
    if status in NO_FAILURE:
        return ""
    recorded = copy / LAST_FAILED
    failed = json.loads(recorded.read_text("utf-8")) if recorded.exists() else {}
    return next(iter(failed), f"pytest failed with status {status}")


def try_out(mutation: Mutation, copy: Path, runs: Iterable[tuple[Sequence[str], int]], broken: set[str]) -> str:
    """Make one change in a copy, run tests until one fails, and undo it.

    Args:
        mutation: the change.
        copy: of the repository.
        runs: tests with options of pytest, and the number of workers that run them, one after the other.
        broken: tests that say nothing, since they fail without a change or not each time; others are added.
    Returns: the test that finds it, or what else ended the tests; empty: none.
    """
    file = copy / mutation.path
    source = file.read_text("utf-8")
    for tests, workers in runs:
        while True:
            file.write_text(mutation.apply(source), "utf-8")
            try:
                failed = find_failure(copy, tests, workers, broken)
                if not failed.startswith("tests/"):
                    break
                alone = [failed, *(word for word in tests if word.startswith("--"))]
                fails_again = find_failure(copy, alone) != ""
            finally:
                file.write_text(source, "utf-8")
            if fails_again and not find_failure(copy, alone):
                return failed
            if failed in broken:
                raise SystemExit(f"hack/mutate: {failed} fails without a change; fix it first")
            broken.add(failed)
        if failed:
            return failed
    return ""


@contextmanager
def copied() -> Iterator[Path]:
    """Check the last commit out into a temporary folder."""
    with tempfile.TemporaryDirectory(prefix="mutate-") as folder:
        copy = Path(folder, "copy")
        subprocess.run(["git", "worktree", "add", "--quiet", "--detach", copy], cwd=ROOT, check=True)
        try:
            yield copy
        finally:
            subprocess.run(["git", "worktree", "remove", "--force", copy], cwd=ROOT, check=True)


# The command


def main(arguments: Sequence[str]) -> int:
    options = _parse(arguments)
    end = time.monotonic() + options.seconds
    survived, broken, tried = list[int](), set[str](), 0
    with copied() as copy:
        sources, tests = _read_files(copy, CODE, "*.py"), _read_files(copy, TESTS, "test_*.py")
        pages, integration = _read_files(copy, CODE, "README.md"), _read_files(copy, INTEGRATION, "test_*.py")
        found = chain.from_iterable(find_mutations(path, source) for path, source in sources.items())
        for number, mutation in enumerate(draw(list(found), options.count, options.seed), 1):
            if (options.only and number not in options.only) or time.monotonic() > end:
                continue
            print(f"{number:3}  {mutation}", flush=True)
            if options.list:
                continue
            near, others = choose_tests(mutation.path, tests)
            runs = [(near, 0)] if options.near else [(near, 0), (others, WORKERS)]
            if options.integration:
                runs += [([test], 0) for test in choose_integration_tests(mutation.path, pages, integration)]
            if options.tests:  # what somebody names is run, whatever it is
                runs = [([*options.tests, "--all"], 0)]
            failed = try_out(mutation, copy, runs, broken)
            print(f"     {failed or 'SURVIVED'}", flush=True)
            tried += 1
            survived += [] if failed else [number]
    if tried:
        print(f"{tried - len(survived)} of {tried} found, {len(survived)} SURVIVED", *survived)
    if broken:
        print("left out, since they fail without a change, or not each time:", *sorted(broken))
    return int(bool(survived))


def _read_files(copy: Path, folder: str, pattern: str) -> dict[str, str]:
    return {str(file.relative_to(copy)): file.read_text("utf-8") for file in sorted((copy / folder).rglob(pattern))}


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="hack/mutate", description="Change the code, and see whether a test fails.")
    parser.add_argument("tests", nargs="*", metavar="TEST", help="files to run instead of the unit tests")
    parser.add_argument("--seed", type=int, default=1, help="of the places (default: %(default)s)")
    parser.add_argument("--count", type=int, default=60, help="how many places (default: %(default)s)")
    parser.add_argument("--list", action="store_true", help="list the changes, and make none")
    parser.add_argument("--only", type=int, action="append", metavar="N", help="make only this change; may be repeated")
    parser.add_argument("--near", action="store_true", help="run only the tests of the nearest folder")
    parser.add_argument(
        "--integration", action="store_true", help="then run the integration tests that the nearest README names"
    )
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin no other change after so long")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
