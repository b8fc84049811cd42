"""YAML and JSON as Kubernetes reads them: documents, keys, and the messages for invalid text."""

from __future__ import annotations

import json
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rukpak.api.errors import BundleError
from rukpak.api.v1alpha2.conditions import Reason
from rukpak.controller.formats.composer import NodeBudget
from rukpak.controller.formats.manifests import Document, read_documents

OVER = Reason.RENDER_LIMIT_EXCEEDED
DATA = Path(__file__).parents[3] / "data" / "yaml"


def read(text: str | bytes, **options: Any) -> list[Any]:
    data = text if isinstance(text, bytes) else text.encode()
    return [document.value for document in read_documents(data, "manifests/x.yaml", **options)]


def refusal(text: str | bytes, reason: Reason = Reason.INVALID_BUNDLE, **options: Any) -> str:
    with pytest.raises(BundleError) as raised:
        read(text, **options)
    assert raised.value.reason is reason
    return raised.value.message


@dataclass(frozen=True)
class Case:
    name: str
    text: str | bytes
    expect: Any


# fmt: off
DOCUMENTS = [
    Case("keys become strings", "on: 1\n1: 2\n1.5: 3\n0x10: 4\n", [{"true": 1, "1": 2, "1.5": 3, "16": 4}]),
    Case("keys in quotes stay as they are", "'on': 1\n'<<': 2\n", [{"on": 1, "<<": 2}]),
    Case("float keys are written as Go writes them", "1e6: 1\n1e3: 2\n", [{"1e+06": 1, "1000": 2}]),
    Case("small and long float keys, too", "0.00001: 1\n1234567.5: 2\n", [{"1e-05": 1, "1.2345675e+06": 2}]),
    Case("float keys are written as float32", "3.14159265358979: 1\n16777217.5: 2\n0.1: 3\n1e39: 4\n1e-50: 5\n",
         [{"3.1415927": 1, "1.6777218e+07": 2, "0.1": 3, ".inf": 4, "0": 5}]),
    Case("a number beyond float64 is a key as it is written", "1e400: 1\n-1e400: 2\n", [{"1e400": 1, "-1e400": 2}]),
    Case("a key with the tag ! is text", "! yes: 1\n! 0x10: 2\n", [{"yes": 1, "0x10": 2}]),
    Case("the tag !!merge merges, as yq writes it", "a: &x {b: 1}\nc:\n  !!merge <<: *x\n  d: 2\n",
         [{"a": {"b": 1}, "c": {"b": 1, "d": 2}}]),
    Case("the tag !!merge merges in quotes, too", "c: {!!merge '<<': {b: 1}}\n", [{"c": {"b": 1}}]),
    Case("another tag makes << a key", "c: {!!str <<: {b: 1}}\n", [{"c": {"<<": {"b": 1}}}]),
    Case("a scalar in a list may end in a colon", "a: [sh, -c, echo a:]\nb: [x:, y:z:, k: v]\n",
         [{"a": ["sh", "-c", "echo a:"], "b": ["x:", "y:z:", {"k": "v"}]}]),
    Case("a scalar in a mapping may end in a colon", "a: {b: c:, d:, e: [é:]}\n",
         [{"a": {"b": "c:", "d:": None, "e": ["é:"]}}]),
    Case("a scalar that continues may end in a colon", "a: [one\n  two:, three]\n", [{"a": ["one two:", "three"]}]),
    Case("a colon after an alias or a quote ends a key", "a: &x b\nb: [*x:, 'c':]\nd: {'e':[f:], \"g\":{h: i:}}\n",
         [{"a": "b", "b": [{"b": None}, {"c": None}], "d": {"e": ["f:"], "g": {"h": "i:"}}}]),
    Case("a colon before a bracket stays in other text", "a: 'b:]'\nc: d:]\ne: |\n  f:,\ng: [h:] # i:]\n",
         [{"a": "b:]", "c": "d:]", "e": "f:,\n", "g": ["h:"]}]),
    Case("characters of the private use area are kept", 'a: "\ue000\\ue001"\nb: [c:, \ue002]\n',
         [{"a": "\ue000\ue001", "b": ["c:", "\ue002"]}]),
    Case("UTF-16 with a byte order mark is read", "\ufeffa: é\n---\nb: 😀\n".encode("utf-16-be"),
         [{"a": "é"}, {"b": "😀"}]),
    Case("UTF-16 as Windows writes it is read", "\ufeffa: |\r\n  b".encode("utf-16-le"), [{"a": "b\n"}]),
    Case("infinity can be a key", ".inf: 1\n-.inf: 2\n.nan: 3\n", [{".inf": 1, "-.inf": 2, ".nan": 3}]),
    Case("an alias can be a key", "a: &x 1\n*x : 2\n", [{"a": 1, "1": 2}]),
    Case("a merge stands before an explicit key", "a: &x {b: 1}\nc: {<<: *x, b: 2}\n",
         [{"a": {"b": 1}, "c": {"b": 2}}]),
    Case("a merge after an explicit key overrides it", "a: &x {b: 1}\nc: {b: 2, <<: *x}\n",
         [{"a": {"b": 1}, "c": {"b": 1}}]),
    Case("of a list of merges the first wins", "c: {<<: [{b: 1}, {b: 2, d: 3}]}\n", [{"c": {"b": 1, "d": 3}}]),
    Case("an alias repeats a list", "a: &x [1, {b: 2}]\nc: *x\n", [{"a": [1, {"b": 2}], "c": [1, {"b": 2}]}]),
    Case("an anchor may be set again", "a: &x 1\nb: &x 2\nc: *x\n", [{"a": 1, "b": 2, "c": 2}]),
    Case("empty documents are skipped", "---\n---\n# c\n---\na: 1\n---\n", [{"a": 1}]),
    Case("documents of null are skipped", "null\n---\n~\n---\na: 1\n", [{"a": 1}]),
    Case("a file of comments holds nothing", "# only a comment\n", []),
    Case("an empty file holds nothing", "", []),
    Case("a comment may follow the separator", "a: 1\n--- # c\nb: 2\n", [{"a": 1}, {"b": 2}]),
    Case("blanks may follow the separator", "a: 1\n---  \t\nb: 2\n", [{"a": 1}, {"b": 2}]),
    Case("lines may end as on Windows", "---\r\na: 1\r\nb: |\r\n  x\r\n  y\r\n---\r\nc: 2\r\n",
         [{"a": 1, "b": "x\ny\n"}, {"c": 2}]),
    Case("a byte order mark is skipped", b"\xef\xbb\xbfa: 1\n", [{"a": 1}]),
    Case("a byte order mark before JSON is skipped", b'\xef\xbb\xbf{"a": 1}', [{"a": 1}]),
    Case("U+0085 is a line break", "a: x\u0085b: z\n", [{"a": "x", "b": "z"}]),
    Case("characters beyond the BMP are read", "a: 😀\n", [{"a": "😀"}]),
    Case("a block scalar may end with the file", "a: |\n  x", [{"a": "x\n"}]),
    Case("no line is added to one that ends", "a: |+\n  x\n", [{"a": "x\n"}]),
    Case("a comment may touch the separator", "a: 1\n---# c\nb: 2\n---###\n", [{"a": 1}, {"b": 2}]),
    Case("each document may begin with a byte order mark", "\ufeffa: 1\n---\n\ufeffb: 2\n--- # c\r\n\ufeffc: 3\n",
         [{"a": 1}, {"b": 2}, {"c": 3}]),
    Case("a document may end with dots", "a: 1\n...\n---\nb: 2\n", [{"a": 1}, {"b": 2}]),
    Case("JSON is read as JSON, surrogate pairs included", r'{"v": "\ud83d\ude00"}', [{"v": "😀"}]),
    Case("half a surrogate pair becomes U+FFFD", r'{"\ud83dk": ["\ude00", 1]}', [{"\ufffdk": ["\ufffd", 1]}]),
    Case("JSON values may follow one another", '{"a":1}\n{"b":2} {"c":3}', [{"a": 1}, {"b": 2}, {"c": 3}]),
    Case("JSON documents may be separated as in YAML", '{"a":1}\n---\n{"b":2}\n--- # c\n', [{"a": 1}, {"b": 2}]),
    Case("JSON floats become integers where Go makes them so", '{"a": 1.0, "b": [1e2, 1.5]}',
         [{"a": 1, "b": [100, 1.5]}]),
    Case("JSON integers beyond 64 bits become floats", '{"a": 123456789012345678901234567890}',
         [{"a": 1.2345678901234568e29}]),
    Case("what begins like JSON may be YAML", "{a: b, c: [1, 2,]}\n", [{"a": "b", "c": [1, 2]}]),
    Case("JSON and then YAML is YAML", '{"a": 1}\n---\nb: 2\n', [{"a": 1}, {"b": 2}]),
]
# fmt: on


@pytest.mark.parametrize("case", DOCUMENTS, ids=attrgetter("name"))
def test_documents(case: Case) -> None:
    assert read(case.text) == case.expect


def test_aliases_are_copied() -> None:
    (document,) = read("a: &x {b: [1]}\nc: *x\nd: {<<: *x}\n")
    places = [document["a"], document["c"], document["d"]]
    assert len({id(place) for place in places}) == len({id(place["b"]) for place in places}) == 3


def test_the_line_of_a_document_is_that_of_its_first_value() -> None:
    data = b"# c\n\na: 1\n---\n\n# c\nb: 2\n"
    assert list(read_documents(data, "f")) == [Document({"a": 1}, "f", 3), Document({"b": 2}, "f", 7)]


def test_the_line_of_a_json_document_is_that_of_its_first_value() -> None:
    assert [document.line for document in read_documents(b'\n{"a":\n1}\n\n{"b":2} {"c":3}', "f")] == [2, 5, 5]


BOMB = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{name}: &{name} [{','.join([f'*{previous}'] * 9)}]\n"
    for previous, name in zip("abcdefgh", "bcdefghi", strict=True)
)
DEEP_ALIASES = "".join(f"a{i}: &a{i} {'[' * 99}{f'*a{i - 1}' if i else 1}{']' * 99}\n" for i in range(4))
# fmt: off
REFUSED = [
    Case("a duplicate key", "a: 1\nb:\n  c: 1\n  c: 2\n", '4: duplicate key "c"; remove one'),
    Case("a duplicate key after a merge", "a: {<<: {b: 1}, b: 2, b: 3}\n", '1: duplicate key "b"; remove one'),
    Case("keys that become equal", "1: a\n'1': b\n", '2: duplicate key "1"; remove one'),
    Case("a duplicate key in JSON", '\n{"a":1,"a":2}', '2: duplicate key "a"; remove one'),
    Case("infinity", "a: 1\nv: .inf\n", "2: JSON has neither infinity nor NaN; put it in quotes"),
    Case("NaN", "v: -.NaN\nw: .NaN\n", "2: JSON has neither infinity nor NaN; put it in quotes"),
    Case("NaN in JSON", '{"a": NaN}', '1: JSON has no "NaN"; put it in quotes'),
    Case("a JSON number beyond float64", '{"a": 1e400}', "1: number does not fit a float64; put it in quotes"),
    Case("a null key", "~: 1\n", "1: null cannot be a key; put the key in quotes"),
    Case("a list as a key", "? [a]\n: b\n", "1: a list cannot be a key; put the key in quotes"),
    Case("a mapping as a key", "? {a: b}\n: b\n",
         "1: a mapping cannot be a key; put the key in quotes, or publish the rendered output of the template"),
    Case("a line of a template", "a: 1\n{{- if .Values.b }}\nb: 2\n",
         "3: not YAML: while scanning a simple key: could not find expected ':';"
         " publish the rendered output of the template"),
    Case("a value that is not of its tag", "v: !!int x\n", '1: value does not match the tag "!!int"; correct it'),
    Case("a boolean where the tag says integer", "v: !!int yes\n",
         '1: value does not match the tag "!!int"; correct it'),
    Case("binary that is not base64", "v: !!binary é\n",
         '1: value of the tag "!!binary" must be base64 of UTF-8 text'),
    Case("a merge of a scalar", "c: {<<: 1}\n", '1: the value of "<<" must be a mapping or a list of mappings'),
    Case("an alias of nothing", "b: 1\na: *nope\n", '2: no complete anchor before the alias "*nope"; define it first'),
    Case("an alias within its own anchor", "v: &x [*x]\n",
         '1: no complete anchor before the alias "*x"; define it first'),
    Case("an alias of another document", "v: &x 1\n---\nv: *x\n",
         '3: no complete anchor before the alias "*x"; define it first'),
    Case("an alias bomb", BOMB, "5: aliases repeat more than 10 times the document's content"),
    Case("nesting by aliases", DEEP_ALIASES, "3: nested more than 200 levels deep"),
    Case("nesting of 201 lists", "[" * 201 + "]" * 201, "1: nested more than 200 levels deep"),
    Case("nesting in JSON", '{"a":' * 201 + "1" + "}" * 201, "1: nested more than 200 levels deep"),
    Case("nesting beyond any parser", "{" * 99_999, "1: nested more than 200 levels deep"),
    Case("nesting beyond any parser, below others", f"a: 1\nb:\n- {'[' * 1500}{']' * 1500}\n",
         "3: nested more than 200 levels deep"),
    Case("nesting beyond any parser, below a line of a template", "a: '{{ x }}'\nb: " + "[" * 1500,
         "2: nested more than 200 levels deep"),
    Case("nesting of 1500 blocks", "- " * 1500 + "a\n", "1: nested more than 200 levels deep"),
    Case("a document on the line of its separator", "a: 1\n--- {b: 1}\n",
         '2: only a comment may follow "---"; start the document on the next line'),
    Case("text that touches a separator", "a: 1\n---abc\n",
         '2: only a comment may follow "---"; start the document on the next line'),
    Case("a directive", "%YAML 1.1\n---\na: 1\n",
         '1: directives are not supported; remove the line that starts with "%"'),
    Case("text after the end of a document", "a: 1\n...\nb: 2\n",
         "3: not YAML: did not find expected <document start>"),
    Case("a list that does not end", "a: [\n",
         "2: not YAML: while parsing a flow node: did not find expected node content"),
    Case("two colons in a line", "x: 1\na: b: c\n", "2: not YAML: mapping values are not allowed in this context"),
    Case(
        "a tab as indentation",
        "a:\n\tb: 1\n",
        "2: not YAML: while scanning for the next token: found character that cannot start any token; "
        "indent with spaces instead of tabs",
    ),
    Case("a key beyond int64", "a: 1\n18446744073709551615: 1\n",
         "2: an integer beyond 64 bits cannot be a key; put the key in quotes"),
    Case("a colon that cannot be read as text", "a:\n- [echo 'a':]\n",
         '2: not YAML: value in [] or {} has ":" before ",", "?" or a bracket; put it in quotes'),
    Case("half of a character of UTF-16", b"\xfe\xff\x00a\x00:\x00",
         "1: not UTF-16, although its byte order mark says so; save the file as UTF-8"),
    Case("a control character", "a: 1\nb: x\x01\n", "2: control characters are not allowed; remove the characters"),
    Case("text that is not UTF-8", b"a: 1\nv: \xff\n", "2: not UTF-8; save the file as UTF-8"),
]
# fmt: on


@pytest.mark.parametrize("case", REFUSED, ids=attrgetter("name"))
def test_refused(case: Case) -> None:
    assert refusal(case.text) == f"manifests/x.yaml:{case.expect}"


LENIENT = [
    Case("the last of duplicate keys wins", "a: 1\na: 2\n", [{"a": 2}]),
    Case("the last of duplicate JSON keys wins", '{"a":1,"a":2}', [{"a": 2}]),
    Case("a document may stand on the line of its separator", "--- {a: 1}\n--- !!map\nb: 2\n", [{"a": 1}, {"b": 2}]),
    Case("a directive is obeyed", "%YAML 1.1\n---\na: 1\n", [{"a": 1}]),
]


@pytest.mark.parametrize("case", LENIENT, ids=attrgetter("name"))
def test_not_strict(case: Case) -> None:
    assert read(case.text, strict=False) == case.expect


def test_200_levels_are_read() -> None:
    assert read("[" * 200 + "]" * 200) == [json.loads("[" * 200 + "]" * 200)]
    assert read('{"a":' * 200 + "1" + "}" * 200) == [json.loads('{"a":' * 200 + "1" + "}" * 200)]


def test_a_small_document_may_repeat_a_block_often() -> None:
    text = "a: &a {b: [1, 2, 3, 4, 5, 6]}\nc: [" + ", ".join(["*a"] * 200) + "]\n"
    assert len(read(text)[0]["c"]) == 200


@pytest.mark.parametrize("text", ["[1, 2, 3, 4]\n", "a: 1\n---\n- b\n- c\n", '{"a": [1, 2, 3]}', "a: &x [1]\nb: *x\n"])
def test_the_budget_of_nodes_ends(text: str) -> None:
    assert refusal(text, OVER, budget=NodeBudget(4)).endswith("more than 4 values; split the bundle")


def test_files_of_a_bundle_share_a_budget() -> None:
    budget = NodeBudget(5)
    assert read("[1, 2]\n", budget=budget)
    assert "split the bundle" in refusal("[1, 2]\n", OVER, budget=budget)


def test_commas_in_strings_do_not_count_as_values() -> None:
    text = '{"a": "' + "\\\\[{," * 100 + '"}'
    assert read(text, budget=NodeBudget(3)) == [json.loads(text)]


BOMBS = {
    "many small values": "[" + "{}," * 20_000 + "{}]",
    "of JSON": '{"a":[' + "{}," * 20_000 + "{}]}",
    "deep ones, which need no commas": '{"a":[' + ",".join(["[" * 150 + "]" * 150] * 100) + "]}",
    "by aliases": "a: &a [" + "1," * 900 + "1]\nb: [" + "*a," * 9 + "*a]\n",
}


@pytest.mark.parametrize("bomb", BOMBS)
def test_a_bomb_of_values_is_refused_with_what_to_do(bomb: str) -> None:
    assert refusal(BOMBS[bomb], OVER, budget=NodeBudget(9_000)).endswith("more than 9,000 values; split the bundle")


def test_a_long_text_is_not_repeated_by_aliases_until_memory_is_full() -> None:
    text = f"a: &a {'x' * 100_000}\nb: [{'*a, ' * 9_000}*a]\n"  # 900 MB, once it is written as JSON
    assert "aliases repeat too much text" in refusal(text, OVER)
    nested = f"a: &a {{k: &b {'x' * 100_000}, l: *b}}\nb: [{'*a, ' * 300}*a]\n"
    assert "aliases repeat too much text" in refusal(nested, OVER)


def test_a_duplicate_key_is_found_among_many() -> None:
    text = '{"a":{' + "".join(f'"k{index}":1,' for index in range(100_000)) + '"k7":1}}'
    assert 'duplicate key "k7"' in refusal(text)


NUMBERS = ["9" * 5000, "-" + "9" * 5000, "1e999", "-1e999", "1.5e400"]


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("shape", ['{"a": %s}', "a: %s\n"], ids=["JSON", "YAML"])
def test_a_number_beyond_all_is_a_condition_or_text(number: str, shape: str) -> None:
    try:
        [value] = read(shape % number)
    except BundleError as error:
        assert error.message.startswith("manifests/x.yaml:1: number does not fit a float64")
    else:
        assert isinstance(value["a"], str)  # as sigs.k8s.io/yaml has it


@pytest.mark.parametrize("word", ["NaN", "Infinity", "-Infinity"])
def test_text_that_is_not_a_number_is_a_string(word: str) -> None:
    assert "put it in quotes" in refusal(f'{{"a": {word}}}')


def test_a_message_never_shows_a_value() -> None:
    assert "hunter2" not in refusal("password: !!int hunter2\n")
    assert "hunter2" not in refusal('password: "hunter2\n')


@pytest.mark.parametrize("path", sorted(DATA.glob("*.yaml")), ids=attrgetter("stem"))
def test_files_are_read_as_kubectl_reads_them(path: Path) -> None:
    expected = json.loads(path.with_suffix(".json").read_text())
    assert read(path.read_bytes()) == expected


INDICATORS = [
    *"[]{},&*!|>'\"#%~?1\n\t\r\x00\x85\ufeff ",
    "b: ",
    "- ",
    ": ",
    "\n  ",
    "\n- ",
    "\n---\n",
    "--- ",
    "...",
    "}",
]
WORDS = [
    "a",
    "&a ",
    "*a ",
    "<<: ",
    "!!int ",
    "!!binary ",
    "0x",
    ".inf",
    "1e9",
    "yes",
    "\\u",
    "\\ud83d",
    '{"a": ',
    '"x"',
]
SNIPPETS = st.sampled_from([*INDICATORS, *WORDS])


def read_or_refuse(data: bytes, *, strict: bool) -> list[Any]:
    """Return the documents; none if they are refused with InvalidBundle."""
    try:
        return [document.value for document in read_documents(data, "f", strict=strict, budget=NodeBudget(5_000))]
    except BundleError as error:
        return [] if (error.reason, error.message[:2]) == (Reason.INVALID_BUNDLE, "f:") else [error]


@given(st.lists(SNIPPETS, max_size=60).map("".join) | st.text(), st.booleans())
def test_any_text_is_read_as_json_values_or_refused(text: str, strict: bool) -> None:
    values = read_or_refuse(text.encode("utf-8", "surrogatepass"), strict=strict)
    assert json.loads(json.dumps(values, allow_nan=False)) == values


@given(st.binary(), st.booleans())
def test_any_bytes_are_read_as_json_values_or_refused(data: bytes, strict: bool) -> None:
    values = read_or_refuse(data, strict=strict)
    assert json.loads(json.dumps(values, allow_nan=False)) == values


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(1 << 63), 1 << 63) | st.text(),
    lambda children: st.lists(children, max_size=4) | st.dictionaries(st.text(), children, max_size=4),
    max_leaves=20,
)


@given(st.dictionaries(st.text(), JSON, max_size=4))
def test_json_is_read_as_it_was_written(value: Any) -> None:
    assert read(json.dumps(value)) == [value]


@pytest.mark.parametrize(
    "text", ['{"kind": "ConfigMap"}', "kind: ConfigMap", 'kind: "ConfigMap"'], ids=["JSON", "plain", "quoted"]
)
def test_files_of_a_bundle_share_their_words(text: str) -> None:
    budget = NodeBudget()
    first, second = (next(iter(read(text, budget=budget)[0].items())) for _ in range(2))
    assert (first[0] is second[0], first[1] is second[1]) == (True, True)


def test_only_so_many_short_words_are_kept_to_be_shared() -> None:
    budget = NodeBudget()
    long, many = "x" * 100, [f"word-{number}" for number in range(5000)]
    first = read(json.dumps({"a": long, "b": {word: word for word in many}}), budget=budget)[0]
    second = read(json.dumps({"a": long, "b": {word: word for word in many}}), budget=budget)[0]
    assert first == second
    assert first["a"] is not second["a"]
    assert 0 < sum(first["b"][word] is second["b"][word] for word in many) < len(many)
