"""The descriptions of the fields of a model: the text below each of them in the source.

They are read when a schema is generated. Pydantic's `use_attribute_docstrings` reads them whenever the models are
imported, which took a sixth of the start of every program.
"""

from __future__ import annotations

import ast
import inspect
import sys
from functools import cache
from itertools import pairwise

from pydantic import BaseModel


def find_descriptions(model: type[BaseModel]) -> dict[str, str]:
    """Return the descriptions by field, also of inherited fields; a field without a text has none.

    Raises: OSError if there is no source.
    """
    bases = [each for each in reversed(model.__mro__) if issubclass(each, BaseModel) and each is not BaseModel]
    return {field: text for each in bases for field, text in _own_descriptions(each).items()}


def _own_descriptions(model: type[BaseModel]) -> dict[str, str]:
    definition = _definitions(model.__module__).get(model.__name__)
    if definition is None:
        raise OSError(f"no source of {model.__name__}")
    return {
        field.target.id: inspect.cleandoc(text.value.value)
        for field, text in pairwise(definition.body)
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
        if isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant) and isinstance(text.value.value, str)
    }


@cache
def _definitions(module: str) -> dict[str, ast.ClassDef]:
    """Return the classes of a module, which is parsed once: `inspect.getsource` does so for each class."""
    tree = ast.parse(inspect.getsource(sys.modules[module]))
    return {each.name: each for each in tree.body if isinstance(each, ast.ClassDef)}
