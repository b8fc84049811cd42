r"""`lookup` in charts: templates that ask for answers instead of a cluster, and the answers as literals in them.

Helm runs without a cluster. A chart that says `lookup` is therefore rendered in passes: the templates of the copy are
rewritten so that an answer that is known stands in them, and one that is not ends the run with a message that contains
what was asked. The caller finds the answer and renders again. So a rendering remains a function of its inputs, to which
the answers belong.

    lookup "v1" "Secret" "shop" "db"
    tuple "v1" "Secret" "shop" "db" | toJson | include "rukpak.lookup" | get (dict "[\"v1\",…]" (dict "data" …))

The second line takes the same arguments, also one that is piped into it, and gives a value of the same types: integers
remain integers, unlike those of `fromJson`. The template `rukpak.lookup` returns the question if its answer is known.

What `tpl` evaluates is rewritten by a template, too, while Helm runs: values and files of the chart remain as they are.
There, calls are found by regular expressions: no more than a few in one action, with parentheses up to a few levels.

Pure, but for the functions that read and write the files of the copy. Not here: who reads the answers
(revisions/references.py), and how often it renders (building/builder.py).
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from rukpak.api import names
from rukpak.api.errors import BundleError
from rukpak.api.plugins import MEBIBYTE, Answers, Lookup
from rukpak.api.v1alpha2.conditions import Reason
from rukpak.controller.content.limits import quote, some
from rukpak.controller.formats.helm.chart import list_chart_files
from rukpak.controller.formats.helm.failures import find_templates
from rukpak.controller.untrusted import mapping, mappings, sequence

_WORD = re.compile(rb"\blookup\b")
_BRACES = re.compile(rb"\{\{|\}\}|\blookup\b")
_EVALUATES = re.compile(rb"\btpl\b")
_HELPER, _EVALUATED = "rukpak.lookup", "rukpak.tpl"
"""Templates that are added to the chart."""
_FILE = "_rukpak-lookup{}.tpl"
_MARK = re.compile(r"rukpak-lookup-([A-Za-z0-9+/=]*)-end")
_PLAIN = re.compile(r"[A-Za-z0-9.:_/-]*")
"""What is written the same way by everybody; no other text is a kind, a namespace or a name."""
_FOLDER = "templates"
REMEDY = "look up less, or set spec.config.lookup to Never"
"""Against every limit of what a chart looks up."""
_MOST_BYTES = 32 * MEBIBYTE
"""Size of the templates with the answers in them."""
_MOST_BYTES_EACH = 5 * MEBIBYTE
"""Size of a file that Helm reads."""
_CALLS, _LEVELS = 8, 4
"""Calls in one action of a text that `tpl` evaluates, and levels of parentheses in their arguments."""
# Bytes above 127 are parts of names: a file is read as Latin-1, so that each byte remains as it is.
_TOKEN = re.compile(
    r"""(?P<space>[ \t\r\n]+)
    |(?P<end>-?\}\})
    |(?P<text>"(?:[^"\\\n]|\\.)*"|`[^`]*`|'(?:[^'\\\n]|\\.)*')
    |(?P<word>[$.\w\x80-\xff]+)
    |(?P<other>:=|[^"'`])""",
    re.VERBOSE,
)
_COMMENT = re.compile(r"\{\{(?:-[ \t\r\n])?/\*")
_OPENING = re.compile(r"\{\{(?:-(?=[ \t\r\n]))?")
_KEYWORDS = frozenset({"if", "with", "range", "else"})
_NAMING = frozenset({"template", "block"})


class Call(NamedTuple):
    """A call of `lookup` in a template."""

    start: int
    end: int
    """Of the arguments."""
    arguments: tuple[str | None, ...]
    """The texts that are written in it; None for what is computed."""

    def __str__(self) -> str:
        """Return what it asks for, as far as it is written."""
        written = [each or "…" for each in self.arguments[:2]]
        return "/".join((*written, "…", "…")[:2])


@dataclass(slots=True)
class _Command:
    """A command of a pipeline while it is scanned."""

    operands: list[str | None] | None = None
    """Of a call of `lookup`; None for any other command."""
    start: int = 0
    words: list[str] = field(default_factory=list)
    """The tokens at its level since the beginning of the action or parenthesis."""
    opens_operand: int = -1
    """Where the operand of `tpl` starts, which is a parenthesis."""


class _Scan(NamedTuple):
    lookups: list[Call]
    evaluated: list[tuple[int, int]]
    """Start and end of the first operand of each `tpl`."""


def find_calls(text: bytes) -> list[tuple[int, Call]]:
    """Return the calls of `lookup` in a template, in order, each after its line."""
    template = text.decode("latin-1")
    calls, line, place = [], 1, 0
    for each in sorted(_scan(template).lookups):
        line += template.count("\n", place, each.start)
        place = each.start
        calls.append((line, each))
    return calls


def rewrite(text: bytes, answers: Answers) -> bytes:
    """Return a template with answers instead of calls of `lookup`, and with its calls of `tpl` rewritten.

    Raises: BundleError (RenderLimitExceeded).
    """
    template = text.decode("latin-1")
    found = _scan(template)
    answering = cache(lambda arguments: _answering(_candidates(answers, arguments)))
    size = 0
    edits: list[tuple[int, int, str]] = []
    for start, end, arguments in found.lookups:
        edits.append((start, start + len("lookup"), "tuple"))
        edits.append((end, end, answering(arguments)))
        size += len(edits[-1][2])
        if size > _MOST_BYTES:
            raise _too_large()
    for start, end in found.evaluated:
        edits += ((start, start, f'(include "{_EVALUATED}" '), (end, end, ")"))
    pieces: list[bytes] = []
    place = 0
    for start, end, new in sorted(edits, key=lambda edit: edit[:2]):
        pieces += (template[place:start].encode("latin-1"), new.encode("utf-8", "replace"))
        place = end
    return b"".join((*pieces, template[place:].encode("latin-1")))


def _candidates(answers: Answers, arguments: tuple[str | None, ...]) -> Answers:
    return {
        lookup: answer
        for lookup, answer in answers.items()
        if all(written in (None, asked) for written, asked in zip(arguments, lookup, strict=False))
    }


def _answering(answers: Answers) -> str:
    known = " ".join(f"{write_literal(_key(lookup))} {write_literal(answer)}" for lookup, answer in answers.items())
    return f' | toJson | include "{_HELPER}" | get (dict {known})'


def _key(lookup: Lookup) -> str:
    return json.dumps(list(lookup), separators=(",", ":"))


def write_literal(value: Any) -> str:
    """Return a value of JSON as an operand of a Go template: of the types that Helm's own `lookup` gives."""
    if isinstance(value, Mapping):
        items = (f" {write_literal(str(key))} {write_literal(each)}" for key, each in value.items())
        return f"(dict{''.join(items)})"
    if isinstance(value, list):
        return f"(list{''.join(f' {write_literal(each)}' for each in value)})"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if value is None:
        return "nil"
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(value) if isinstance(value, float) else f"(int64 {value})"


def _scan(template: str) -> _Scan:
    found = _Scan([], [])
    place = 0
    while opening := _OPENING.search(template, place):
        if comment := _COMMENT.match(template, opening.start()):
            # One that does not end is an error of the template, which Helm reports.
            place = template.find("*/", comment.end()) % (len(template) + 1)
        else:
            place = _scan_action(template, opening.end(), found)
    return found


def _scan_action(template: str, place: int, found: _Scan) -> int:
    levels, last = [_Command()], place
    """The command of each level of parentheses, and the end of the last token."""
    while token := _TOKEN.match(template, place):
        kind, text, start, place = token.lastgroup, token[0], token.start(), token.end()
        command = levels[-1]
        if kind == "space":
            continue
        if kind == "end" or text in (")", "|"):
            if command.operands is not None:
                found.lookups.append(Call(command.start, last, tuple(command.operands)))
            if kind == "end":
                return place
            if text == ")":
                levels.pop()
                levels = levels or [_Command()]
                _note_evaluated(levels[-1], template, place, found)
            else:
                levels[-1] = _Command()
        elif text == "(":
            if command.operands is not None:
                command.operands.append(None)
            if command.words[-1:] == ["tpl"] and _is_called(command.words, len(command.words) - 1):
                command.opens_operand = start
            command.words.append(text)
            levels.append(_Command())
        else:
            _take(command, kind or "", text, (start, place), found)
        last = place if text != ")" else _end_of_chain(template, place)
        place = max(place, last)
    return len(template)


def _take(command: _Command, kind: str, text: str, where: tuple[int, int], found: _Scan) -> None:
    if command.operands is not None:
        command.operands.append(_read_text(text) if kind == "text" else None)
    elif text == "lookup" and _is_called(command.words, len(command.words)):
        command.operands, command.start = [], where[0]
    elif command.words[-1:] == ["tpl"] and _is_called(command.words, len(command.words) - 1):
        found.evaluated.append(where)
    # What a string says is no keyword.
    command.words.append('"' if kind == "text" else text)


def _note_evaluated(command: _Command, template: str, place: int, found: _Scan) -> None:
    if command.opens_operand >= 0:
        found.evaluated.append((command.opens_operand, _end_of_chain(template, place)))
        command.opens_operand = -1


_MOST_BEFORE = 2
"""Tokens before a function that is called, such as `else if`."""
_CHAIN = re.compile(r"(?:\.[\w\x80-\xff]+)+")


def _end_of_chain(template: str, place: int) -> int:
    chain = _CHAIN.match(template, place)
    return chain.end() if chain else place


def _is_called(words: list[str], count: int) -> bool:
    if not count or words[count - 1] in (":=", "="):
        return True
    if count > _MOST_BEFORE:
        return False
    before = words[:count]
    return all(each in _KEYWORDS for each in before) or (before[0] in _NAMING and before[1:] == ['"'])


def _read_text(literal: str) -> str | None:
    if literal.startswith("`"):
        return literal[1:-1]
    try:
        return str(json.loads(literal)).encode("latin-1").decode()
    except (ValueError, UnicodeError):  # escapes that JSON does not have: as if it were computed
        return None


# the template that is added


def write_helper(answers: Answers, *, evaluates: bool = True) -> str:
    """Return the templates that the others include.

    Args:
        answers: that are known.
        evaluates: whether one of the others uses `tpl`.
    """
    keys = " ".join(write_literal(_key(lookup)) for lookup in answers)
    unknown = '{{ fail (printf "rukpak-lookup-%s-end" (b64enc .)) }}'
    helper = f"{{{{ if has . (list {keys}) }}}}{{{{ . }}}}{{{{ else }}}}{unknown}{{{{ end }}}}"
    return "".join(
        (
            f'{{{{ define "{_HELPER}" }}}}{helper}{{{{ end }}}}',
            f'{{{{ define "{_EVALUATED}" }}}}{_write_evaluated(answers)}{{{{ end }}}}' if evaluates else "",
        )
    )


_STRING = r""""(?:[^"\\]|\\.)*"|`[^`]*`|'(?:[^'\\]|\\.)*'"""
_NO_BRACES = """[^"'`{}]"""


def _nested(levels: int) -> str:
    inner = f"|{_nested(levels - 1)}" if levels else ""
    return rf"""\((?:{_STRING}|[^()"'`{{}}]{inner})*\)"""


_BEFORE = rf"(\{{\{{(?:-\s)?(?:(?:{_STRING}|{_NO_BRACES})*?(?:[(|=]|\b(?:if|with|range)\s))?\s*)"
_CALLED = rf"""{_BEFORE}lookup(\s(?:{_STRING}|[^()"'`|{{}}]|{_nested(_LEVELS)})*?)(\s*(?:[|)]|-?\}}\}}))"""
_REMAINING = rf"{_BEFORE}lookup\b"
_NESTED = rf"""{_BEFORE}tpl(\s+)({_STRING}|[$.\w]+|{_nested(_LEVELS)}(?:\.\w+)*)(\s)"""


def _write_evaluated(answers: Answers) -> str:
    answering = _answering(answers).replace("$", "$$")
    nested = write_literal(f'${{1}}tpl${{2}}(include "{_EVALUATED}" ${{3}})${{4}}')
    text = f"(regexReplaceAll {write_literal(_NESTED)} . {nested})"
    for _ in range(_CALLS):
        text = f"(regexReplaceAll {write_literal(_CALLED)} {text} $by)"
    refusal = f'fail "lookup is called in a way that is not supported in what tpl evaluates: at most {_CALLS} times in '
    refusal += f'an action, and with at most {_LEVELS} levels of parentheses"'
    checked = f"{{{{ if regexMatch {write_literal(_REMAINING)} $text }}}}{{{{ {refusal} }}}}{{{{ end }}}}"
    # The answers are written once: Helm reads no large files.
    by = write_literal(f"${{1}}tuple${{2}}{answering}${{3}}")
    replaced = f"{{{{ $by := {by} }}}}{{{{ $text := {text} }}}}{checked}{{{{ $text }}}}"
    return f'{{{{ if regexMatch "lookup|tpl" . }}}}{replaced}{{{{ else }}}}{{{{ . }}}}{{{{ end }}}}'


# the files of a chart


def asks(folder: Path, values: Iterable[bytes]) -> bool:
    """Return whether a chart may call `lookup`: in a template, or in what its templates evaluate with `tpl`.

    Args:
        folder: with the files of the chart and of its dependencies.
        values: the texts of all values.
    """
    templates = [path.read_bytes() for path in find_templates(folder)]
    if any(_WORD.search(text) and find_calls(text) for text in templates):
        return True
    if not any(map(_EVALUATES.search, templates)):
        return False
    texts = (path.read_bytes() for path, _ in list_chart_files(folder) if path.suffix != ".md")
    return any(map(_is_said, values)) or any(map(_is_said, texts))


def _is_said(text: bytes) -> bool:
    is_inside = False
    for found in _BRACES.finditer(text):
        if found[0] == b"lookup" and is_inside:
            return True
        is_inside = found[0] == b"{{" or (is_inside and found[0] != b"}}")
    return False


def describe_unanswered(folder: Path) -> str:
    """Return the warning that a chart in a folder is rendered as if nothing of what it asks for existed."""
    found = ((path.relative_to(folder), find_calls(path.read_bytes())) for path in find_templates(folder))
    places = [f"{path}:{line} ({call})" for path, calls in found for line, call in calls]
    where = some(places) or "what it evaluates with tpl"
    return f"lookup finds nothing in this rendering, and the result may depend on it: {where}"


def rewrite_files(folder: Path, answers: Answers) -> int:
    """Rewrite the templates of a chart in place, and return the bytes of what was written.

    Raises: BundleError (RenderLimitExceeded).
    """
    size, evaluates = 0, False
    for path in find_templates(folder):
        text = path.read_bytes()
        evaluates = evaluates or bool(_EVALUATES.search(text))
        if not (_WORD.search(text) or _EVALUATES.search(text)):
            continue
        written = rewrite(text, answers)
        size += len(written)
        if size > _MOST_BYTES or len(written) > _MOST_BYTES_EACH >= len(text):
            raise _too_large()
        path.write_bytes(written)
    helper = write_helper(answers, evaluates=evaluates).encode("utf-8", "replace")
    if len(helper) > _MOST_BYTES_EACH:
        raise _too_large()
    templates = folder / _FOLDER
    templates.mkdir(exist_ok=True)
    numbers = ("", *map(str, range(len(list(templates.iterdir())) + 1)))
    path = next(each for number in numbers if not (each := templates / _FILE.format(number)).exists())
    path.write_bytes(helper)
    return size + len(helper)


def _too_large() -> BundleError:
    problem = "lookup: the templates are too large with what is found"
    return BundleError(Reason.RENDER_LIMIT_EXCEEDED, f"{problem}; {REMEDY}")


_COLUMN = re.compile(r"(\btemplates/[^\s:]{1,300}:\d{1,9}):\d{1,9}")
_QUOTED_CALL = re.compile(r"(<\(*)(?:tuple\b|dict(?=>))")
_QUOTED_EVALUATED = re.compile(rf'\(include "{_EVALUATED[:8]}[^>]{{0,40}}>')


def restore(said: str) -> str:
    """Return an error of Helm as it would be about the templates that were not rewritten; it names no columns."""
    return _QUOTED_EVALUATED.sub("…>", _QUOTED_CALL.sub(r"\1lookup", _COLUMN.sub(r"\1", said)))


# questions and answers


class UnansweredError(BundleError):
    """A rendering needs an answer that it was not given."""

    def __init__(self, lookup: Lookup) -> None:
        super().__init__(Reason.RENDER_FAILED, f"lookup: no answer for {describe(lookup)}")
        self.lookup = lookup


def describe(lookup: Lookup) -> str:
    """Return how messages name what is looked up: none of its parts is secret, since they are names."""
    kind = f"{lookup.api_version}/{lookup.kind}"
    where = f' in namespace "{lookup.namespace}"' if lookup.namespace else ""
    return f'{kind} "{lookup.name}"{where}' if lookup.name else f"all {kind}{where}"


def find_question(said: str, chart: str) -> Lookup | None:
    """Return what a failed rendering has asked for; None if it failed for another reason.

    Args:
        said: by Helm.
        chart: names the chart, and starts messages.

    Raises: BundleError (RenderFailed) if that is nothing that can be looked up.
    """
    if not (marks := _MARK.findall(said)):
        return None
    try:
        asked = json.loads(base64.b64decode(marks[-1], validate=True))
    except ValueError:
        return None
    if not isinstance(asked, list) or len(asked) != len(Lookup._fields) or not all(isinstance(x, str) for x in asked):
        problem = "lookup needs four texts: apiVersion, kind, namespace and name"
        raise BundleError(Reason.RENDER_FAILED, f"{problem}; correct the template", place=chart)
    for part, value in zip(Lookup._fields, asked, strict=True):
        is_segment = part == "api_version" or "/" not in value
        if not (_PLAIN.fullmatch(value) and is_segment) or value in (".", ".."):
            problem = f"lookup of {quote(value)}, which is no {part.replace('_v', 'V')}"
            raise BundleError(Reason.RENDER_FAILED, f"{problem}; correct the template or its values", place=chart)
    return Lookup(*asked)


def make_answer(found: Mapping[str, Any], lookup: Lookup) -> dict[str, Any]:
    """Return what a chart sees of an object or list: neither what changes by itself, nor what is the controller's."""
    if lookup.name:
        return _without_own(found)
    items = [
        {"apiVersion": lookup.api_version, "kind": lookup.kind, **_without_own(mapping(item))}
        for item in sequence(found, "items")
    ]
    return {**_without_own(found), "items": items}


def _without_own(found: Mapping[str, Any]) -> dict[str, Any]:
    metadata = {
        key: value
        for key, value in mapping(found, "metadata").items()
        if key not in ("resourceVersion", "managedFields")
    }
    annotations = mapping(metadata, "annotations")
    kept = {key: value for key, value in annotations.items() if not key.startswith(f"{names.GROUP}/")}
    if kept != annotations:
        metadata["annotations"] = kept
        if not kept:
            del metadata["annotations"]
    return {**found, "metadata": metadata} if "metadata" in found else dict(found)


def find_secret_values(answers: Answers) -> list[str]:
    """Return the values of the Secrets among answers, as they are written and decoded."""
    asked = (each for each in answers.items() if each[0][:2] == ("v1", "Secret"))
    secrets = (item for lookup, answer in asked for item in ([answer] if lookup.name else mappings(answer, "items")))
    found: list[str] = []
    for value in (str(value) for secret in secrets for value in mapping(secret, "data").values()):
        found.append(value)
        with suppress(ValueError):  # not base64
            found.append(base64.b64decode(value, validate=True).decode(errors="replace"))
    return found
