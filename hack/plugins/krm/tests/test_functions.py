"""What the processor makes of functions: programs of a few lines, most of which do something that they must not."""

from __future__ import annotations

import base64
import json
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from hashlib import sha256
from pathlib import Path
from threading import Event
from typing import Any, TypeAlias

import pytest
from rukpak.plugins import (
    MEBIBYTE,
    BundleError,
    Capabilities,
    LargeTextError,
    Limits,
    Means,
    ProcessRequest,
    Reason,
    Rendering,
    RunsProgram,
)
from rukpak_krm_functions import FOLDERS, KRMProcessor

PATH = "spec.processors[0].parameters"
PLACE = f"{PATH}.functions[0]"
DIGEST = f"sha256:{'0' * 64}"
SETTINGS = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": {"color": "blue"}}
SECRET = {
    "apiVersion": "v1",
    "kind": "Secret",
    "metadata": {"name": "keys"},
    "data": {"key": base64.b64encode(b"hunter22\nsecond line").decode()},
}
NOTHING = """cat > /dev/null; echo '{"apiVersion": "config.kubernetes.io/v1", "kind": "ResourceList", "items": []}'"""
Object: TypeAlias = dict[str, Any]
Install: TypeAlias = Callable[[str, str], Object]


@pytest.fixture
def functions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the administrator."""
    folder = tmp_path / "functions"
    folder.mkdir()
    monkeypatch.setenv(FOLDERS, str(folder))
    return folder


@pytest.fixture
def install(functions: Path) -> Install:
    """Installs a shell script as a function, and returns the parameters that name it."""

    def install(name: str, script: str) -> Object:
        text = script if script.startswith("#!") else f"#!/bin/sh\n{script}\n"
        (functions / name).write_text(text)
        return {"exec": name, "digest": f"sha256:{sha256(text.encode()).hexdigest()}"}

    return install


def request(
    tmp_path: Path, *functions: Object, objects: Sequence[Object] = (SETTINGS,), secrets: Sequence[str] = (),
    charge: Callable[[int, int], None] = lambda _text_bytes, _steps: None, **means: Any,
) -> ProcessRequest:  # fmt: skip
    scratch = tmp_path / "scratch"
    scratch.mkdir(exist_ok=True)
    return ProcessRequest(
        name="a", install_namespace="b", parameters={"functions": list(functions)}, path=PATH,
        rendering=Rendering(objects=objects, warnings=("earlier",), secrets=secrets),
        capabilities=Capabilities(kubernetes_version="v1.36.0"), charge=charge,
        means=Means(**{"scratch": scratch, "seconds": 20.0, **means}),
    )  # fmt: skip


def run(asked: ProcessRequest) -> Rendering:
    """Run functions, and assert that nothing is left of them."""
    try:
        return KRMProcessor().process(asked)
    finally:
        assert asked.means.scratch is not None
        assert list(asked.means.scratch.iterdir()) == []


def failure(asked: ProcessRequest) -> tuple[Reason, str]:
    with pytest.raises(BundleError) as raised:
        run(asked)
    return raised.value.reason, raised.value.message


def printing(items: Any = (), **more: Any) -> str:
    """Return a script that prints a list."""
    made = json.dumps({"apiVersion": "config.kubernetes.io/v1", "kind": "ResourceList", "items": items, **more})
    return f"cat > /dev/null; cat <<'END'\n{made}\nEND"


# parameters

VALID = [
    {"exec": "set-labels", "digest": DIGEST},
    {"exec": "set-labels", "digest": DIGEST, "configMap": {"team": "web"}},
    {"exec": "a_b.v1", "digest": DIGEST, "config": {"apiVersion": "a/v1", "kind": "B", "spec": {"c": [1]}}},
]


@pytest.mark.parametrize("function", VALID, ids=["without a config", "with data", "with an object"])
def test_parameters_are_valid(function: Object) -> None:
    assert KRMProcessor().validate({"functions": [function]}, PATH) == []


NAME = "must be the name of a file, without a folder, of letters, digits, - _ and ."
INVALID = [
    ("a folder in the name", {"exec": "bin/sh", "digest": DIGEST}, f"{PLACE}.exec: {NAME}"),
    ("a name of a hidden file", {"exec": "..", "digest": DIGEST}, f"{PLACE}.exec: {NAME}"),
    (
        "no digest",
        {"exec": "a"},
        f"{PLACE}.digest: must be sha256: and 64 hexadecimal digits, as sha256sum prints them",
    ),
    (
        "both kinds of config",
        {"exec": "a", "digest": DIGEST, "configMap": {}, "config": {"apiVersion": "v1", "kind": "A"}},
        f"{PLACE}: set config or configMap, not both",
    ),
    (
        "a config that is no object",
        {"exec": "a", "digest": DIGEST, "config": {"kind": "A"}},
        f"{PLACE}.config: must be an object with apiVersion and kind",
    ),
    (
        "a config with a number as its kind",
        {"exec": "a", "digest": DIGEST, "config": {"apiVersion": "v1", "kind": 1}},
        f"{PLACE}.config.kind: must be a string",
    ),
    (
        "data that are no strings",
        {"exec": "a", "digest": DIGEST, "configMap": {"replicas": 1}},
        f"{PLACE}.configMap.replicas: must be a string; put it in quotes",
    ),
    ("data that are no mapping", {"exec": "a", "digest": DIGEST, "configMap": []}, f"{PLACE}.configMap: must be a"),
    ("an image", {"exec": "a", "digest": DIGEST, "image": "b"}, f"{PLACE}.image: unknown field; there are config, "),
    ("a name instead of a function", "a", f"{PLACE}: must be a mapping with exec and digest"),
]


@pytest.mark.parametrize(("name", "function", "problem"), INVALID, ids=[name for name, *_ in INVALID])
def test_parameters_are_refused(name: str, function: Any, problem: str) -> None:
    [found] = KRMProcessor().validate({"functions": [function]}, PATH)
    assert found.startswith(problem)


@pytest.mark.parametrize("functions", [None, [], {}, "a", [VALID[0]] * 9], ids=["none", "no", "mapping", "text", "9"])
def test_there_are_one_to_eight_functions(functions: Any) -> None:
    problems = KRMProcessor().validate({"functions": functions, "other": 1}, PATH)
    assert problems == [
        f"{PATH}.other: unknown field; there are functions",
        f"{PATH}.functions: must be a list of 1 to 8 functions",
    ]


# what a function is given, and what becomes of what it prints


def test_an_object_that_a_function_does_not_change_stays_as_it_is(tmp_path: Path, install: Install) -> None:
    odd = {**SETTINGS, "data": {"text": "a\u2028b\x85\x7f\n  c: é 😀 # d", "word": "null", "day": "2020-01-01"}}
    objects = [odd, {**SECRET, "metadata": {"name": "keys", "annotations": {"kept": "yes"}}}]
    made = run(request(tmp_path, install("same", "cat"), objects=objects))
    assert made == Rendering(objects=objects, warnings=["earlier"])


def test_a_function_gets_a_list_with_its_config(tmp_path: Path, install: Install) -> None:
    script = 'text=$(base64 -w0); echo "{kind: ResourceList, apiVersion: config.kubernetes.io/v1, items: [{kind: A,'
    function = install("tell", f'{script} apiVersion: v1, metadata: {{name: a}}, spec: $text}}]}}"')
    [told] = run(request(tmp_path, {**function, "configMap": {"team": "web"}})).objects
    assert json.loads(base64.b64decode(told["spec"])) == {
        "apiVersion": "config.kubernetes.io/v1",
        "kind": "ResourceList",
        "items": [
            {
                **SETTINGS,
                "metadata": {
                    "name": "settings",
                    "annotations": {
                        "internal.config.kubernetes.io/path": "objects.yaml",
                        "internal.config.kubernetes.io/index": "0",
                    },
                },
            }
        ],
        "functionConfig": {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "function-input"},
            "data": {"team": "web"},
        },
    }


def test_functions_run_one_after_the_other(tmp_path: Path, install: Install) -> None:
    functions = [install("red", "sed s/blue/red/"), install("green", "sed s/red/green/")]
    [made] = run(request(tmp_path, *functions)).objects
    assert made["data"] == {"color": "green"}


def test_objects_are_added_and_deleted_and_keep_their_order(tmp_path: Path, install: Install) -> None:
    made = [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}} for name in "cab"]
    assert run(request(tmp_path, install("make", printing(made)))).objects == made
    assert run(request(tmp_path, install("delete", printing()))).objects == []


def test_annotations_for_functions_do_not_reach_the_cluster(tmp_path: Path, install: Install) -> None:
    notes = {"config.kubernetes.io/index": "0", "internal.config.kubernetes.io/id": "1", "config.k8s.io/id": "1"}
    kept = {"config.kubernetes.io/local-config": "true"}
    items = [{**SETTINGS, "metadata": {"name": "settings", "annotations": {**notes, **kept}}}]
    [made] = run(request(tmp_path, install("notes", printing(items)))).objects
    assert made["metadata"] == {"name": "settings", "annotations": kept}


@pytest.mark.skipif(not Path("/usr/bin/python3").exists(), reason="no Python in a folder that functions may read")
def test_a_function_may_be_written_in_python(tmp_path: Path, install: Install) -> None:
    script = """#!/usr/bin/python3
import json, sys
made = json.load(sys.stdin)
for item in made["items"]:
    item["metadata"].setdefault("labels", {}).update(made["functionConfig"]["data"])
json.dump(made, sys.stdout)
"""
    [made] = run(request(tmp_path, {**install("label", script), "configMap": {"team": "web"}})).objects
    assert made["metadata"] == {"name": "settings", "labels": {"team": "web"}}


def test_equal_requests_give_equal_renderings(tmp_path: Path, install: Install) -> None:
    asked = request(tmp_path, install("red", "sed s/blue/red/"))
    assert run(asked) == run(asked)


# results

RESOURCE = {"apiVersion": "v1", "kind": "ConfigMap", "name": "settings", "namespace": "b"}
RESULT = {"message": "must be\n red", "severity": "error", "resourceRef": RESOURCE, "field": {"path": "data.color"}}
SAID = "ConfigMap b/settings: data.color: must be red"


@pytest.mark.parametrize("status", [0, 1], ids=["that ends well", "that fails"])
def test_an_error_of_a_function_is_the_message(status: int, tmp_path: Path, install: Install) -> None:
    script = printing([SETTINGS], results=[{"message": "fine"}, RESULT, RESULT])
    asked = request(tmp_path, install("check", f"{script}\necho more >&2; exit {status}"))
    assert failure(asked) == (Reason.PROCESSOR_FAILED, f'{PLACE}: "check": {SAID} (and 1 more)')


def test_other_results_are_warnings(tmp_path: Path, install: Install) -> None:
    results = [{**RESULT, "severity": "warning"}, {"message": "all was checked", "severity": "info"}, {"message": "x"}]
    made = run(request(tmp_path, install("check", printing([SETTINGS], results=results))))
    said = [f'{PLACE}: "check": {text}' for text in (SAID, "all was checked", "x")]
    assert list(made.warnings) == ["earlier", *said]


def test_results_in_the_older_form_are_read(tmp_path: Path, install: Install) -> None:
    """Of functions that were built with kyaml before 0.11: an object with items."""
    about = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "a", "name": "settings"}}
    item = {"message": "must be blue", "severity": "warning", "resourceRef": about, "field": {"path": "data.color"}}
    script = printing([SETTINGS], results={"name": "check", "items": [item]})
    _, said = run(request(tmp_path, install("check", script))).warnings
    assert said.endswith('"check": ConfigMap a/settings: data.color: must be blue')
    refused = printing([SETTINGS], results={"name": "check", "items": [{**item, "severity": "error"}]})
    with pytest.raises(BundleError, match=r"ConfigMap a/settings: data\.color: must be blue"):
        run(request(tmp_path, install("refuse", refused)))


def test_many_results_are_counted(tmp_path: Path, install: Install) -> None:
    script = printing([SETTINGS], results=[{"message": f"m{number}"} for number in range(1000)])
    warnings = run(request(tmp_path, install("check", script))).warnings
    assert (len(warnings), warnings[-1]) == (22, f"{PLACE}: 980 more results")


def test_results_without_number_beside_many_secrets_take_no_time(tmp_path: Path, install: Install) -> None:
    secrets = [{**SECRET, "metadata": {"name": f"keys-{number}"}} for number in range(2000)]
    script = (
        "cat > /dev/null; printf '{apiVersion: config.kubernetes.io/v1, kind: ResourceList, items: [], results: ['; \
yes '{message: m},' | head -n 50000; echo ']}'"
    )
    begun = time.monotonic()
    warnings = run(request(tmp_path, install("check", script), objects=secrets)).warnings
    assert warnings[-1] == f"{PLACE}: 49980 more results"
    assert time.monotonic() - begun < 20


SECRET_TEXTS = ["password hunter22 is short", "x second line", base64.b64encode(b"hunter22\nsecond line").decode()]


@pytest.mark.parametrize("message", SECRET_TEXTS, ids=["a value", "a line of it", "as it is encoded"])
def test_a_value_of_a_secret_is_not_shown(message: str, tmp_path: Path, install: Install) -> None:
    script = printing([SECRET], results=[{"message": message, "severity": "error"}])
    expected = f'{PLACE}: "check": a message that is not shown, because it contains a value of a Secret'
    assert failure(request(tmp_path, install("check", script), objects=[SECRET]))[1] == expected


def test_what_was_decrypted_is_not_shown(tmp_path: Path, install: Install) -> None:
    script = printing([], results=[{"message": "found hunter22"}])
    made = run(request(tmp_path, install("check", script), secrets=["hunter22"]))
    assert list(made.warnings)[1].endswith("because it contains a value of a Secret")
    assert made.secrets == ["hunter22"]


def test_the_start_of_a_long_secret_is_not_shown(tmp_path: Path, install: Install) -> None:
    long = "".join(chr(ord("a") + number % 26) for number in range(5000))
    script = printing([], results=[{"message": "m" * 290 + long}])
    made = run(request(tmp_path, install("check", script), secrets=[long]))
    assert "abcdefgh" not in str(made.warnings)


def test_other_messages_are_shown_beside_secrets(tmp_path: Path, install: Install) -> None:
    script = printing([SECRET], results=[{"message": "Secret keys needs a label"}])
    made = run(request(tmp_path, install("check", script), objects=[SECRET]))
    assert made.warnings[1] == f'{PLACE}: "check": Secret keys needs a label'


# failures

TRACEBACK = "Traceback (most recent call last):\\n  File x\\nValueError: bad team"
INTERPRETER = "a function is a single file for this machine, whose interpreter is installed with the system"
FAILING = [
    ("one that says why", "echo; echo 'no team' >&2; echo more >&2; exit 3", "failed with status 3: no team"),
    ("one that says nothing", "exit 3", "failed with status 3 without a message"),
    ("a program in Python", f"printf '{TRACEBACK}' >&2; exit 1", "failed with status 1: ValueError: bad team"),
    ("one that says where it is", 'echo "$0: no" >&2; exit 1', "failed with status 1: fails: no"),
    ("one that crashes", "kill -SEGV $$", "crashed (SIGSEGV); report it to its author"),
    (
        "one without its interpreter",
        "#!/nonexistent/python\n",
        f"cannot be started, or failed with status 127: {INTERPRETER}",
    ),
    (
        "one that prints nothing",
        "cat > /dev/null",
        "printed no ResourceList, or more than that; it must print one, and everything else to stderr",
    ),
    (
        "one that prints its log",
        f"echo '# hello'; echo '---\\na: b\\n---'; {NOTHING}",
        "printed no ResourceList, or more than that; it must print one, and everything else to stderr",
    ),
    (
        "one that prints no YAML",
        "cat > /dev/null; echo 'a: ['",
        "printed no YAML or JSON: output:2: not YAML: while parsing a flow node: did not find expected node content",
    ),
    (
        "one that prints a key twice",
        "cat > /dev/null; echo 'kind: ResourceList'; echo 'kind: ResourceList'",
        'printed no YAML or JSON: output:2: duplicate key "kind"; remove one',
    ),
    (
        "one that prints the list of something else",
        "sed s/config.kubernetes.io.v1/example.com~v1/",
        "printed a ResourceList of another version than config.kubernetes.io/v1",
    ),
    (
        "one that prints no items",
        printing(None),
        "printed no items; to delete all objects, it must print an empty list",
    ),
    (
        "one that prints something that is no object",
        printing([SETTINGS, {"kind": "A", "apiVersion": "v1"}]),
        "printed an invalid object: items:1: metadata.name: missing",
    ),
    (
        "one that prints an object twice",
        printing([SETTINGS, SETTINGS]),
        "printed an invalid object: items:1: ConfigMap settings: already defined at items:0; remove one",
    ),
    (
        "one that prints results of the wrong type",
        printing([], results="none"),
        "printed results that are no list",
    ),
    ("one with a result without a message", printing([], results=[{}]), "printed a result without a message"),
    (
        "one with a result of another severity",
        printing([], results=[{"message": "a", "severity": "fatal"}]),
        "printed a result with a severity that is not error, warning or info",
    ),
]


@pytest.mark.parametrize(("name", "script", "expected"), FAILING, ids=[name for name, *_ in FAILING])
def test_a_function_fails(name: str, script: str, expected: str, tmp_path: Path, install: Install) -> None:
    function = install("fails", script)
    reason, message = failure(request(tmp_path, function))
    assert (reason, message) == (Reason.PROCESSOR_FAILED, f'{PLACE}: "fails": {expected}')
    assert failure(request(tmp_path, function))[1] == message


def test_what_a_function_says_is_not_shown_beside_secrets(tmp_path: Path, install: Install) -> None:
    function = install("fails", "echo 22retnuh >&2; exit 1")
    said = "what it says is not shown, because the bundle contains Secrets"
    expected = f'{PLACE}: "fails": failed with status 1; {said}'
    assert failure(request(tmp_path, function, objects=[SECRET]))[1] == expected


# functions that do what they must not


def test_a_function_that_hangs_is_killed(tmp_path: Path, install: Install) -> None:
    reason, message = failure(request(tmp_path, install("hangs", "sleep 60"), seconds=0.5))
    assert reason is Reason.RENDER_LIMIT_EXCEEDED
    remedy = "simplify the bundle or raise --render-timeout"
    assert message == f'{PLACE}: timed out: "hangs" and what ran before it take more than 0.5 s; {remedy}'


def test_functions_share_the_time(tmp_path: Path, install: Install) -> None:
    slow = install("slow", "sleep 0.7; cat")
    reason, message = failure(request(tmp_path, slow, slow, slow, seconds=1.0))
    assert (reason, message[: len(PLACE)]) == (Reason.RENDER_LIMIT_EXCEEDED, f"{PATH}.functions[1]")


def test_a_function_that_computes_forever_is_killed(tmp_path: Path, install: Install) -> None:
    script = "ulimit -t 1; while :; do :; done"
    reason, message = failure(request(tmp_path, install("computes", script)))
    assert reason is Reason.RENDER_LIMIT_EXCEEDED
    remedy = "simplify the bundle, or raise --render-mebibytes or --render-timeout"
    assert message == f'{PLACE}: "computes" needs more memory or processor time than allowed; {remedy}'


def test_output_without_end_is_refused(tmp_path: Path, install: Install) -> None:
    reason, message = failure(request(tmp_path, install("floods", "cat /dev/zero"), output_bytes=MEBIBYTE))
    assert reason is Reason.RENDER_LIMIT_EXCEEDED
    assert message.startswith(f"{PLACE}: output of floods exceeds the limit of 1 MiB")


def test_a_function_is_killed_when_its_result_is_no_longer_needed(tmp_path: Path, install: Install) -> None:
    cancelled = Event()
    cancelled.set()
    assert failure(request(tmp_path, install("hangs", "sleep 60"), cancelled=cancelled))[0] is Reason.RENDER_FAILED


FORBIDDEN = {
    "writes to its folder": "echo x > file",
    "writes to another folder": "echo x > {tmp_path}/written",
    "deletes what it is given": "rm -f {tmp_path}/precious",
    "reads a file of the controller": "cat {tmp_path}/precious",
    "lists other renderings": "ls {tmp_path}/scratch",
    "reads what it may not of the environment": '[ -n "$PASSWORD" ]',
}


@pytest.mark.parametrize("deed", FORBIDDEN)
def test_a_function_cannot(deed: str, tmp_path: Path, install: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PASSWORD", "x")
    (tmp_path / "precious").write_text("x")
    script = f"if {FORBIDDEN[deed].format(tmp_path=tmp_path)} >&2; then exit 3; fi; echo refused >&2; exit 4"
    _, message = failure(request(tmp_path, install("tries", script)))
    assert "failed with status 4" in message
    assert (tmp_path / "precious").exists()
    assert not (tmp_path / "written").exists()


def test_a_function_has_no_network(tmp_path: Path, install: Install) -> None:
    if not shutil.which("bash"):
        pytest.skip("no bash")
    script = f"#!{shutil.which('bash')}\nif : < /dev/tcp/127.0.0.1/9; then exit 3; fi; exit 4\n"
    _, message = failure(request(tmp_path, install("calls", script)))
    assert "status 4" in message
    assert "Permission denied" in message, "refused by the confinement, not by the other side"


# which program runs


def test_a_function_with_another_digest_does_not_run(tmp_path: Path, install: Install) -> None:
    found = install("color", "cat")["digest"]
    reason, message = failure(request(tmp_path, {"exec": "color", "digest": DIGEST}))
    assert reason is Reason.INVALID_CONFIG
    remedy = "correct it, or have the administrator install what it names"
    assert message == f'{PLACE}.digest: "color" has another digest here, {found}; {remedy}'


def test_a_function_that_was_replaced_does_not_run(tmp_path: Path, install: Install, functions: Path) -> None:
    asked = request(tmp_path, install("color", "sed s/blue/red/"))
    run(asked)
    (functions / "color").write_text("#!/bin/sh\nsed s/blue/bad/\n")
    assert failure(asked)[0] is Reason.INVALID_CONFIG


def test_a_file_that_is_replaced_between_check_and_start_changes_nothing(
    tmp_path: Path, install: Install, functions: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    function = install("color", "sed s/blue/red/")
    started = "rukpak_krm_functions.run_program"

    def replace_first(*arguments: Any, **options: Any) -> Any:
        (functions / "color").write_text("#!/bin/sh\nsed s/blue/bad/\n")
        return run_program(*arguments, **options)

    run_program = sys.modules["rukpak_krm_functions"].run_program
    monkeypatch.setattr(started, replace_first)
    [made] = run(request(tmp_path, function)).objects
    assert made["data"] == {"color": "red"}


def test_an_unknown_function_is_named(tmp_path: Path, functions: Path) -> None:
    reason, message = failure(request(tmp_path, {"exec": "color", "digest": DIGEST}))
    assert reason is Reason.NOT_SUPPORTED
    remedy = "correct the name, or have the administrator install it"
    assert message == f'{PLACE}.exec: no function "color" in "{functions}"; {remedy}'


def test_versions_of_a_function_are_in_several_folders(
    tmp_path: Path, install: Install, functions: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = install("color", "sed s/blue/red/")
    functions.rename(tmp_path / "old")
    functions.mkdir()
    new = install("color", "sed s/blue/green/")
    monkeypatch.setenv(FOLDERS, f"{functions}:{tmp_path / 'old'}:/nonexistent")
    colors = [run(request(tmp_path, each)).objects[0]["data"]["color"] for each in (old, new)]
    assert colors == ["red", "green"]


def test_all_functions_are_told_as_one_program(install: Install, functions: Path) -> None:
    processor = KRMProcessor()
    assert isinstance(processor, RunsProgram)
    with pytest.raises(BundleError, match=f'no functions in "{functions}"; put executables there'):
        processor.find_program(Means())
    install("b", "cat")
    install("a", "cat")
    first = processor.find_program(Means())
    assert (first.path, first.version) == (functions / "a", "a, b")
    install("a", "cat; true")
    assert processor.find_program(Means()).digest != first.digest


def test_a_function_may_use_less_memory_than_it_may_reserve() -> None:
    assert 0 < KRMProcessor().program_bytes(Means()) < Means().memory_bytes


# limits


def test_what_a_function_prints_is_charged(tmp_path: Path, install: Install) -> None:
    charged: list[int] = []
    run(request(tmp_path, install("same", "cat"), charge=lambda text_bytes, _steps: charged.append(text_bytes)))
    assert len(charged) == 1
    assert charged[0] > len(json.dumps(SETTINGS))


def test_values_without_number_are_refused(tmp_path: Path, install: Install) -> None:
    script = printing([{**SETTINGS, "data": [0] * 2000}])
    asked = request(tmp_path, install("floods", script), limits=Limits(nodes=1000))
    assert failure(asked)[0] is Reason.RENDER_LIMIT_EXCEEDED


def test_a_long_output_is_left_to_a_child(tmp_path: Path, install: Install) -> None:
    script = printing([{**SETTINGS, "data": [0] * 150_000}])
    with pytest.raises(LargeTextError):
        run(request(tmp_path, install("floods", script), inline=True))
