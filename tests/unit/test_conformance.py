"""Each test for packages of plug-ins fails for a plug-in that breaks just what it is about, and not for a good one."""

from __future__ import annotations

import inspect
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest

from rukpak.api.errors import BundleError
from rukpak.api.plugins import Credentials, Hook, LocalContent, Network, Prepared, Rendering, Resolution
from rukpak.api.v1alpha2.conditions import Reason
from rukpak.conformance import FormatContract, Processing, ProcessorContract, Site, SourceContract
from tests.support import example_plugins as example
from tests.support.example_plugins import (
    ExampleFormat,
    ExampleProcessor,
    ExampleSource,
    ForgetfulFormat,
    ForgetfulSource,
    broken,
    config_map,
    unique,
)

pytestmark = pytest.mark.usefixtures("one_other_process")
PATH = "spec.sources[0].parameters"
SECRETS = {"key": {"key": b"open sesame"}}
WRONG = {"key": {"key": b"wrong"}}


class TestFormat(FormatContract):
    plugin = ExampleFormat
    content = ({"a.txt": b"blue"}, {"b/x.txt": b"1", "a/y.txt": b"2"})
    good_config = ({"color": "blue"},)
    bad_config = (({"color": 1}, "spec.config.color"),)
    bad_content = (({"a.txt": b"\xff"}, Reason.INVALID_BUNDLE),)


class TestProcessor(ProcessorContract):
    plugin = ExampleProcessor
    good = (Processing(parameters={"color": "blue"}, secrets=SECRETS, files={"a.txt": b"x"}),)
    bad_parameters = (({"color": 1}, "spec.processors[0].parameters.color"),)
    bad = ((Processing(parameters={}, secrets=WRONG), Reason.INVALID_CONFIG),)

    def _fails_to_prepare(self, *_: object) -> bool:
        return False  # what fails in both is of use for tests of both


class TestSource(SourceContract):
    plugin = ExampleSource
    good_parameters = ({"url": "https://example.com/a", "color": "blue"},)
    bad_parameters = (({"url": 1}, f"{PATH}.url"),)
    same = (({"url": "A"}, {"url": "a"}),)
    different = (({"url": "a"}, {"url": "b"}),)

    @pytest.fixture
    def site(self) -> Site:
        return make_site()


def make_site() -> Site:
    files = {"a.txt": b"blue", "b.txt": b"red"}
    held = dict(files)

    def read(_: str) -> LocalContent:
        if not held:
            raise BundleError(Reason.NOT_FOUND, f"{PATH}: there is nothing")
        return LocalContent(files=dict(held))

    return Site(
        parameters={"url": "https://example.com/a"},
        files=files,
        change=lambda: held.update({"a.txt": b"green"}),
        lie=lambda: held.update({"a.txt": b"a lie"}),
        go_away=held.clear,
        hang=lambda: held.update(hang=b""),
        credentials=Credentials(username="robot", password="secret"),
        is_protected=True,
        config_map=read,
        public={"url": "https://files.example.com/a"},
    )


@dataclass(frozen=True, slots=True)
class Case:
    law: str
    """The test, without its `test_`."""
    plugin: type[Any]


def returns(value: Any) -> Callable[..., Any]:
    return lambda *_: value


def raises(reason: Reason, message: Callable[[Any], str]) -> Callable[..., Any]:
    def fail(_self: Any, request: Any, *_: Any) -> Any:
        raise BundleError(reason, message(request))

    return fail


def first_does(action: Callable[[Any], object], method: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method that does something wrong with its argument, and then what it should."""

    def act(self: Any, request: Any, *more: Any) -> Any:
        action(request)
        return method(self, request, *more)

    return act


def writes(*_: Any) -> None:
    Path("/tmp/rukpak-conformance-example").write_text("x", encoding="utf-8")


def connects(*_: Any) -> None:
    socket.create_connection(("127.0.0.1", 9), timeout=0.1)


def takes_time(*_: Any) -> None:
    time.sleep(0.3)


def leaves_a_thread(*_: Any) -> None:
    threading.Thread(target=time.sleep, args=[0.5], daemon=True).start()


def renders(**given: Any) -> Callable[..., Any]:
    return lambda _self, request: Rendering(**{"objects": [config_map("a", "a")], **given})


def needs_arguments(_self: Any, _argument: Any) -> None:
    return None


class Racing(ExampleFormat):
    """Keeps in itself what belongs to a call."""

    calls = 0

    def render(self, request: Any) -> Rendering:
        self.calls += 1
        time.sleep(0.05)
        self.calls -= 1
        return Rendering(objects=[config_map("a", str(self.calls))])


SHARED = [config_map("a", "a")]
PROBLEMS: list[str] = []
RENDER, PROCESS, PREPARE = ExampleFormat.render, ExampleProcessor.process, ExampleProcessor.prepare
FORMATS = {
    "it_is_a_class_without_arguments": {"__init__": needs_arguments},
    "it_has_the_methods_of_its_contract": {"suggest_namespace": None},
    "a_program_is_found_or_said_to_be_missing": {"find_program": returns(None), "program_bytes": returns(0)},
    "good_parameters_have_no_problems": {"validate": returns(["spec.config: no"])},
    "a_problem_names_its_field": {"validate": returns([])},
    "all_problems_start_below_the_path_of_the_parameters": {"validate": returns(["color: wrong"])},
    "no_kind_of_json_in_any_place_is_an_exception": {"validate": lambda _, config: config["color"].strip() and []},
    "problems_are_the_same_each_time": {"validate": lambda *_: [f"spec.config: {unique()}"]},
    "the_list_of_problems_belongs_to_the_caller": {"validate": returns(PROBLEMS)},
    "validating_changes_no_parameters": {"validate": lambda _, config: config.update(color="red") or []},
    "validating_is_quick_and_only_looks_at_the_parameters": {"validate": first_does(writes, ExampleFormat.validate)},
    "a_good_example_gives_objects_of_plain_json": {"render": renders(objects=[{**config_map("a", "a"), "x": (1,)}])},
    "equal_requests_give_equal_renderings": {"render": lambda *_: Rendering(objects=[config_map("a", unique())])},
    "a_rendering_belongs_to_the_caller": {"render": returns(Rendering(objects=SHARED))},
    "the_request_is_not_changed": {"render": first_does(lambda request: request.config.update(a=1), RENDER)},
    "it_uses_no_network_and_writes_only_to_scratch": {"render": first_does(connects, RENDER)},
    "it_changes_no_variables_and_no_working_folder": {
        "render": first_does(lambda _: os.environ.update(RUKPAK_EXAMPLE=unique()), RENDER)
    },
    "it_leaves_no_thread_behind": {"render": first_does(leaves_a_thread, RENDER)},
    "warnings_are_lines": {"render": renders(warnings=("a\nb",))},
    "hooks_have_known_events_and_policies": {
        "render": renders(hooks=(Hook(manifest=config_map("a", "a"), events=("sometimes",)),))
    },
    "secrets_and_marks_of_the_namespace_are_texts": {"render": renders(secrets=("",))},
    "what_is_no_longer_needed_ends_soon": {"render": first_does(takes_time, RENDER)},
    "a_program_without_time_is_a_failure": {"find_program": returns(None), "program_bytes": returns(1)},
    "a_bad_example_has_its_reason": {"render": raises(Reason.RENDER_FAILED, lambda _: "no")},
    "a_failure_is_one_line_without_anything_of_this_run": {
        "render": raises(Reason.INVALID_BUNDLE, lambda request: f"{request.tree.root}: no")
    },
    "the_same_failure_has_the_same_message": {"render": raises(Reason.INVALID_BUNDLE, lambda _: unique())},
    "a_failure_writes_only_to_scratch": {"render": first_does(writes, RENDER)},
    "the_order_of_files_on_the_disk_changes_nothing": {
        "render": lambda _, request: Rendering(objects=[config_map("a", str(os.listdir(request.tree.root)))])
    },
    "the_place_of_the_content_changes_nothing": {
        "render": lambda _, request: Rendering(objects=[config_map("a", str(request.tree.root))])
    },
    "the_content_is_not_changed": {
        "render": first_does(lambda request: (request.tree.root / "new").write_text("x"), RENDER)
    },
    "too_much_text_is_a_failure_that_says_so": {"render": renders()},
    "content_without_files_is_no_exception": {"render": lambda _, request: next(iter(request.tree.root.iterdir()))},
    "no_bytes_in_a_file_are_an_exception": {
        "render": lambda _, request: [path.read_text("utf-8") for path in request.tree.root.rglob("*.txt")]
    },
    "content_that_must_not_be_read_is_not_done_without": {"render": renders()},
    "the_suggested_namespace_is_a_valid_name": {"suggest_namespace": returns("A_B")},
    "the_suggested_namespace_is_the_same_each_time": {"suggest_namespace": lambda *_: unique()[:20]},
    "suggesting_a_namespace_is_quick_and_writes_nothing": {
        "suggest_namespace": first_does(writes, ExampleFormat.suggest_namespace)
    },
    "values_from_the_cluster_are_placed_without_a_change_to_either": {
        "place_config": lambda _, values, config: values.update(config) or values
    },
    "values_from_the_cluster_are_not_shown": {"place_config": raises(Reason.INVALID_CONFIG, str)},
}


def goes_on(_self: Any, request: Any) -> Rendering:
    with suppress(BundleError):
        request.charge(1, 1)
    return Rendering(objects=[])


PROCESSORS = {
    "what_the_format_has_said_is_kept": {"process": renders()},
    "nothing_to_change_is_no_exception": {"process": first_does(lambda request: request.rendering.objects[0], PROCESS)},
    "no_kind_of_json_in_an_object_is_an_exception": {
        "process": first_does(
            lambda request: request.rendering.objects[0]["metadata"].get("labels", {}).items(), PROCESS
        )
    },
    "what_is_charged_too_much_fails": {"process": goes_on},
    "secrets_that_are_needed_have_valid_names": {"find_secrets": returns(["A B"])},
    "finding_secrets_is_quick_and_the_same_each_time": {"find_secrets": lambda *_: [unique()]},
    "secrets_are_not_shown_when_they_are_wrong": {
        "process": raises(Reason.INVALID_CONFIG, lambda request: str(request.secrets))
    },
    "a_secret_without_its_keys_is_no_exception": {
        "process": first_does(lambda request: request.secrets["key"]["key"], PROCESS)
    },
    "only_files_that_exist_are_replaced": {"prepare": returns(Prepared(files={"new.txt": b""}))},
    "content_is_prepared_the_same_each_time": {"prepare": lambda *_: Prepared(files={"a.txt": unique().encode()})},
    "stored_content_is_not_changed": {
        "prepare": first_does(lambda request: (request.tree.root / "a.txt").write_text("y"), PREPARE)
    },
    "a_failure_to_prepare_has_its_reason": {"prepare": raises(Reason.RENDER_FAILED, lambda _: "no")},
}
RESOLVE, FETCH = ExampleSource.resolve, ExampleSource.fetch
FOUND = Resolution(pinned="example", digest=f"sha256:{'0' * 64}")


def asks_nobody(_self: Any, _parameters: Any, access: Any) -> Resolution:
    return Resolution(pinned="a", digest=f"sha256:{'1' * 64}")


def floats(_self: Any, _parameters: Any, _resolution: Any, access: Any) -> Iterator[Any]:
    return example.entries_of(example.ask(access))


def quarrels(self: Any, parameters: Any, access: Any) -> Resolution:
    return replace(RESOLVE(self, parameters, access), pinned=unique(), digest=f"sha256:{unique()}")


def ignores_the_network(_self: Any, parameters: Any, access: Any) -> Resolution:
    return RESOLVE(_self, parameters, replace(access, network=Network()))


def ignores_hosts(_self: Any, parameters: Any, access: Any) -> Resolution:
    return RESOLVE(_self, parameters, replace(access, network=replace(access.network, allowed_hosts=())))


def shows(self: Any, parameters: Any, access: Any) -> Resolution:
    password = access.credentials.password
    access = replace(access, credentials=Credentials(username="robot", password="secret"))
    return replace(RESOLVE(self, parameters, access), pinned=password)


def without_progress(self: Any, parameters: Any, resolution: Any, access: Any) -> Iterator[Any]:
    return FETCH(self, parameters, resolution, replace(access, progress=lambda *_: None))


def then(action: Callable[..., object], method: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method that does something with its last argument, the access, and then what it should."""

    def act(self: Any, *given: Any) -> Any:
        action(given[-1])
        return method(self, *given)

    return act


SOURCES = {
    "the_identity_is_json_and_does_not_depend_on_the_order_of_fields": {
        "identity": lambda _, parameters: {"first": next(iter(parameters))}
    },
    "names_are_quick_and_ask_nobody": {"origin": first_does(connects, ExampleSource.origin)},
    "names_change_no_parameters": {"identity": lambda _, parameters: parameters.update(url="b") or {}},
    "the_origin_is_a_text_and_the_same_each_time": {"origin": lambda *_: unique()},
    "spellings_of_the_same_have_the_same_identity": {"identity": lambda _, parameters: dict(parameters)},
    "what_is_different_has_different_identities": {"identity": returns({})},
    "the_parameters_of_the_example_are_valid": {"validate": returns([f"{PATH}: no"])},
    "it_is_pinned_to_a_digest": {"resolve": returns(Resolution(pinned="a", digest="main"))},
    "unchanged_content_has_the_same_digest_and_key": {"resolve": quarrels},
    "polling_tells_that_nothing_has_changed": {"resolve": quarrels},
    "polling_tells_what_has_changed": {"resolve": asks_nobody},
    "other_content_has_another_digest_and_key": {"content_key": returns("a")},
    "what_does_not_exist_is_a_failure_at_its_path": {"resolve": asks_nobody},
    "credentials_are_shown_nowhere": {"resolve": shows},
    "wrong_credentials_are_a_failure": {"resolve": asks_nobody},
    "a_host_that_is_not_allowed_is_not_asked": {"resolve": ignores_the_network},
    "an_address_that_is_not_allowed_is_not_asked": {"resolve": ignores_the_network},
    "a_proxy_is_asked_and_nobody_else": {"resolve": ignores_the_network},
    "a_proxy_is_not_asked_for_a_host_that_is_not_allowed": {"resolve": ignores_hosts},
    "the_content_is_what_is_there": {"fetch": lambda *_: example.entries_of({"a.txt": b"other"})},
    "it_is_the_same_each_time": {"fetch": lambda *_: example.entries_of({"a.txt": unique().encode()})},
    "what_was_resolved_before_a_change_is_fetched_or_nothing": {"fetch": floats},
    "content_that_lies_about_its_digest_is_refused": {"fetch": floats},
    "content_that_is_gone_is_a_failure": {"fetch": lambda *_: example.entries_of({"a.txt": b"blue"})},
    "too_much_content_is_a_failure_and_no_exception": {
        "fetch": then(lambda access: 1 // (access.limits.entries - 1), FETCH)
    },
    "progress_that_is_too_much_fails": {"fetch": without_progress},
    "it_writes_only_to_scratch": {"resolve": then(writes, RESOLVE)},
    "eight_threads_fetch_the_same": {"resolve": quarrels},
    "it_leaves_the_parameters_as_they_are": {
        "resolve": lambda self, parameters, access: (parameters.update(color="red"), RESOLVE(self, parameters, access))[
            1
        ]
    },
    "what_is_no_longer_needed_ends_soon": {"resolve": then(takes_time, RESOLVE)},
    "a_call_without_time_ends_soon": {"fetch": then(takes_time, FETCH)},
    "a_server_that_says_nothing_is_not_waited_for_beyond_the_deadline": {"resolve": asks_nobody},
}
OF_CONTRACT: dict[type[Any], tuple[type[Any], dict[str, Any], list[Case]]] = {
    TestFormat: (
        ExampleFormat,
        FORMATS,
        [
            Case("problems_are_the_same_in_another_process", ForgetfulFormat),
            Case("another_process_gives_an_equal_rendering", ForgetfulFormat),
            Case("eight_threads_give_equal_renderings", Racing),
        ],
    ),
    TestProcessor: (ExampleProcessor, PROCESSORS, []),
    TestSource: (
        ExampleSource,
        SOURCES,
        [Case("the_identity_is_the_same_in_another_process", ForgetfulSource)],
    ),
}
CASES = [
    (contract, case)
    for contract, (plugin, methods, more) in OF_CONTRACT.items()
    for case in [*(Case(law, broken(plugin, **given)) for law, given in methods.items()), *more]
]


@pytest.mark.parametrize(
    ("contract", "case"), CASES, ids=[f"{contract.__name__}-{case.law}" for contract, case in CASES]
)
def test_who_breaks_a_law_fails_its_test(
    contract: type[Any], case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rukpak.conformance.contracts.SOON_SECONDS", 0.2)
    monkeypatch.setenv("RUKPAK_EXAMPLE", "")  # set back afterwards
    test = getattr(type("Broken", (contract,), {"plugin": case.plugin})(), f"test_{case.law}")
    fixtures = {"tmp_path": tmp_path, "site": make_site(), "data": b"\xff\xfe"}
    wanted = {name: fixtures[name] for name in inspect.signature(test).parameters}
    with pytest.raises((Exception, pytest.fail.Exception)) as caught:
        test(**wanted)
    assert not isinstance(caught.value, pytest.skip.Exception), caught.value


def test_each_test_is_failed_by_somebody() -> None:
    tested = {f"test_{case.law}" for _, case in CASES}
    contracts = (FormatContract, ProcessorContract, SourceContract)
    assert {name for contract in contracts for name in dir(contract) if name.startswith("test_")} == tested


@pytest.mark.parametrize("contract", [FormatContract, ProcessorContract, SourceContract], ids=attrgetter("__name__"))
def test_a_class_without_a_plug_in_fails(contract: type[Any]) -> None:
    with pytest.raises(pytest.fail.Exception, match="set `plugin` to the class of the plug-in"):
        type("Empty", (contract,), {})().test_it_is_a_class_without_arguments()


WITHOUT_EXAMPLES = [
    (FormatContract, ExampleFormat, "a_good_example_gives_objects_of_plain_json"),
    (ProcessorContract, ExampleProcessor, "a_good_example_gives_objects_of_plain_json"),
    (SourceContract, ExampleSource, "good_parameters_have_no_problems"),
]


@pytest.mark.parametrize(("contract", "plugin", "law"), WITHOUT_EXAMPLES, ids=["format", "processor", "source"])
def test_a_class_without_an_example_fails(contract: type[Any], plugin: type[Any], law: str, tmp_path: Path) -> None:
    test = getattr(type("Empty", (contract,), {"plugin": plugin})(), f"test_{law}")
    with pytest.raises(AssertionError, match="give"):
        test(*([tmp_path] if "tmp_path" in inspect.signature(test).parameters else []))
