"""What is to be built: the inputs of a revision, what the builder may use for it, and what is wrong with a spec.

Equal inputs are rendered once: digests and keys identify them. An invalid spec is refused before anything is fetched.

Pins are what the sources of a spec were resolved to, and where that came from. A pin applies as long as what identifies
the content is unchanged. It records its origin, which is part of the key in the content store: a digest alone must not
give access to stored content, since any server may claim to have any digest.

The origin is the server and repository, how they were trusted, and which Secret is named. If the spec has changed since
(another Secret, another authority), the key contains both origins, and the content is fetched again. Content of a
plug-in that reports no origin is shared among equal parameters only.

The name of a Secret does not tell what it contains: its namespace may have been deleted, and created again for another
tenant. So a pin also records the UIDs and versions of the Secrets that the source was asked with, and the key contains
them, too. Only who has the same Secrets gets what was fetched with them, even if a server checks them for some of its
content only. They are not read again for content that is stored (rule 1).

A source with `verify` has a pin only if its signature was checked: the pin records the digest of the `verify` that it
has passed. Since content is fetched, and taken from the store, by a pin, none is used without that. If only `verify`
has changed, the signature of the recorded digest is checked, and the name is not resolved again.

What is asked, what is recorded as resolved, and by what content is stored, in addition to the origin:

    image      HEAD of the manifest, for a range the tags first; ref@digest; digest and platform
    git        ls-remote; repository@commit; repository, directory and commit
    http       conditional GET with the content; the URL; sha256, stripComponents and name
    configMap  GET of each ConfigMap with the content; name@digest; digest
    chart      conditional GET of the index, or the tags and a manifest; repository/name:version@digest; digest

Not here: how sources are resolved (fetching.py).
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

from pydantic import ValidationError

from rukpak.api.errors import BundleError
from rukpak.api.plugins import (
    Capabilities,
    Credentials,
    CustomKind,
    Limits,
    LocalContent,
    Lookup,
    Means,
    Network,
    Resolution,
    Signer,
    Trusted,
    endless,
)
from rukpak.api.plugins import Source as Plugin
from rukpak.api.v1alpha2.conditions import Reason
from rukpak.api.v1alpha2.policies import Drift
from rukpak.api.v1alpha2.types import Source, SourcePin, Spec
from rukpak.api.v1alpha2.verification import Verification
from rukpak.controller.building.config_values import Confidential, SecretValues, check_nesting, plugins_of
from rukpak.controller.building.entry_points import format_of, source_of
from rukpak.controller.building.revision import Terms
from rukpak.controller.content.digests import digest_of, digest_of_json
from rukpak.controller.content.limits import Use, describe_bytes, quote
from rukpak.controller.formats.applicable import Kind
from rukpak.controller.formats.objects import refuse
from rukpak.controller.sharing import Admission
from rukpak.controller.sources.versions import is_version, parse_version

_ANYWHERE = Network()
_USUAL = Means()
CONFIG_BYTES = 256 << 10
"""Size of a config as JSON."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """How much is computed at the same time; one tenant gets at most half of each.

    More in this process would take as long, since all share one interpreter, and each reply of a server that another
    tenant waits for would wait for all of them. With more programs of two processors each, all would time out.
    """

    here: Admission = field(default_factory=lambda: Admission(2))
    """For renderings without a program, and for sources that read long lists."""
    programs: Admission = field(default_factory=lambda: Admission(4))
    """For renderings that run a program, until its output is read."""
    in_children: Admission = field(default_factory=lambda: Admission(4))


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildSettings:
    """Settings of all builds."""

    store_bytes: int
    """Limit of the content store, not counting content in use."""
    limits: Limits
    timeout: float
    """Seconds to resolve one source, and to fetch it."""
    network: Network = _ANYWHERE
    means: Means = _USUAL
    """What rendering may use; each call has its own scratch folder, cancel token and limits. Its confinement also
    applies to sources."""
    places: Places = field(default_factory=Places)


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """An object or a list that a bundle has looked up."""

    manifest: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """Empty: it does not exist."""
    version: str = ""
    """Its resourceVersion."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildContext:
    """What the caller provides for one BundleDeployment: values and callbacks, no cluster."""

    credentials: Callable[[int, Source], Credentials | None] = lambda _index, _source: None
    """Reads the Secret of a source, by its index in the spec; raises BundleError."""
    trusted: Callable[[int, Source], Trusted] = lambda _index, _source: Trusted()
    """Reads the Secrets and ConfigMaps that `verify` of a source names, by its index; raises BundleError."""
    demanded: Callable[[int, Source], Trusted] = lambda _index, _source: Trusted()
    """Reads the keys of the signature that the administrator demands of a source; raises BundleError."""
    config_map: Callable[[int, str], LocalContent] | None = None
    """Reads a ConfigMap of the install namespace for a source, by its index and the name; raises BundleError."""
    progress: Callable[[int, int, int], None] = lambda _index, _done, _total: None
    """Receives the index of a source, the bytes done, and their total (0: unknown)."""
    ended: Callable[[int, BundleError | None], None] = lambda _index, _failure: None
    """Receives the index of a source that was asked, and its failure."""
    custom_kinds: Callable[[Collection[Kind]], Mapping[Kind, CustomKind]] = lambda _kinds: {}
    """Returns what the cluster knows of custom kinds; without a cluster, nothing."""
    look_up: Callable[[Lookup], Found] | None = None
    """Reads what the bundle asks for while it is rendered; raises BundleError. None: nothing is looked up."""
    room: Callable[[int, threading.Event], AbstractContextManager[None]] = lambda size, _cancelled: endless(size)
    """Waits for that many bytes of memory and holds them for a block; the event cancels the wait."""
    guard: Callable[[], AbstractContextManager[None]] = nullcontext
    """Records work that might kill the process; raises BundleError if it has."""
    previous: Pins = ()
    """When polling: the current pin of each source."""
    unchecked: Pins = ()
    """The recorded pin of each source whose `verify` it has not passed, as `find_unchecked` returns them; empty: every
    source without a pin is resolved anew."""
    max_ages: Sequence[float] = ()
    """When polling: how old what is shared among the calls of each source may be, in seconds."""
    tenant: str = ""
    """Owner of the disk share, as messages name it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One call of the builder, as its parts see it."""

    cancelled: threading.Event
    context: BuildContext
    use: Use


def check(spec: Spec) -> None:
    """Refuse an invalid spec.

    Raises: BundleError (UnknownSourceKind, UnknownFormat, UnknownProcessor, InvalidReference, InvalidConfig).
    """
    check_nesting(spec.config, "spec.config", Reason.INVALID_CONFIG)
    _check_size(spec.config, "spec.config", "move values to a file in the content and list it in valuesFiles")
    for index, source in enumerate(spec.sources):
        path = f"spec.sources[{index}].{source.block}"
        check_nesting(source.parameters.model_extra if source.parameters else {}, path, Reason.INVALID_REFERENCE)
        refuse(source_of(source.kind).validate(source.parameters_json, path), Reason.INVALID_REFERENCE)
    check_config(spec.format, spec.config)
    for index, processor in enumerate(spec.processors):  # before anything that is recursive
        check_nesting(processor.free_form, f"spec.processors[{index}]{processor.block}", Reason.INVALID_CONFIG)
    _check_size([each.parameters_json for each in spec.processors], "spec.processors", "change more in the bundle")
    for place, processor, plugin in plugins_of(spec.processors):
        refuse(plugin.validate(processor.parameters_json, f"{place}{processor.block}"), Reason.INVALID_CONFIG)


def _check_size(value: Any, path: str, remedy: str) -> None:
    size = len(json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode(errors="surrogatepass"))
    if size > CONFIG_BYTES:
        problem = f"{path}: larger than {describe_bytes(CONFIG_BYTES)} of JSON"
        raise BundleError(Reason.INVALID_CONFIG, f"{problem}; {remedy}")


def check_config(format_name: str, config: Mapping[str, Any]) -> None:
    """Refuse a config that its format does not accept.

    Raises: BundleError (UnknownFormat, InvalidConfig).
    """
    refuse(format_of(format_name).validate(config), Reason.INVALID_CONFIG)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """The inputs of a revision."""

    name: str
    spec: Spec
    pins: tuple[SourcePin, ...]
    install_namespace: str
    """The one in use; '' if the format is to suggest one."""
    requested_at: str
    """Value of the annotation `reconcile-requested-at`."""
    confidential: Confidential | None = None
    """Given if values of Secrets are in the config of the spec, or processors need some."""
    secrets: SecretValues = field(default_factory=dict, repr=False)
    """What processors need."""


def inputs_digest(request: Request) -> str:
    """Return the digest of everything a rendering depends on except the capabilities (rule 9)."""
    verified = verified_sources(request)
    return digest_of_json(
        {
            **_inputs(request),
            **({"verified": verified} if any(verified) else {}),
            "installNamespace": request.spec.install_namespace or "",
            "requestedAt": request.requested_at,
        }
    )


def terms_of(request: Request, install_namespace: str, rendered_from: str) -> Terms:
    """Return the terms of a revision by the current spec (rule 2); `rendered_from` is a `rendering_digest`."""
    terms = Terms(
        inputs=inputs_digest(request),
        rendered_from=rendered_from,
        install_namespace=install_namespace,
        pins=record_pins(request.pins),
    )
    return renew_terms(request.spec, terms)


def renew_terms(spec: Spec, terms: Terms) -> Terms:
    """Return terms with those fields of the current spec that nothing is rendered from."""
    # Whether a rule may match nothing is not for the revision.
    without = {"ignore": {"__all__": {"optional"}}}
    drift = spec.drift.model_dump(mode="json", by_alias=True, exclude=without) if spec.drift != Drift() else None
    return replace(
        terms,
        service_account_name=spec.service_account_name,
        drift=drift,
        optional=tuple(kind.model_dump(mode="json", by_alias=True) for kind in spec.optional),
    )


def rendering_digest(request: Request, install_namespace: str, capabilities: Capabilities) -> str:
    """Return the digest of everything a rendering depends on; equal inputs give equal objects but for random values."""
    kinds = sorted([*kind, scope] for kind, scope in capabilities.kinds.items())
    cluster: dict[str, Any] = {"version": capabilities.kubernetes_version, "kinds": kinds}
    if capabilities.custom:
        cluster["custom"] = sorted(
            [*kind, known.has_status, known.schema] for kind, known in capabilities.custom.items()
        )
    named = {"name": request.name, "installNamespace": install_namespace}
    return digest_of_json({**_inputs(request), **named, "capabilities": cluster})


def _inputs(request: Request) -> dict[str, Any]:
    targets = [source.target for source in request.spec.sources]
    processors = [[each.kind, each.parameters_json] for each in request.spec.processors]
    keys = {name: {key: digest_of(data) for key, data in values.items()} for name, values in request.secrets.items()}
    return {
        **({"processors": processors} if processors else {}),
        **({"secrets": keys} if keys else {}),
        "format": request.spec.format,
        "config": request.spec.config,
        "sources": list(zip(targets, _content_keys(request), strict=True)),
    }


def _content_keys(request: Request) -> list[str]:
    pairs = zip(request.spec.sources, request.pins, strict=True)
    return [content_key(source_of(source.kind), source, resolution_of(pin)) for source, pin in pairs]


def store_keys(request: Request) -> list[str]:
    """Return the content store key of each source, in spec order."""
    spec = request.spec
    asked = [origin_of(source_of(source.kind), source, spec.install_namespace) for source in spec.sources]
    return [
        store_key(key, origin, pin.origin, pin.auth_digest)
        for key, origin, pin in zip(_content_keys(request), asked, request.pins, strict=True)
    ]


Pins = tuple[SourcePin | None, ...]
"""One for each source, in spec order; None if it is not resolved yet."""
_RECORDED = {"kind", "resolved", "digest", "spec_digest", "origin", "resolved_at"}
_RECORDED_IF_SET = ("destination", "version", "reference", "auth_digest", "verified_version", "verify_digest")


def origin_of(plugin: Plugin, source: Source, install_namespace: str | None) -> str:
    """Return the digest of the server that is asked for a source's content, and of how it is trusted.

    Args:
        plugin: of the source's kind; one from another package may lack the method `origin`.
        source: from a spec that was checked.
        install_namespace: default namespace of Secrets.
    """
    parameters = source.parameters_json
    ask = getattr(plugin, "origin", None)
    secret = source.secret
    return "v1:" + digest_of_json(
        {
            "kind": source.kind,
            "origin": (ask(parameters) if ask else "") or parameters,
            # A server that only one BundleDeployment trusts must not provide content for another; a Secret may contain
            # an authority, too.
            "certificateData": parameters.get("certificateData") or "",
            "insecureSkipTLSVerify": bool(parameters.get("insecureSkipTLSVerify")),
            "secret": [secret.namespace or install_namespace or "", secret.name] if secret else None,
        }
    )


def content_key(plugin: Plugin, source: Source, resolution: Resolution) -> str:
    """Return what identifies content within its origin; the rendered objects depend on nothing else of a source."""
    return f"{source.kind}|{plugin.content_key(source.parameters_json, resolution)}"


def store_key(key: str, asked: str, answered: str, auth_digest: str = "") -> str:
    """Return the content store key of a content key.

    Args:
        key: a content key.
        asked: the origin by the spec.
        answered: the origin of the pin.
        auth_digest: of the pin; '' for none.
    """
    parts = (asked, answered if answered != asked else "", auth_digest, key)
    return "|".join(filter(None, parts))


def resolution_of(pin: SourcePin) -> Resolution:
    """Return the resolution that a pin records."""
    signer = None
    if who := pin.verified:
        version = pin.verified_version
        signer = Signer(by=who.by, key=who.key, identity=who.identity, issuer=who.issuer, version=version)
    return Resolution(
        pinned=pin.resolved,
        digest=pin.digest,
        validator=pin.validator,
        version=pin.version,
        reference=pin.reference,
        signer=signer,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolved:
    """The pins of a spec, and the failure of the sources that have none."""

    pins: Pins
    failure: BundleError | None = None

    @property
    def found(self) -> tuple[SourcePin, ...]:
        """The pins that exist."""
        return tuple(pin for pin in self.pins if pin)


def spec_digest(source: Source) -> str:
    """Return the digest of what identifies a source's content: the source is re-resolved only when it changes."""
    return "v1:" + digest_of_json(
        {"kind": source.kind, "identity": source_of(source.kind).identity(source.parameters_json)}
    )


def verify_digest(source: Source) -> str:
    """Return the digest of who must have signed a source: that is checked again only when it changes; '' for nobody."""
    if not source.needs_signature:
        return ""
    return "v1:" + digest_of_json(verify_json(source.verification)) + _demand_digest(source)


def meets_demand(source: Source, pin: SourcePin) -> bool:
    """Whether a pin has passed what the administrator demands of a source, whatever its `verify` was."""
    return pin.verify_digest.endswith(_demand_digest(source))


def _demand_digest(source: Source) -> str:
    demanded = source.demanded
    value = demanded and {"demanded": verify_json(demanded.verification), "keys": demanded.keys}
    return f"+{digest_of_json(value)}" if value else ""


def verify_json(verification: Verification | None) -> dict[str, Any] | None:
    """Return a `verify` as plain JSON; None for none."""
    return verification.model_dump(mode="json", by_alias=True, exclude_none=True) if verification else None


def match_pins(spec: Spec, recorded: Sequence[SourcePin]) -> Pins:
    """Return the recorded pin of each source, matched by what identifies the content and not by position.

    Returns: None also for a source whose pin has not passed its `verify`.
    """
    return tuple(_without_check(source, pin) for source, pin in _matches(spec, recorded))


def find_unchecked(spec: Spec, recorded: Sequence[SourcePin]) -> Pins:
    """Return the recorded pin of each source that only lacks the check of its present `verify`."""
    return tuple(
        pin if pin and _without_check(source, pin) is None else None for source, pin in _matches(spec, recorded)
    )


def are_checked(spec: Spec, recorded: Sequence[SourcePin]) -> bool:
    """Whether each source of a spec whose pins are recorded in its order has passed its present `verify`.

    An administrator may demand another signature at any time: that changes no generation. No plug-in is asked, because
    what is installed stays as it is without those of its sources.
    """
    return len(recorded) == len(spec.sources) and all(
        not source.needs_signature or pin.verify_digest == verify_digest(source)
        for source, pin in zip(spec.sources, recorded, strict=True)
    )


def _matches(spec: Spec, recorded: Sequence[SourcePin]) -> list[tuple[Source, SourcePin | None]]:
    # Of several sources with the same content, the pin that has passed the right `verify` comes first.
    by_check = {(pin.spec_digest, pin.verify_digest): pin for pin in recorded}
    by_digest = {pin.spec_digest: pin for pin in recorded}
    found = []
    for source in spec.sources:
        digest = spec_digest(source)
        pin = by_check.get((digest, verify_digest(source))) or by_digest.get(digest)
        found.append((source, pin and pin.model_copy(update={"destination": source.target})))
    return found


def _without_check(source: Source, pin: SourcePin | None) -> SourcePin | None:
    if pin is None or pin.verify_digest == verify_digest(source):
        return pin
    if source.needs_signature:
        return None
    return pin.model_copy(update={"verified": None, "verified_version": "", "verify_digest": "", "keys_digest": ""})


def verified_sources(request: Request) -> tuple[bool, ...]:
    """Return whether the content of each source has the signature that its `verify` asks for."""
    pairs = zip(request.spec.sources, request.pins, strict=True)
    return tuple(source.needs_signature and pin.verify_digest == verify_digest(source) for source, pin in pairs)


def describe_versions(pins: Iterable[SourcePin]) -> tuple[str, ...]:
    """Return warnings about names of versions that lead to what was signed as another one."""
    named = [(index, pin, pin.version or pin.reference) for index, pin in enumerate(pins)]
    return tuple(
        f"spec.sources[{index}]: {quote(tag)} leads to what was signed as version {quote(pin.verified_version)}; "
        "find out who has pushed it"
        for index, pin, tag in named
        if pin.verified_version and parse_version(tag) and not is_version(tag, pin.verified_version)
    )


def record_pins(pins: Iterable[SourcePin]) -> tuple[dict[str, str], ...]:
    """Return pins as the terms of a revision record them: without what polls change."""
    return tuple(
        pin.model_dump(
            mode="json", by_alias=True, include=_RECORDED | {name for name in _RECORDED_IF_SET if getattr(pin, name)}
        )
        for pin in pins
    )


def recall_pins(recorded: Iterable[Mapping[str, Any]]) -> tuple[SourcePin, ...]:
    """Return recorded pins; none if one of them cannot be read."""
    try:
        return tuple(map(SourcePin.model_validate, recorded))
    except ValidationError:
        return ()
