"""Objects of config/ as templates of Helm.

Templates are written as values of the objects, and become text of the template language when the YAML is written:
a `statement` is a line of its own in a list or in an object, an `expression` is a value without quotes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from hack.packaging.kustomization import Manifest
from hack.packaging.text import write_documents

NAMESPACE = "rukpak-system"
RESTRICTED = ".Values.restricted"
_RELEASE_NAMESPACE = "{{.Release.Namespace}}"  # without spaces, at which lines could be broken
_BRACES = "{{`{{`}}"
_STATEMENT = re.compile(r"^ *(?:- )?'?@@(.*?)@@.*$", re.MULTILINE)
_EXPRESSION = re.compile(r"'@=(.*?)=@'")


def statement(text: str, key: str = "") -> str:
    """Return what becomes `{{- text }}`: an item of a list, or with a unique `key`, a field."""
    return f"@@{text}@@{key}"


def expression(text: str) -> str:
    """Return a value that becomes `{{ text }}`."""
    return f"@={{{{ {text} }}}}=@"


def write_templates(manifests: Iterable[Manifest], condition: str = "") -> str:
    """Return the text of a template, which is empty unless the condition holds."""
    text = _EXPRESSION.sub(r"\1", _STATEMENT.sub(r"{{- \1 }}", write_documents(manifests)))
    return f"{{{{- if {condition} }}}}\n{text}{{{{- end }}}}\n" if condition else text


def as_template(value: Any) -> Any:
    """Return a value of config/ for a template: in the namespace of the release, braces as they are."""
    if isinstance(value, dict):
        return {key: as_template(each) for key, each in value.items()}
    if isinstance(value, list):
        return [as_template(each) for each in value]
    return value.replace("{{", _BRACES).replace(NAMESPACE, _RELEASE_NAMESPACE) if isinstance(value, str) else value


def combine(plain: Any, restricted: Any) -> Any:
    """Return a value that is `plain`, and with the value `restricted` of the chart, `restricted`.

    Raises: ValueError if `restricted` does more than to add fields, and items at the end of lists.
    """
    if plain == restricted:
        return plain
    if isinstance(plain, dict) and isinstance(restricted, dict) and plain.keys() <= restricted.keys():
        return dict(_combined_fields(plain, restricted))
    if isinstance(plain, list) and isinstance(restricted, list) and len(plain) <= len(restricted):
        added = restricted[len(plain) :]
        condition = [statement(f"if {RESTRICTED}"), *added, statement("end")] if added else []
        return [*map(combine, plain, restricted), *condition]
    raise ValueError(f"config/restricted changes {plain!r}; the chart can only add to it")


def _combined_fields(plain: Manifest, restricted: Manifest) -> Iterator[tuple[str, Any]]:
    for key, value in restricted.items():
        if key in plain:
            yield key, combine(plain[key], value)
        else:
            yield statement(f"if {RESTRICTED}", key), None
            yield key, value
            yield statement("end", key), None
