"""From a content tree to a revision: a format renders objects, and processors change them.

Then they are made applicable, and their digest is taken.

Pure, and independent of sources and store: child.py runs it in another process.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from api.plugins import Capabilities, Hook, ReadsPart, Rendering, RenderRequest
from api.v1alpha2.types import Processor
from controller.build.confidential import Confidential
from controller.build.plugins import format_of
from controller.build.rendering.names import refuse_secret_names, without_secrets
from controller.build.rendering.processing import process
from controller.build.revision import Revision, Terms
from controller.formats.applicable.applicable import make_applicable, revision_digest, scopes_of_crds

_NOTHING = "the bundle renders no objects"


def render(
    format_name: str,
    request: RenderRequest,
    processors: Sequence[Processor] = (),
    confidential: Confidential | None = None,
) -> Revision:
    """Return the revision of a content tree; of its terms, only the install namespace is set.

    Args:
        format_name: `spec.format`.
        request: its config was checked; if its install namespace is '', the format suggests one.
        processors: `spec.processors`, checked.
        confidential: given if values of Secrets are in the config.

    Raises: BundleError with a reason of Installed, or that of a path of the content that must not be read;
        LargeTextError.
    """
    plugin = format_of(format_name)
    if not isinstance(plugin, ReadsPart):
        request.tree.check(lambda _path: True)
    namespace = request.install_namespace or plugin.suggest_namespace(request.tree, request.config)
    request = replace(request, install_namespace=namespace)
    rendering = plugin.render(request)
    if confidential:
        shown = [without_secrets(warning, confidential) for warning in rendering.warnings]
        rendering = replace(rendering, warnings=tuple(shown))
        # Before anything that names an object can fail.
        refuse_secret_names(rendering, confidential, request)
    if processors:
        rendering = process(processors, rendering, request)
        if confidential:
            refuse_secret_names(rendering, confidential, request)
    return _revision_of(rendering, Terms(inputs="", install_namespace=namespace), request.capabilities)


def _revision_of(rendering: Rendering, terms: Terms, capabilities: Capabilities) -> Revision:
    scopes = scopes_of_crds(rendering.objects)

    def _applicable(objects: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        return make_applicable(
            objects,
            install_namespace=terms.install_namespace,
            is_namespaced=lambda group, _, kind: scopes.get((group, kind), capabilities.is_namespaced(group, kind)),
        )

    objects = _applicable(rendering.objects)
    # One by one: two hooks may share a name, since they do not exist at the same time.
    hooks = [_hook(hook, _applicable([hook.manifest])[0]) for hook in rendering.hooks]
    is_silent = not (objects or hooks or rendering.warnings)
    return Revision(
        digest=revision_digest(objects, hooks),
        objects=tuple(objects),
        hooks=tuple(hooks),
        terms=terms,
        warnings=(_NOTHING,) if is_silent else tuple(rendering.warnings),
        namespace=rendering.namespace,
    )


def _hook(hook: Hook, manifest: dict[str, Any]) -> dict[str, Any]:
    return {
        "manifest": manifest,
        "events": list(hook.events),
        "weight": hook.weight,
        "deletePolicies": list(hook.delete_policies),
    }
