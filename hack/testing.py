"""What hack/test runs: parts, one after the other, all of them even if one fails, and a summary at the end.

pytest chooses and runs the tests of a part; which ones `--all` adds is in tests/README.md.
"""

from __future__ import annotations

import json
import math
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

WITHIN = "--within="
VALUES = {"--kubeconfig": "a file", WITHIN[:-1]: "minutes"}
"""By option, what it needs."""
ROOT = Path(__file__).resolve().parents[1]
LAST_FAILED = ROOT / ".pytest_cache/v/cache/lastfailed"
PLUGINS = ROOT / "hack" / "plugins"
"""Packages of plug-ins, each in a folder."""
NOTHING_SELECTED = 5
"""pytest's exit status."""
MOST_RETRIED = 200
"""As many as share one cluster and fail with it, such as the tests of tenants. If more fail, something is broken, and
running them again would only take time."""
RETRY_SECONDS = 900
"""After which no further test is run again: it counts as failed."""
PARTS: Mapping[str, tuple[str, ...]] = {
    "lint": (),
    "unit": ("tests/unit",),
    "integration": ("tests/integration",),
    "e2e": ("tests/e2e",),
    "node": ("tests/node",),
    "integration, e2e and node": ("tests/integration", "tests/e2e", "tests/node"),
}
"""By name the folders of tests."""
# One part is all three, so that no worker waits for the last integration test before it starts the first e2e test, and
# others work while those of real nodes wait for kubelets.
SCRIPTS = "controller/ui/static"
"""The JavaScript of the page."""
ALL_PARTS = ("lint", "unit", "integration, e2e and node")
SECONDS = {
    "lint": 10,
    "unit": 85,
    "unit --all": 140,
    "integration": 450,
    "integration --all": 1350,
    "e2e": 100,
    "e2e --all": 280,
    "integration, e2e and node": 510,
    "integration, e2e and node --all": 1620,
    "node": 70,
    "node --all": 720,
}
"""On a machine with two cores that does nothing else."""
LEFT_OUT = (
    "left out: storms, kills at every write, wrong clocks, soaks, the second Helm, and rules repeated for each kind; "
    "hack/test --all runs them"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """What the caller wants to be run."""

    parts: tuple[str, ...]
    paths: tuple[str, ...] = ()
    """Files or tests instead of the folders of the part."""
    everything: bool = False
    retry: bool = False
    within: float = math.inf
    """Minutes, after which tests that only `--all` adds are skipped."""
    arguments: tuple[str, ...] = ()
    """For pytest."""


@dataclass(slots=True, kw_only=True)
class Result:
    """What came of one part."""

    part: str
    seconds: float
    failed: bool
    tests: list[str] = field(default_factory=list)
    """The failed ones, by node ID, or the commands of lint."""
    only_again: list[str] = field(default_factory=list)
    """Those that passed when they were run again."""


def main(arguments: Sequence[str]) -> int:
    """Run what the arguments name, and return the exit status. Raises: SystemExit for wrong arguments."""
    choice = parse(arguments, Path(os.environ.get("CALLED_FROM") or Path.cwd()))
    if "--last-failed" not in choice.arguments and "--lf" not in choice.arguments:
        LAST_FAILED.unlink(missing_ok=True)
    begun, results = time.monotonic(), []
    for part in choice.parts:
        left = choice.within - (time.monotonic() - begun) / 60
        results.append(run_part(part, replace(choice, within=left)))
    if choice.retry:
        for result in results:
            retry(result, choice)
    print("\n".join(summarize(results, everything=choice.everything or choice.parts == ("lint",))), flush=True)
    return int(any(result.failed for result in results))


def parse(arguments: Sequence[str], called_from: Path) -> Choice:
    """Read the command line: `[PART] [--all] [--retry] [--within=MINUTES] [--kubeconfig FILE] [PATH…] [ARGUMENT…]`.

    Raises: SystemExit.
    """
    remaining = [word.removeprefix("./") for word in _join(arguments)]
    parts: tuple[str, ...] = ALL_PARTS
    if remaining and not remaining[0].startswith(("-", "tests/")):
        part = remaining.pop(0)
        if part not in PARTS or " " in part:
            raise SystemExit(f'hack/test: there is no part "{part}"; parts are lint, unit, integration, e2e and node')
        if remaining and remaining[0] in PARTS:
            raise SystemExit(f'hack/test: "{part}" or "{remaining[0]}": one part, or none for all of them')
        parts = (part,)
    flags = {flag: flag in remaining for flag in ("--all", "--retry")}
    minutes = [word for word in remaining if word.startswith(WITHIN)]
    others = [word for word in remaining if word not in (*flags, *minutes)]
    remaining = [_resolve_kubeconfig(word, called_from) for word in others]
    paths = tuple(word for word in remaining if word.startswith("tests/"))
    if paths and parts == ALL_PARTS:
        raise SystemExit(f'hack/test: say of which part "{paths[0]}" is: hack/test PART PATH')
    for path in paths:
        if not path.startswith(PARTS[parts[0]]):
            raise SystemExit(f'hack/test: "{path}" is of another part than {parts[0]}')
        if not (ROOT / path.partition("::")[0]).exists():
            raise SystemExit(f'hack/test: "{path}" does not exist; paths are relative to the repository')
    return Choice(
        parts=parts,
        paths=paths,
        # What somebody names is run, whatever it is.
        everything=flags["--all"] or bool(paths),
        retry=flags["--retry"],
        within=_read_minutes(minutes[-1].removeprefix(WITHIN)) if minutes else math.inf,
        arguments=tuple(word for word in remaining if word not in paths),
    )


def _join(arguments: Sequence[str]) -> Iterator[str]:
    words = iter(arguments)
    for word in words:
        name, equals, value = word.partition("=")
        if name not in VALUES:
            yield word
            continue
        value = value if equals else next(words, "")
        if not value:
            raise SystemExit(f"hack/test: {name} needs {VALUES[name]}")
        yield f"{name}={value}"


def _read_minutes(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise SystemExit(f'hack/test: --within needs minutes, not "{text}"') from None


def _resolve_kubeconfig(word: str, called_from: Path) -> str:
    name, _, value = word.partition("=")
    if name != "--kubeconfig":
        return word
    path = (called_from / value).resolve()
    if not path.is_file():
        raise SystemExit(f'hack/test: --kubeconfig: there is no file "{path}"')
    return f"{name}={path}"


def run_part(part: str, choice: Choice) -> Result:
    """Run one part and say how long it is going to take."""
    key = f"{part} --all" if choice.everything and part != "lint" else part
    print(f"== {part}{'' if choice.paths else f', about {describe_seconds(SECONDS[key])}'}", flush=True)
    begun = time.monotonic()
    failed_commands = _lint() if part == "lint" else []
    status = 0 if part == "lint" else _run_tests(part, choice)
    # An expression may select tests of another part only: that is no failure when all parts are run.
    failed = bool(failed_commands) or status not in ({0, NOTHING_SELECTED} if len(choice.parts) > 1 else {0})
    seconds = time.monotonic() - begun
    tests = failed_commands or sorted(_last_failed(PARTS[part]) if failed else [])
    return Result(part=part, seconds=seconds, failed=failed, tests=tests)


def _lint() -> list[str]:
    """Run all linters, and return the commands that failed."""
    commands = {
        "ruff check": [sys.executable, "-m", "ruff", "check", "--quiet"],
        "ruff format --check": [sys.executable, "-m", "ruff", "format", "--check", "--quiet"],
        "mypy": [sys.executable, "-m", "mypy"],
        "lint-imports": [f"{Path(sys.executable).parent}/lint-imports", "--no-logo"],
        "oxlint": [f"{Path(sys.executable).parent}/oxlint", "--config=hack/oxlint.json", "--quiet", SCRIPTS],
    }
    failed = [name for name, command in commands.items() if subprocess.run(command, cwd=ROOT, check=False).returncode]
    return failed + [f"mypy in {folder.name}" for folder in list_packages() if not _is_typed(folder)]


def list_packages() -> list[Path]:
    """Return the folders of the packages of plug-ins."""
    return sorted(project.parent for project in PLUGINS.glob("*/pyproject.toml"))


def _is_typed(package: Path) -> bool:
    """Check the module and the tests of a package as whoever works on it would: by its own configuration."""
    # One cache for all: what they import of RukPak is read once.
    command = [sys.executable, "-m", "mypy", f"--cache-dir={ROOT}/.mypy_cache/plugins", "."]
    return subprocess.run(command, cwd=package, check=False).returncode == 0


def _run_tests(part: str, choice: Choice) -> int:
    within = [f"{WITHIN}{choice.within:.1f}"] if choice.within < math.inf else []
    given = [*choice.paths, *(["--all"] if choice.everything else []), *within, *choice.arguments]
    targets = given if choice.paths else [*PARTS[part], *given]
    # Tests mostly wait, for programs and for clusters: five workers share two cores. Each worker has clusters of its
    # own, and a file stays on one worker, as do all of real nodes, whose seconds are asserted.
    workers = [f"--numprocesses={1 if part == 'node' else 2 * len(os.sched_getaffinity(0)) + 1}", "--dist=loadfile"]
    if part == "unit":
        return _pytest(*workers, *targets)
    # Files start in the order of tests/conftest.py, where xdist would start those with most tests.
    return _obtain_programs(targets) or _pytest(*workers, "--no-loadscope-reorder", *targets)


def _obtain_programs(targets: Sequence[str]) -> int:
    """Obtain missing programs before pytest starts its workers, whose output nobody sees while they collect."""
    listed = [sys.executable, "-m", "hack.control_plane", "programs"]
    if subprocess.run(listed, cwd=ROOT, check=False, capture_output=True).returncode == 0:
        return 0
    return _pytest("--collect-only", "--obtain", "-qq", *targets, quiet=True)


def _pytest(*arguments: str, quiet: bool = False) -> int:
    output = subprocess.DEVNULL if quiet else None
    return subprocess.run([sys.executable, "-m", "pytest", *arguments], cwd=ROOT, check=False, stdout=output).returncode


def retry(result: Result, choice: Choice) -> None:
    """Run the failed tests of a part once more, alone: some need more of the machine than they get beside others."""
    if result.part == "lint" or not result.failed or not 0 < len(result.tests) <= MOST_RETRIED:
        return
    print(f"== {result.part}: tests that failed, once more", flush=True)
    kubeconfig = [word for word in choice.arguments if word.startswith("--kubeconfig=")]
    result.failed = _pytest("--all", f"--session-timeout={RETRY_SECONDS}", *kubeconfig, *result.tests) != 0
    still_failed = set(_last_failed(PARTS[result.part])) if result.failed else set()
    result.only_again = [test for test in result.tests if test not in still_failed]
    result.tests = [test for test in result.tests if test in still_failed]


def _last_failed(folders: Iterable[str]) -> list[str]:
    """Return the tests, or files that could not be collected, which pytest has recorded as failed."""
    try:
        failed = json.loads(LAST_FAILED.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return []
    return [test for test in failed if test.startswith(tuple(f"{folder}/" for folder in folders))]


def summarize(results: Sequence[Result], *, everything: bool) -> list[str]:
    """Return the lines that end the output: what failed, with the command that runs it again, and what was left out."""
    came = {True: "FAILED", False: "passed"}
    lines = ["", "== summary"]
    lines += [f"{result.part}: {came[result.failed]} in {describe_seconds(result.seconds)}" for result in results]
    again = [test for result in results for test in result.only_again]
    if again:
        lines += ["", "failed, and passed when run again alone:", *(f"  {command_of(test)}" for test in again)]
    failed = [result for result in results if result.failed]
    if failed:
        lines += ["", "failed; to run only these again:"]
    for result in failed:
        commands = ["hack/test lint"] if result.part == "lint" else [command_of(test) for test in result.tests]
        lines += [f"  {command}" for command in commands or [f"hack/test {PARTS[result.part][0].split('/')[1]}"]]
        lines += [f"    ({test})" for test in result.tests if result.part == "lint"]
    return [*lines, "", *([] if everything else [LEFT_OUT])]


def command_of(test: str) -> str:
    """Return the command that runs one test, given its node ID."""
    return f"hack/test {test.split('/')[1]} {shlex.quote(test)}"


def describe_seconds(seconds: float) -> str:
    """Return `2 min 10 s`."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
