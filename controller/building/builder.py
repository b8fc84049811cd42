"""From a spec to the revision it asks for: resolve, fetch, assemble, render.

This is the first half of a pass. It neither reads nor writes a cluster, so the same code renders on a workstation. It
uses the network only for sources that are not pinned and for content that is not stored (fetching.py), and fetches by
digest only.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime

from rukpak.api.errors import BundleError
from rukpak.api.plugins import Capabilities, ContentTree, RenderRequest, RunsProgram
from rukpak.api.v1alpha2.conditions import Reason
from rukpak.api.v1alpha2.types import Spec
from rukpak.controller.building.answers import (
    Asked,
    changed_values,
    describe_generated,
    differ,
    keep_left_out,
    with_warnings_on,
)
from rukpak.controller.building.config_values import plugins_of, withhold_values
from rukpak.controller.building.entry_points import FORMATS, PROCESSORS, format_of, is_foreign
from rukpak.controller.building.fetching import Fetcher
from rukpak.controller.building.rendering import Task, render, render_in_child, without_secrets
from rukpak.controller.building.request import (
    BuildContext,
    BuildSettings,
    Call,
    Pins,
    Places,
    Request,
    Resolved,
    describe_versions,
    rendering_digest,
    terms_of,
    verified_sources,
)
from rukpak.controller.building.revision import PackedRevision, Revision, Terms, measure, pack
from rukpak.controller.content.disk import walk
from rukpak.controller.content.limits import DiskShares
from rukpak.controller.content.store import ContentStore, assemble, kept_whole
from rukpak.controller.formats.helm.lookups import UnansweredError
from rukpak.controller.formats.manifests import INLINE, LargeTextError, estimate
from rukpak.controller.telemetry import DEAF, Observer, Phase, timed

_NO_CONTEXT = BuildContext()
_PASSES = 4
"""How many times as long as one rendering those of a bundle may take that looks something up."""


class Builder:
    """Builds revisions from specs.

    Args:
        now: the time of day, for `resolvedAt`.
        shares: of the disk, while content is fetched and rendered.
    """

    def __init__(
        self,
        store: ContentStore,
        settings: BuildSettings,
        now: Callable[[], datetime],
        *,
        shares: DiskShares | None = None,
        observer: Observer = DEAF,
    ) -> None:
        self._store, self._settings, self._shares, self._observer = store, settings, shares or DiskShares(), observer
        self._fetcher = Fetcher(store, settings, observer, now)

    def resolve(
        self, spec: Spec, pins: Pins, cancelled: threading.Event, context: BuildContext = _NO_CONTEXT
    ) -> Resolved:
        """Resolve the sources without a pin, a few at a time; those that succeed are pinned even if others fail.

        Raises: BundleError if the BundleDeployment is quarantined.
        """
        with self._call(cancelled, context) as call:
            return self._fetcher.resolve(spec, pins, call)

    def build(
        self,
        request: Request,
        capabilities: Capabilities,
        cancelled: threading.Event,
        context: BuildContext = _NO_CONTEXT,
        *,
        kept: Sequence[Revision | PackedRevision] = (),
        given: Mapping[str, PackedRevision] | None = None,
    ) -> Revision | PackedRevision:
        """Fetch what is not stored, assemble, and render.

        Random values, such as a password that a chart generates, are reused from the revision in `kept` that was
        rendered from the same inputs: only changed inputs generate new ones, and what is looked up is none of these.
        The first one in `kept` is the installed one. Of `given` see `Asked`.

        Raises: BundleError with a reason of Unpacked or Installed.
        """
        with self._call(cancelled, context) as call, self._content(request, call) as tree:
            asked = Asked(request, call.context.look_up, kept[0] if kept else None, given)
            renderings = _Renderings(self._store, self._settings, tree, call, asked)
            with timed(self._observer, Phase.RENDER):
                made, capabilities = renderings.make_as_known(capabilities)
            namespace = made.terms.install_namespace
            terms = terms_of(request, namespace, rendering_digest(request, namespace, capabilities))
            terms = replace(terms, bundle=made.terms.bundle, custom=made.terms.custom, looked_up=asked.recorded())
            told = describe_versions(request.pins)
            same = next((each for each in kept if each.terms.rendered_from == terms.rendered_from), None)
            # A single difference may be due to a new release of this program, and the new rendering counts. A
            # rendering that differs each time is random.
            if same and made.digest != same.digest and made.digest != renderings.make(capabilities).digest:
                told = (*told, *_describe_random(request.spec), *_describe_lookups(same, terms))
                terms = replace(terms, looked_up=same.terms.looked_up)
                return replace(same, terms=terms, warnings=tuple(dict.fromkeys((*same.warnings, *told))))
            told = (*told, *renderings.describe_generated(made, capabilities))
        return replace(made, terms=terms, warnings=(*told, *made.warnings))

    @contextmanager
    def content(
        self, request: Request, cancelled: threading.Event, context: BuildContext = _NO_CONTEXT
    ) -> Iterator[ContentTree]:
        """Fetch what is not stored, and provide the content of all sources, without rendering it.

        Raises: BundleError with a reason of Unpacked.
        """
        with self._call(cancelled, context) as call, self._content(request, call) as tree:
            yield tree

    @contextmanager
    def _content(self, request: Request, call: Call) -> Iterator[ContentTree]:
        with self._fetcher.using(request), self._store.scratch() as scratch:
            parts = self._fetcher.fetch(request, call)
            with kept_whole(parts, scratch / "tree"):
                yield assemble(parts, scratch / "tree")

    @contextmanager
    def _call(self, cancelled: threading.Event, context: BuildContext) -> Iterator[Call]:
        with context.guard(), self._shares.use(context.tenant, self._settings.limits) as use:
            yield Call(cancelled=cancelled, context=context, use=use)


@dataclass(frozen=True, slots=True)
class _Renderings:
    """The renderings of one build, which get the same content and the same answers."""

    store: ContentStore
    settings: BuildSettings
    tree: ContentTree
    call: Call
    asked: Asked

    def make_as_known(self, capabilities: Capabilities) -> tuple[Revision | PackedRevision, Capabilities]:
        """Return a rendering with what the cluster knows of custom kinds, and the capabilities that it depends on.

        Raises: BundleError with a reason of Installed.
        """
        made = self.make(capabilities)
        missing = [(group, version, kind) for group, version, kind, known in made.terms.custom if known is None]
        if missing and (found := self.call.context.custom_kinds(missing)):
            capabilities = replace(capabilities, custom={**capabilities.custom, **found})
            made = self.make(capabilities)
        used = {(group, version, kind): known for group, version, kind, known in made.terms.custom if known}
        return made, replace(capabilities, custom=used)

    def make(self, capabilities: Capabilities) -> Revision | PackedRevision:
        """Render until everything that the bundle looks up is known.

        Raises: BundleError with a reason of Installed.
        """
        most = self.settings.means.seconds * _PASSES
        deadline = time.monotonic() + most
        while True:
            try:
                try:
                    return self._with_left_out(self._render(capabilities))
                except UnansweredError as error:
                    if time.monotonic() >= deadline:
                        problem = f"timed out: rendering with what lookup finds takes more than {most:g} s"
                        remedy = "look up less or raise --render-timeout"
                        raise BundleError(Reason.RENDER_LIMIT_EXCEEDED, f"{problem}; {remedy}") from None
                    self.asked.ask(error.lookup)
            except BundleError as error:
                secrets = self.asked.secrets()
                raise (withhold_values(error, secrets) if secrets else error) from None

    def _render(self, capabilities: Capabilities) -> Revision | PackedRevision:
        request, call = self.asked.request, self.call
        with self.store.scratch() as scratch:
            means = replace(
                self.settings.means,
                scratch=scratch,
                cancelled=call.cancelled,
                tenant=call.context.tenant,
                limits=self.settings.limits,
                occupy=call.use.occupy,
                inline=True,
            )
            wanted = RenderRequest(
                name=request.name,
                install_namespace=request.install_namespace,
                tree=self.tree,
                config=request.spec.config,
                capabilities=capabilities,
                means=means,
                verified=verified_sources(request),
                answers=self.asked.answers,
            )
            confidential, spec = self.asked.confidential(), request.spec
            task = Task(spec.format, wanted, spec.processors, confidential, request.secrets)
            return render_here_or_in_child(task, call.context, self.settings.places)

    def _with_left_out(self, made: Revision | PackedRevision) -> Revision | PackedRevision:
        asked = self.asked
        own, last = asked.own_objects(asked.request.name), asked.last
        found = [(asked.own_objects(giver), revision) for giver, revision in asked.given.items()]
        for objects, revision in ((own, last), *found):
            if not objects or revision is None:
                continue
            with _whole(self.call, made, revision) as (new, before):
                whole = keep_left_out(new, before, objects)
                made = pack(whole) if isinstance(made, PackedRevision) else whole
        # Without a last one, as on the command line.
        return with_warnings_on(made, own) if own and last is None and isinstance(made, Revision) else made

    def describe_generated(self, made: Revision | PackedRevision, capabilities: Capabilities) -> Iterator[str]:
        """Yield a warning for each Secret with values that each rendering with these capabilities makes anew.

        Raises: BundleError with a reason of Installed.
        """
        last = self.asked.last
        if last is None or not isinstance(format_of(self.asked.request.spec.format), RunsProgram):
            return
        generated = _changed_values(self.call, made, last)
        if generated:  # unless the content or spec.config has changed them
            generated &= _changed_values(self.call, made, self.make(capabilities))
        confidential = self.asked.confidential()
        for warning in describe_generated(generated):
            yield without_secrets(warning, confidential) if confidential else warning


@contextmanager
def _whole(call: Call, *revisions: Revision | PackedRevision) -> Iterator[list[Revision]]:
    packed = [measure(each.objects).text_bytes for each in revisions if isinstance(each, PackedRevision)]
    with call.context.room(sum(estimate(size, INLINE) for size in packed), call.cancelled):
        yield [each.unpacked() if isinstance(each, PackedRevision) else each for each in revisions]


def _changed_values(
    call: Call, made: Revision | PackedRevision, other: Revision | PackedRevision
) -> frozenset[tuple[str, str]]:
    with _whole(call, made, other) as (one, two):
        return changed_values(one, two)


def _describe_lookups(same: Revision | PackedRevision, terms: Terms) -> Iterator[str]:
    if differ(same.terms.looked_up, terms.looked_up):
        yield (
            "lookup finds something else than when this revision was rendered, which is kept for its random values; it "
            "counts once the content or spec.config changes"
        )


def render_here_or_in_child(task: Task, context: BuildContext, places: Places) -> Revision | PackedRevision:
    """Render in this process or, if there is too much text for that, in a child.

    Raises: BundleError with a reason of Installed.
    """
    means, root = task.request.means, task.request.tree.root
    size = sum((root / item.path).stat().st_size for item in walk(root) if not item.is_folder)
    program_bytes = _program_bytes(task)
    needs = max(estimate(min(size, INLINE.text_bytes), INLINE), program_bytes)
    try:
        computing = places.programs if program_bytes else places.here
        with context.room(needs, means.cancelled), computing.room(means.tenant, 1, means.cancelled):
            return render(task)
    except LargeTextError as error:
        size = max(size, error.size)
    # The place first, or what waits for one would hold much memory that others wait for.
    needs = estimate(size, means.limits) + program_bytes
    with places.in_children.room(means.tenant, 1, means.cancelled), context.room(needs, means.cancelled):
        return render_in_child(task)


def _describe_random(spec: Spec) -> Iterator[str]:
    # Only plug-ins of other packages are named: charts may be random.
    used = [(FORMATS, spec.format), *((PROCESSORS, each.kind) for each in spec.processors)]
    for group, name in used:
        if is_foreign(group, name):
            yield f'plug-in "{name}" gives other objects each time for the same input; the first ones are kept'


def _program_bytes(task: Task) -> int:
    # Programs run one after the other.
    used, means = [format_of(task.format), *(plugin for *_, plugin in plugins_of(task.processors))], task.request.means
    return max((plugin.program_bytes(means) for plugin in used if isinstance(plugin, RunsProgram)), default=0)
