"""Every string of the program that a user may read, found in the syntax tree.

A string is listed if it looks like prose (letters and a space) or is an argument of a call that shows its arguments.
Docstrings are not listed, except those of API models, which are the field descriptions of the CRD.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

PROGRAM = ("controller", "api")
"""Folders that hold strings for users."""
_SHOWN_BY = frozenset(
    {"debug", "info", "warning", "error", "exception", "BundleError", "UsageError", "ValueError", "print", "stop"}
)
"""Calls that show their text arguments: logging, errors and output."""
_EXPRESSIONS = frozenset({"re.compile", "rule", "_for_durations"})
"""Calls whose first argument is a pattern or a CEL expression."""
_API_MODEL = "Api"

Definition = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True, kw_only=True)
class UserString:
    """One string of a file."""

    line: int
    text: str
    """On one line; expressions of an f-string are `{…}`."""


def list_strings(root: Path, folders: tuple[str, ...] = PROGRAM) -> Iterator[str]:
    """Yield the lines of the listing: a heading for each package and file, then line number and text.

    Args:
        root: the repository.
        folders: what to list, relative to it; a file is listed alone.

    Raises: FileNotFoundError for a folder that does not exist.
    """
    for package, files in groupby(_modules(root, folders), key=lambda file: file.parent):
        yield f"== {package.relative_to(root)}"
        for file in files:
            found = find_strings(file.read_text("utf-8"))
            if found:
                yield str(file.relative_to(root))
                yield from (f"{string.line:5}: {string.text}" for string in found)


def _modules(root: Path, folders: tuple[str, ...]) -> list[Path]:
    found: set[Path] = set()
    for each in folders:
        folder = root / each
        if not folder.exists():
            raise FileNotFoundError(f"{each}: no such file or folder")
        found.update([folder] if folder.is_file() else folder.rglob("*.py"))
    return sorted(found, key=lambda file: (file.parent, file))


def find_strings(source: str) -> list[UserString]:
    """Return the strings of a Python module that a user may read, in the order of the file."""
    finder = _Finder()
    finder.visit(ast.parse(source))
    return sorted(finder.found, key=lambda string: string.line)


class _Finder(ast.NodeVisitor):
    def __init__(self) -> None:
        self.found: list[UserString] = []
        self._models = {_API_MODEL}

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        if {base.id for base in node.bases if isinstance(base, ast.Name)} & self._models:
            self._models.add(node.name)
            self._list_descriptions(node)
        self.generic_visit(node)

    def _list_descriptions(self, model: ast.ClassDef) -> None:
        for statement in model.body:
            if isinstance(statement, ast.Expr):
                self._list(statement.value)

    def visit_Expr(self, node: ast.Expr) -> None:
        if not isinstance(node.value, ast.Constant):  # a docstring is a statement of its own
            self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        called = ast.unparse(node.func)
        if called.rsplit(".", 1)[-1] in _SHOWN_BY:
            for argument in node.args:
                self._list(argument)
        for part in (node.func, *node.args[called in _EXPRESSIONS :], *node.keywords):
            self.visit(part)

    def visit_keyword(self, node: ast.keyword) -> None:
        if node.arg == "help":
            self._list(node.value)
        if node.arg != "pattern":
            self.visit(node.value)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, str) and _is_prose(node.value):
            self._list(node)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        if _is_prose(_template(node)):
            self._list(node)
        for part in node.values:
            if isinstance(part, ast.FormattedValue):
                self.visit(part.value)

    def _list(self, node: ast.expr) -> None:
        text = " ".join(_template(node).split())
        string = UserString(line=node.lineno, text=text)
        if any(character.isalpha() for character in text) and string not in self.found:
            self.found.append(string)


def _template(node: ast.expr) -> str:
    """Return the text of a string, with `{…}` for expressions; empty for anything else."""
    if isinstance(node, ast.JoinedStr):
        return "".join(_template(part) for part in node.values)
    if isinstance(node, ast.FormattedValue):
        return "{…}"
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def _is_prose(text: str) -> bool:
    return " " in text.strip() and any(character.isalpha() for character in text.replace("{…}", ""))
