"""`spec.configFrom`: from the texts that were read to the config that is rendered. And the Secrets of processors.

A message says where a value of a Secret is wrong, and never what it is. Texts of Secrets are found where messages would
show them. A text counts as secret from four characters on, unless anybody may read it, too. It is found as it is, in
base64 and in hexadecimal digits, in any case, with or without what is neither letter nor digit, and by its first eight
characters, since names are often cut. What a template makes of it beyond that cannot be recognized.

Not here: where such texts must not be (rendering.py).
"""

from __future__ import annotations

import base64
import json
import re
from bisect import bisect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from os.path import commonprefix
from typing import Any

from rukpak.api.errors import BundleError
from rukpak.api.plugins import MEBIBYTE, PlacesConfig, PreparesContent, ReadsSecrets
from rukpak.api.plugins import Processor as Plugin
from rukpak.api.v1alpha2.conditions import Reason
from rukpak.api.v1alpha2.fields import ConfigReference, parse_field_path
from rukpak.api.v1alpha2.processors import Processor
from rukpak.api.v1alpha2.types import BundleDeployment, Spec
from rukpak.controller.building.entry_points import format_of, processor_of
from rukpak.controller.content.limits import describe_bytes
from rukpak.controller.formats.helm.failures import HIDDEN, make_redactor
from rukpak.controller.formats.helm.values import merge_values, read_values, scalars_of

LEVELS = 100
"""Depth of nesting in a config, or in the parameters of a source or processor."""
MOST_BYTES = MEBIBYTE
"""Size of the merged config as JSON."""
_PLACE = "spec.configFrom"
_QUOTED = re.compile(r'"[^"]*"')
_WITHHELD = (
    'the rendering failed; its message is not shown because values come from a Secret; run "rukpak render" with other '
    "values to see it"
)


def merge_config(spec: Spec, texts: Sequence[bytes | None]) -> Mapping[str, Any]:
    """Return `spec.config` merged over what `spec.configFrom` refers to.

    Args:
        spec: that was checked.
        texts: of each reference; None: it is optional and missing.

    Raises: BundleError (InvalidConfig, UnknownFormat).
    """
    if not spec.config_from:
        return spec.config
    values: dict[str, Any] = {}
    for index, (reference, text) in enumerate(zip(spec.config_from, texts, strict=True)):
        if text is not None:
            values = merge_values(values, _read(reference, text, f"{_PLACE}[{index}]"))
    plugin = format_of(spec.format)
    config = (
        plugin.place_config(values, spec.config)
        if isinstance(plugin, PlacesConfig)
        else merge_values(values, spec.config)
    )
    _check(spec, config)
    return config


SecretValues = Mapping[str, Mapping[str, bytes]]
"""The data of Secrets, by name and key."""


def find_secrets(spec: Spec) -> list[tuple[str, str]]:
    """Return the Secrets of the install namespace that processors need: the field path of each processor, and the name.

    Args:
        spec: that was checked.

    Raises: BundleError (PluginFailed, UnknownProcessor).
    """
    found: list[tuple[str, str]] = []
    for place, processor, plugin in plugins_of(spec.processors):
        if isinstance(plugin, ReadsSecrets):
            names = plugin.find_secrets(processor.parameters_json)
            found.extend((f"{place}{processor.block}", name) for name in names)
    return found


def plugins_of(processors: Iterable[Processor]) -> Iterator[tuple[str, Processor, Plugin]]:
    """Yield the field path of each processor, the processor, and its plug-in.

    Raises: BundleError (PluginFailed, UnknownProcessor).
    """
    for index, processor in enumerate(processors):
        place = f"spec.processors[{index}]"
        yield place, processor, processor_of(processor.kind, place)


def needs_objects(spec: Spec) -> bool:
    """Whether the config, or a processor, needs ConfigMaps or Secrets of the install namespace."""
    try:
        return bool(spec.config_from or find_secrets(spec))
    except BundleError:
        return True  # who needs them is told


def confidential_of(
    deployment: BundleDeployment, texts: Sequence[bytes | None], secrets: SecretValues
) -> Confidential | None:
    """Return what is secret of what was read from the cluster, and what is not; None without any Secret.

    Args:
        deployment: with its own config, not the merged one.
        texts: of each reference of `spec.configFrom`, as for `merge_config`, which has not refused them.
        secrets: of processors.
    """
    spec = deployment.spec
    if not reads_secrets(spec):
        return None
    hidden = find_key_words(secrets)
    public = [deployment.metadata.name, spec.model_dump_json(by_alias=True, exclude_unset=True)]
    for reference, text in zip(spec.config_from, texts, strict=True):
        if text is not None:
            found = list(scalars_of(_read(reference, text, _PLACE), with_keys=True))
            # The keys of a path are in the spec.
            (hidden if reference.kind == "Secret" else public).extend(found)
    return Confidential(secrets=tuple(hidden), public="\n".join(public))


def find_key_words(secrets: SecretValues) -> list[str]:
    """Return what is secret in the Secrets of processors: files of keys have lines that anybody may know."""
    texts = (data.decode(errors="replace") for values in secrets.values() for data in values.values())
    return [word for text in texts for word in _LONG_WORD.findall(text)]


def _read(reference: ConfigReference, text: bytes, place: str) -> Mapping[str, Any]:
    what = f'{place}: key "{reference.key}" of {reference.kind} "{reference.name}"'
    if reference.path:
        value: Any = _decode(text, what)
        for key in reversed(parse_field_path(reference.path)):
            value = {key: value}
        found: Mapping[str, Any] = value
        return found
    try:
        return read_values(text, what)
    except BundleError:
        if reference.kind != "Secret":
            raise
    raise BundleError(Reason.INVALID_CONFIG, "must be a YAML mapping; correct it, or set path", place=what)


def _decode(text: bytes, what: str) -> str:
    try:
        return text.decode()
    except UnicodeDecodeError:
        raise BundleError(Reason.INVALID_CONFIG, "not UTF-8; correct it", place=what) from None


def _check(spec: Spec, config: Mapping[str, Any]) -> None:
    check_nesting(config, _PLACE, Reason.INVALID_CONFIG)
    if len(json.dumps(config, ensure_ascii=False).encode(errors="surrogatepass")) > MOST_BYTES:
        problem = f"larger than {describe_bytes(MOST_BYTES)} of JSON together with spec.config; make it smaller"
        raise BundleError(Reason.INVALID_CONFIG, problem, place=_PLACE)
    if not (problems := format_of(spec.format).validate(config)):
        return
    field = problems[0].partition(":")[0]
    shown = f'{field}: not accepted by the format "{spec.format}"' if _has_secret_config(spec) else problems[0]
    raise BundleError(Reason.INVALID_CONFIG, f"the merged config is invalid: {shown}", place=_PLACE)


def check_nesting(value: Any, path: str, reason: Reason) -> None:
    """Refuse nesting that no user needs and that would exhaust the stack."""
    layer = [value]
    for _ in range(LEVELS):
        layer = [item for each in layer for item in _items(each)]
        if not layer:
            return
    raise BundleError(reason, f"nested more than {LEVELS} levels deep; flatten it", place=path)


def _items(value: Any) -> Iterable[Any]:
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return (item for item in items if isinstance(item, dict | list))


def reads_secrets(spec: Spec) -> bool:
    """Whether values from Secrets are part of the config, or processors may use some.

    The spec may be invalid, as long as what was installed before is repaired: no plug-in is asked what it needs.
    """
    return _has_secret_config(spec) or any(map(_may_use_secrets, spec.processors))


def _may_use_secrets(processor: Processor) -> bool:
    try:
        plugin = processor_of(processor.kind, "spec.processors")
    except BundleError:
        return True  # what is installed was rendered while there was a plug-in
    return isinstance(plugin, ReadsSecrets | PreparesContent)


def _has_secret_config(spec: Spec) -> bool:
    return any(reference.kind == "Secret" for reference in spec.config_from)


def withhold(error: BundleError, spec: Spec) -> BundleError:
    """Return the error of a rendering without texts that may be values of a merged config with some from Secrets.

    Values are removed. A template or a program may change them first: of its own text, only the place is shown, and of
    what it renders, nothing that is quoted. Without processors, registry-v1 places values itself, and quotes none.
    """
    if not _has_secret_config(spec):
        return error
    is_clean = isinstance(format_of(spec.format), PlacesConfig) and not spec.processors
    return withhold_values(error, [] if is_clean else [spec.config])


def withhold_values(error: BundleError, values: Sequence[Any]) -> BundleError:
    """Return the error of a rendering without values, and texts that a template or a program may have made of them."""
    message = error.message
    if error.reason in (Reason.RENDER_FAILED, Reason.PROCESSOR_FAILED):
        message = BundleError(error.reason, _WITHHELD, place=error.place).message
    elif error.reason is Reason.INVALID_BUNDLE:
        message = _QUOTED.sub(f'"{HIDDEN}"', message)
    if values:
        message = make_redactor(values)(message)
    return error.reworded(message)


LEAST = 4
"""Characters of a text that is secret; see formats/helm/failures.py."""
_START = 8
_WORD = re.compile(r"[0-9a-z]+")
_LONG_WORD = re.compile(r"[0-9A-Za-z+/=]{24,}")


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Confidential:
    """What is known of a config with values from Secrets; never shown: without a repr."""

    secrets: tuple[str, ...]
    """All texts in the values of Secrets."""
    public: str
    """What may be shown: the spec and the name of the BundleDeployment, and values from ConfigMaps."""
    place: str = "spec.configFrom"
    """Where the secrets come from, for messages."""


def secret_finder(confidential: Confidential, public: Iterable[str] = ()) -> Callable[[str], Iterator[str]]:
    """Return what yields what a text contains of secrets, in lower case, unless it is `public` or known to be shown."""
    words = {word for secret in confidential.secrets for form in _forms(secret) for word in _words_of(form)}
    short = {word for word in words if LEAST <= len(word) < _START}
    long = sorted(word for word in words if len(word) >= _START)
    shown = "\n".join((confidential.public, *public)).casefold()

    def _find_at(rest: str) -> Iterator[str]:
        for length in range(LEAST, _START):
            if rest[:length] in short:
                yield rest[:length]
        place = bisect(long, rest)
        # Of sorted texts, a neighbour has the most in common with one that is between them.
        for neighbour in long[max(place - 1, 0) : place + 1]:
            if len(common := commonprefix((rest, neighbour))) >= _START:  # noqa: RUF071 - characters, no path
                yield common

    def _find(text: str) -> Iterator[str]:
        for word in _WORD.findall(text.casefold()):
            for start in range(len(word) - LEAST + 1):
                yield from (found for found in _find_at(word[start:]) if found not in shown)

    return _find


def _forms(secret: str) -> Iterator[str]:
    data = secret.encode(errors="surrogatepass")
    yield secret.casefold()
    yield base64.b64encode(data).decode().casefold()
    yield data.hex()


def _words_of(form: str) -> Iterable[str]:
    words: list[str] = _WORD.findall(form)
    return [*words, "".join(words)]
