"""Runs the processors of a spec on what a format rendered, and checks what each returns. Pure.

Ownership is not theirs to change: labels and annotations of the controller are removed before the first one, and
refused after each. So is an object without a valid identity, and more text than a revision may have.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from threading import Event

from api.errors import BundleError
from api.plugins import ProcessRequest, Rendering, RenderRequest
from api.v1alpha2.conditions import Reason
from api.v1alpha2.types import Processor
from controller.build.plugins import processor_of
from controller.formats.applicable.corrections import find_reserved_marks, without_reserved_marks
from controller.formats.budget import TextBudget
from controller.formats.objects import Object, find_identity_problem, identify, refuse
from controller.processors.rendered import Charge, change_each
from controller.untrusted import Steps, TooManyStepsError

MOST_STEPS = 10_000_000
"""For all processors of a BundleDeployment."""
_STEP_BYTES = 32
"""Of the text of an object that is changed in one step."""
_ENCODE = json.JSONEncoder(ensure_ascii=False, check_circular=False, separators=(",", ":")).encode


def process(processors: Sequence[Processor], rendering: Rendering, request: RenderRequest) -> Rendering:
    """Return a rendering as the processors of a spec change it, in order.

    Args:
        processors: `spec.processors`, checked.
        rendering: of the format.
        request: what it was rendered from, with the install namespace.

    Raises: BundleError (InvalidConfig, InvalidBundle, RenderLimitExceeded, UnknownProcessor); LargeTextError.
    """
    if not processors:
        return rendering
    refuse(f"objects[{i}]: {problem}" for i, problem in _identity_problems(rendering.objects))
    rendering = change_each(rendering, without_reserved_marks)
    steps = Steps(MOST_STEPS)
    for index, processor in enumerate(processors):
        place = f"spec.processors[{index}]"
        asked = ProcessRequest(
            name=request.name,
            install_namespace=request.install_namespace,
            parameters=processor.parameters_json,
            path=f"{place}{processor.block}",
            rendering=rendering,
            capabilities=request.capabilities,
            charge=_charge_to(TextBudget.of(request.means), steps, place, request.means.cancelled),
        )
        try:
            rendering = processor_of(processor.kind, place).process(asked)
            _check(rendering, place, TextBudget.of(request.means))
        except RecursionError:
            raise BundleError(
                Reason.INVALID_CONFIG, f"{place}: makes objects too deeply nested; flatten them"
            ) from None
    return rendering


def _charge_to(budget: TextBudget, left: Steps, place: str, cancelled: Event) -> Charge:
    """Return `ProcessRequest.charge` for the processor at a place in the spec."""

    def _charge(text_bytes: int, steps: int) -> None:
        if cancelled.is_set():
            raise BundleError(Reason.RENDER_FAILED, "canceled: the result is no longer needed")
        budget.charge_text(text_bytes, place, is_manifest=False)
        try:
            left.spend(steps + text_bytes // _STEP_BYTES)
        except TooManyStepsError:
            problem = "changes too many objects in too many ways"
            raise BundleError(Reason.RENDER_LIMIT_EXCEEDED, f"{place}: {problem}; change more in the bundle") from None

    return _charge


def _check(rendering: Rendering, place: str, budget: TextBudget) -> None:
    """Refuse what a processor must not return; `place` is where it is in the spec."""
    manifests = [*rendering.objects, *(hook.manifest for hook in rendering.hooks)]
    for index, problem in _identity_problems(manifests):
        raise BundleError(Reason.INVALID_CONFIG, f"{place}: makes an invalid object: objects[{index}]: {problem}")
    for item in manifests:
        for mark in find_reserved_marks(item):
            problem = f"sets {mark} of {identify(item)}, which belongs to the controller"
            raise BundleError(Reason.INVALID_CONFIG, f"{place}: {problem}; remove it")
        budget.charge_text(len(_ENCODE(item)), place, is_manifest=False)


def _identity_problems(objects: Iterable[Object]) -> Iterator[tuple[int, str]]:
    for index, item in enumerate(objects):
        if problem := find_identity_problem(item):
            yield index, problem
