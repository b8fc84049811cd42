"""`spec.config` of a chart: valid options, and the messages for invalid ones."""

from __future__ import annotations

from typing import Any

import pytest

from rukpak.api.errors import BundleError
from rukpak.controller.formats.helm.values import (
    Configuration,
    find_problems,
    read_configuration,
    scalars_of,
    write_values,
)

KNOWN = "disableHooks, ignoreMissingValuesFiles, includeCRDs, isUpgrade, lookup, releaseName, skipTests, {}".format(
    "values, valuesFiles"
)
NO_PATH = 'must be a path relative to the root of the content, without ".."'
NO_NAME = (
    "spec.config.releaseName: must consist of lower-case letters, digits, dashes and dots, "
    "and start and end with a letter or digit; change it"
)
PROBLEMS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "nothing": ({}, []),
    "everything": (
        {
            "disableHooks": True,
            "ignoreMissingValuesFiles": True,
            "includeCRDs": False,
            "isUpgrade": True,
            "lookup": "Never",
            "releaseName": "web.2-x",
            "skipTests": False,
            "values": {"a": 1},
            "valuesFiles": ["a/b.yaml"],
        },
        [],
    ),
    "null is as if it were not there": (dict.fromkeys(KNOWN.split(", ")), []),
    "an unknown key": ({"value": {}}, [f'spec.config.value: unknown key; the format "helm" has the keys {KNOWN}']),
    "a key that is no word": (
        {"\x1b[2J\x1b]0;pwn\x07": 1},
        [f'spec.config["\\u001b[2J\\u001b]0;pwn\\u0007"]: unknown key; the format "helm" has the keys {KNOWN}'],
    ),
    "values that are a list": (
        {"values": [1]},
        ["spec.config.values: must be a mapping or its YAML text, not a list"],
    ),
    "values that are YAML of a list": ({"values": "- 1"}, ["spec.config.values: must be a mapping, not a list"]),
    "values that are no YAML": (
        {"values": "a: 1\nb: 'x"},
        ["spec.config.values:2: not YAML: while scanning a quoted scalar: found unexpected end of stream"],
    ),
    "values of two documents": (
        {"values": "a: 1\n---\nb: 1"},
        ["spec.config.values: contains more than one document, of which Helm reads only the first; combine them"],
    ),
    "values that are no text": ({"values": "a: \ud800"}, ["spec.config.values:1: not UTF-8; save the file as UTF-8"]),
    "lookups of an unknown kind": ({"lookup": True}, ["spec.config.lookup: must be OnRender or Never"]),
    "files that are no list": (
        {"valuesFiles": "a"},
        ["spec.config.valuesFiles: must be a list of paths, not a string"],
    ),
    "a file that is no text": (
        {"valuesFiles": ["a", 1]},
        ["spec.config.valuesFiles[1]: must be a path, not a number"],
    ),
    **{
        f"the path {name!r}": ({"valuesFiles": [name]}, [f"spec.config.valuesFiles[0]: {NO_PATH}"])
        for name in ("", ".", "/etc/x", "../x", "a/../../x", "a\0b", "a\\b", "x" * 300, "\ud800")
    },
    "a name that is too long": (
        {"releaseName": "x" * 54},
        ["spec.config.releaseName: has 54 characters, but Helm allows 53; change it"],
    ),
    "a name that is none": (
        {"releaseName": "-x"},
        [NO_NAME],
    ),
    "a name with a line after it": (
        {"releaseName": "x\n"},
        [NO_NAME],
    ),
    "a name that is a number": ({"releaseName": 1}, ["spec.config.releaseName: must be a string, not a number"]),
    "all that is wrong": (
        {"includeCRDs": "yes", "isUpgrade": "no", "skipTests": 1, "disableHooks": []},
        [
            "spec.config.disableHooks: must be true or false, not a list",
            "spec.config.includeCRDs: must be true or false, not a string",
            "spec.config.isUpgrade: must be true or false, not a string",
            "spec.config.skipTests: must be true or false, not a number",
        ],
    ),
}


@pytest.mark.parametrize(("config", "expect"), PROBLEMS.values(), ids=PROBLEMS.keys())
def test_problems(config: dict[str, Any], expect: list[str]) -> None:
    assert find_problems(config) == expect


def test_defaults_are_those_of_helm_but_without_tests() -> None:
    assert read_configuration({"values": None}) == Configuration(
        values={},
        values_files=(),
        ignore_missing=False,
        release_name="",
        include_crds=True,
        skip_tests=True,
        disable_hooks=False,
        is_upgrade=False,
    )


def test_the_last_of_equal_keys_in_yaml_text_wins() -> None:
    assert read_configuration({"values": "a: 1\na: {b: no}"}).values == {"a": {"b": False}}


def test_values_are_written_so_that_yaml_reads_the_same() -> None:
    written = write_values({"b": "\x7f\x85\u2028\ufeff😀", "a": [1, None, True, 0.5]})
    assert written == '{"a": [1, null, true, 0.5], "b": "\\u007f\\u0085\\u2028\\ufeff😀"}'.encode()


@pytest.mark.parametrize("value", [float("nan"), "\ud800", {1, 2}], ids=["no number", "no text", "no JSON"])
def test_values_that_cannot_be_written(value: object) -> None:
    with pytest.raises(BundleError, match=r"^InvalidConfig: spec\.config\.values: cannot be written as JSON"):
        write_values({"a": value})


def test_strings_and_numbers_of_values_as_go_shows_them() -> None:
    values = {"a": ["x", 1234567, True, None], "b": {"c": 10**400, "d": 0.5}}
    assert list(scalars_of(values)) == ["x", "1234567", "1.234567e+06", str(10**400), "0.5", "0.5"]
