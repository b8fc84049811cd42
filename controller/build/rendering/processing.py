"""Runs the processors of a spec on what a format rendered, and checks what each returns. Pure.

Ownership is not theirs to change: labels and annotations of the controller are removed before the first one, and
refused after each. So is an object without a valid identity, and more text than a revision may have.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence

from api.errors import BundleError
from api.plugins import ProcessRequest, Rendering, RenderRequest
from api.v1alpha2.conditions import Reason
from api.v1alpha2.types import Processor
from controller.build.plugins import processor_of
from controller.formats.applicable.corrections import find_reserved_marks, without_reserved_marks
from controller.formats.budget import TextBudget
from controller.formats.objects import Object, find_identity_problem, identify, refuse
from controller.processors.rendered import change_each

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
    refuse([f"objects[{i}]: {problem}" for i, problem in _identity_problems(rendering.objects)])
    rendering = change_each(rendering, without_reserved_marks)
    for index, processor in enumerate(processors):
        place = f"spec.processors[{index}]"
        asked = ProcessRequest(
            name=request.name,
            install_namespace=request.install_namespace,
            parameters=processor.parameters_json,
            path=f"{place}{processor.block}",
            rendering=rendering,
            capabilities=request.capabilities,
        )
        try:
            rendering = processor_of(processor.kind, place).process(asked)
            _check(rendering, place, TextBudget.of(request.means))
        except RecursionError:
            raise BundleError(
                Reason.INVALID_CONFIG, f"{place}: makes objects too deeply nested; flatten them"
            ) from None
    return rendering


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
