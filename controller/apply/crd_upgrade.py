"""Whether a CustomResourceDefinition may be changed to another: existing objects are validated, then it is decided.

One GET for a definition that changes; a LIST in small pages only if a schema is narrower. Objects go by one after the
other and nothing is kept of them but a few lines, however many there are.

The dialect is Kubernetes' own, not JSON Schema's: `nullable`, `x-kubernetes-int-or-string`, embedded resources, lists
that are sets or maps, `exclusiveMaximum` as a flag, RE2. `metadata` counts only if the schema constrains its name.
The source of `admit` are `pruning` and `defaulting` of k8s.io/apiextensions-apiserver, that of the formats is `strfmt`
of k8s.io/kube-openapi, without those that no cluster object has (ISBN, credit cards, colors). RE2 matches, since its
dialect is not Python's, and since its time is linear in a text that any user may write.

No reason quotes a value of the object, which may be a secret; what the schema says is quoted.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from functools import lru_cache
from http import HTTPStatus
from itertools import islice
from typing import Any

import re2

from rukpak.api import names
from rukpak.api.errors import BundleError
from rukpak.api.v1alpha2.conditions import Reason
from rukpak.api.v1alpha2.policies import CrdUpgradeSafety, Enforcement
from rukpak.controller.apply.crd_changes import (
    INT_OR_STRING,
    LINES,
    MOST_PAIRED,
    PRESERVE,
    ROOT,
    CheckFinding,
    CustomResourceDefinition,
    Schema,
    canonical,
    compact,
    compare,
    compare_schemas,
    is_multiple,
    is_off,
    level_of,
    listed,
    narrows_unknown_fields,
    read_definition,
    same,
    tell,
)
from rukpak.controller.kube.client import Client
from rukpak.controller.kube.errors import ApiError, attempt
from rukpak.controller.untrusted import Steps, TooManyStepsError, mapping, number, path_below, sequence, text

_OPTIONS = re2.Options()
_OPTIONS.log_errors = False
_LETTER = r"a-zA-Z0-9\p{S}\p{L}"
_UUID = r"(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?%s[0-9a-f]{3}-?%s[0-9a-f]{3}-?[0-9a-f]{12}$"
_LABEL = r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
_DURATION = (
    r"(ns|us|µs|μs|ms|s|m|h|d|w|(nano|micro|milli)s(econds?)?|sec(onds?)?|min(utes?)?|h(ou)?rs?|days?|w(ee)?ks?)"
)
_PATTERNS: Mapping[str, str] = {
    "uri": r"^(/|[a-zA-Z][-+.a-zA-Z0-9]*:)[^\x00-\x20\x7f]*$",
    "email": r"^[^@]*[^@\s]@[^@\s]+$|<[^@\s]+@[^@\s]+>$",
    "hostname": (
        rf"^([{_LETTER}]((-?[{_LETTER}]{{0,62}})?)"
        rf"|([{_LETTER}](([-{_LETTER}]{{0,61}}[{_LETTER}])?)(\.)){{1,}}([a-zA-Z\p{{L}}]){{2,63}})$"
    ),
    "mac": (
        r"^[0-9a-fA-F]{2}(([:-][0-9a-fA-F]{2}){5}|([:-][0-9a-fA-F]{2}){7}|([:-][0-9a-fA-F]{2}){19})$"
        r"|^[0-9a-fA-F]{4}((\.[0-9a-fA-F]{4}){2}|(\.[0-9a-fA-F]{4}){3}|(\.[0-9a-fA-F]{4}){9})$"
    ),
    "uuid": _UUID % ("[0-9a-f]", "[0-9a-f]"),
    "uuid3": _UUID % ("3", "[0-9a-f]"),
    "uuid4": _UUID % ("4", "[89ab]"),
    "uuid5": _UUID % ("5", "[89ab]"),
    "byte": r"^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})$",
    "duration": rf"^[-+]?(0|(\d+(\.\d*)?|\.\d+)\s*{_DURATION}(\s*(\d+(\.\d*)?|\.\d+)\s*{_DURATION})*)$",
    "datetime": (
        r"^\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])[Tt ]([01]\d|2[0-3]):[0-5]\d:([0-5]\d|60)"
        r"([.,]\d+)?([Zz]|[-+]\d{2}:?\d{2})?$"
    ),
    "k8sshortname": rf"^{_LABEL}$",
    "k8slongname": rf"^{_LABEL}(\.{_LABEL})*$",
}
_LARGEST_FLOAT = 3.4028234663852886e38
_RANGES: Mapping[tuple[str, str], tuple[float, float]] = {
    ("integer", "int32"): (-(2**31), 2**31 - 1),
    ("integer", "int64"): (-(2**63), 2**63 - 1),
    ("number", "float"): (-_LARGEST_FLOAT, _LARGEST_FLOAT),
}
MOST_REFUSED = 20
"""After so many objects that block the upgrade, the survey ends."""
MOST_UNFINISHED = 3
"""After so many objects that take too many steps, it ends, too."""
MOST_STEPS = 300_000
"""For one object: every value is met with the words of its schemas."""
MOST_VIOLATIONS = 20
"""Violations of one object that are listed."""
_TITLE = "validating upgrade for CRD"
PAGE_ITEMS = 50
"""Each object may have 1.5 MiB, and one page at a time is in memory."""
WARNING_CHARACTERS = 3000
REFUSAL_CHARACTERS = 930
"""So that it fits into a condition with its remedy and the text about the installed revision."""
LEAST_CHARACTERS = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """The schema that the objects of one version must match."""

    version: str
    schema: Schema
    before: Schema
    """Schema of the version at which they are listed, as it is now."""


def plan_trials(old: CustomResourceDefinition, new: CustomResourceDefinition) -> dict[str, list[Trial]]:
    """Return the trials by the version at which objects are listed; none if every object matches anyway.

    Args:
        old: as on the cluster.
        new: as it will be applied.
    """
    trials: dict[str, list[Trial]] = {}
    added = [version for name, version in new.versions.items() if name not in old.versions and not new.converts]
    for version in old.served[-MOST_PAIRED:] if old.established else ():
        if version.name not in new.versions:
            continue
        after = [new.versions[version.name], *added[:MOST_PAIRED]]
        refusing = [other for other in after if _may_refuse(version.schema, other.schema)]
        if refusing:
            trials[version.name] = [
                Trial(version=other.name, schema=other.schema, before=version.schema) for other in refusing
            ]
    return trials


def _may_refuse(old: Schema, new: Schema) -> bool:
    if old == new:
        return False
    differences = compare_schemas(old, new)
    return any(each.level == "Error" for each in differences) or narrows_unknown_fields(old, new)


class Survey:
    """Validates the objects of one definition.

    Args:
        crd: its name.
        safety: spec.crdUpgradeSafety.
    """

    def __init__(self, crd: str, safety: CrdUpgradeSafety) -> None:
        self._crd, self._safety = crd, safety
        self._kept: dict[Enforcement, list[CheckFinding]] = {"Error": [], "Warn": []}
        self._counts: dict[Enforcement, int] = {"Error": 0, "Warn": 0}
        self._checked = self._unfinished = 0

    @property
    def has_enough(self) -> bool:
        """Whether further objects would add nothing."""
        return self._counts["Error"] >= MOST_REFUSED or self._unfinished >= MOST_UNFINISHED

    def add(self, manifest: Mapping[str, Any], trials: Sequence[Trial]) -> None:
        """Validate one object."""
        self._checked += 1
        found = [finding for trial in trials for finding in self._try(manifest, trial)]
        for level in ("Error", "Warn"):
            if first := next((each for each in found if level_of(each, self._crd, self._safety) == level), None):
                self._counts[level] += 1
                if len(self._kept[level]) < LINES:
                    self._kept[level].append(first)
                return

    def findings(self) -> list[CheckFinding]:
        """Return some objects by name; the first one of each level has the counts."""
        return [*self._findings_at("Error"), *self._findings_at("Warn")]

    def _findings_at(self, level: Enforcement) -> list[CheckFinding]:
        told = sorted(self._kept[level], key=lambda finding: finding.text)
        if not told:
            return []
        rest = "; the others were not checked" if self.has_enough else ""
        count = f"({self._checked} checked, {self._counts[level]} invalid{rest})"
        return [replace(told[0], text=f"{told[0].text} {count}"), *told[1:]]

    def _try(self, manifest: Mapping[str, Any], trial: Trial) -> list[CheckFinding]:
        try:
            violations = _violations(manifest, trial.schema)
            known = {(each.field, each.reason) for each in _violations(manifest, trial.before)} if violations else set()
        except TooManyStepsError:
            self._unfinished += 1
            return [_finding(manifest, trial.version, _TOO_MANY_STEPS, is_new=True)]
        return [
            _finding(manifest, trial.version, each, is_new=(each.field, each.reason) not in known)
            for each in violations
        ]


def _violations(manifest: Mapping[str, Any], schema: Schema) -> list[Violation]:
    return list(islice(validate(admit(manifest, schema), schema), MOST_VIOLATIONS))


def _finding(manifest: Mapping[str, Any], version: str, violation: Violation, *, is_new: bool) -> CheckFinding:
    name = "/".join(filter(None, (text(manifest, "metadata", field) for field in ("namespace", "name"))))
    where = f"{violation.field}: " if violation.field else ""
    return CheckFinding(
        check="existingResources",
        text=f"existing custom object {name} failed validation for new schema version {version}: "
        f"{where}{violation.reason}",
        version=version,
        path=violation.path,
        level="Error" if is_new else "Warn",
    )


@dataclass(frozen=True, slots=True)
class Violation:
    """One violation of a schema."""

    field: str
    """In the object, such as `spec.ports[0].name`; empty for the object itself."""
    path: str
    """In the schema, such as `^.spec.ports.items.name`."""
    reason: str


_TOO_MANY_STEPS = Violation("", ROOT, "has too many values to validate with that many schemas")


@dataclass(frozen=True, slots=True)
class _Location:
    """A place in an object and in its schema."""

    field: str
    path: str
    steps: Steps

    def at(self, name: str, step: str = "") -> _Location:
        """Return the location of a field; `step` is its name in the schema, if different."""
        field = path_below(self.field, f".{name}" if self.field else name)
        return _Location(field, path_below(self.path, f".{step or name}"), self.steps)

    def item(self, index: int) -> _Location:
        """Return the location of a list item."""
        return _Location(path_below(self.field, f"[{index}]"), path_below(self.path, ".items"), self.steps)

    def found(self, reason: str) -> Violation:
        """Return a violation here."""
        return Violation(self.field, self.path, reason)


_STEPS, _CHARACTERS = 4, 50
"""Of one value and one schema; and how many characters of a text a pattern meets in one step."""
Checks = Callable[[Any, Schema, _Location], Iterator[Violation]]


def validate(manifest: Mapping[str, Any], schema: Schema) -> Iterator[Violation]:
    """Yield the violations of a custom resource.

    Raises: TooManyStepsError, also while iterating.
    """
    return _validate(_only_name(manifest), _without_metadata(schema), _Location("", ROOT, Steps(MOST_STEPS)))


def _only_name(manifest: Mapping[str, Any]) -> dict[str, Any]:
    metadata = mapping(manifest, "metadata")
    return {**manifest, "metadata": {name: metadata[name] for name in ("name", "generateName") if name in metadata}}


def _without_metadata(schema: Schema) -> Schema:
    properties = mapping(schema, "properties")
    metadata = mapping(properties, "metadata", "properties")
    named = {name: metadata[name] for name in ("name", "generateName") if name in metadata}
    return {**schema, "properties": {**properties, "metadata": {"type": "object", "properties": named}}}


def _validate(value: Any, schema: Schema, place: _Location) -> Iterator[Violation]:
    place.steps.spend(_STEPS + _count_steps(value, schema))
    is_null = value is None and schema.get("nullable") is True
    if not is_null and (reason := _wrong_type(value, schema)):
        yield place.found(reason)
        return
    # Null is never among enumerated values, even if it is enumerated.
    if (allowed := sequence(schema, "enum")) and (is_null or not any(same(value, each) for each in allowed)):
        yield place.found(f"must be one of {listed(allowed)}")
    if is_null:
        return
    for kind, checks in _CHECKS:
        if isinstance(value, kind) and not isinstance(value, bool):
            yield from checks(value, schema, place)
    yield from _combined(value, schema, place)


def _count_steps(value: Any, schema: Schema) -> int:
    words = sum(len(schema[field]) for field in ("enum", "required") if isinstance(schema.get(field), list))
    return words + (len(value) // _CHARACTERS if isinstance(value, str) else 0)


def _wrong_type(value: Any, schema: Schema) -> str:
    if schema.get(INT_OR_STRING) is True:
        return "" if isinstance(value, str) or _is_integer(value) else "must be an integer or a string"
    type_ = text(schema, "type")
    return "" if _TYPES.get(type_, lambda _: True)(value) else f"must be of type {type_}"


def _is_integer(value: Any) -> bool:
    found = number(value)
    return found is not None and found % 1 == 0


_TYPES: Mapping[str, Callable[[Any], bool]] = {
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "integer": _is_integer,
    "number": lambda value: number(value) is not None,
    "array": lambda value: isinstance(value, list),
    "object": lambda value: isinstance(value, dict),
}


# values of one type


def _text(value: str, schema: Schema, place: _Location) -> Iterator[Violation]:
    yield from _sized(len(value), schema, place, "Length", "characters")
    if (pattern := text(schema, "pattern")) and not matches(value, pattern):
        yield place.found(f"does not match the pattern {compact(pattern)}")
    if (name := text(schema, "format")) and not has_format(value, name):
        yield place.found(f"does not have the format {name}")


def _numeric(value: float, schema: Schema, place: _Location) -> Iterator[Violation]:
    most, least, step = (number(schema.get(name)) for name in ("maximum", "minimum", "multipleOf"))
    if most is not None and (value > most or (value == most and schema.get("exclusiveMaximum"))):
        yield place.found(f"is above the maximum {compact(most)}" if value > most else f"is not below {compact(most)}")
    if least is not None and (value < least or (value == least and schema.get("exclusiveMinimum"))):
        yield place.found(
            f"is below the minimum {compact(least)}" if value < least else f"is not above {compact(least)}"
        )
    lowest, highest = _RANGES.get((text(schema, "type"), text(schema, "format")), (value, value))
    if not lowest <= value <= highest:
        yield place.found(f"does not have the format {schema['format']}")
    if step and not is_multiple(value, step):
        yield place.found(f"must be a multiple of {compact(step)}")


def _array(value: list[Any], schema: Schema, place: _Location) -> Iterator[Violation]:
    yield from _sized(len(value), schema, place, "Items", "items")
    if (schema.get("uniqueItems") or schema.get("x-kubernetes-list-type") == "set") and _has_duplicates(value):
        yield place.found("has duplicate items")
    if schema.get("x-kubernetes-list-type") == "map":
        keys = list(map(text, sequence(schema, "x-kubernetes-list-map-keys")))
        if _has_duplicates([{key: mapping(item).get(key) for key in keys} for item in value]):
            yield place.found(f"has two items with the same {' and '.join(keys)}")
    items = schema.get("items")
    if isinstance(items, dict):
        for index, item in enumerate(value):
            yield from _validate(item, items, place.item(index))


def _object(value: Mapping[str, Any], schema: Schema, place: _Location) -> Iterator[Violation]:
    yield from _sized(len(value), schema, place, "Properties", "fields")
    for name in map(text, sequence(schema, "required")):
        if name not in value:
            yield place.at(name).found("is required")
    if schema.get(EMBEDDED) is True:
        yield from (place.at(name).found("is required") for name in TYPE_META[:2] if not value.get(name))
    properties, others = mapping(schema, "properties"), schema.get("additionalProperties")
    for name, item in value.items():
        if name in properties:
            yield from _validate(item, mapping(properties[name]), place.at(name))
        elif isinstance(others, dict):
            yield from _validate(item, others, place.at(name, "additionalProperties"))


def _sized(size: int, schema: Schema, place: _Location, suffix: str, unit: str) -> Iterator[Violation]:
    most, least = number(schema.get(f"max{suffix}")), number(schema.get(f"min{suffix}"))
    if most is not None and size > most:
        yield place.found(f"has more than {compact(most)} {unit}")
    if least is not None and size < least:
        yield place.found(f"has fewer than {compact(least)} {unit}")


def _has_duplicates(items: list[Any]) -> bool:
    return len(set(map(canonical, items))) < len(items)


_CHECKS: tuple[tuple[Any, Checks], ...] = ((str, _text), (int | float, _numeric), (list, _array), (dict, _object))


# several schemas at once


def _combined(value: Any, schema: Schema, place: _Location) -> Iterator[Violation]:
    for part in sequence(schema, "allOf"):
        yield from _validate(value, mapping(part), place)
    if (parts := sequence(schema, "anyOf")) and not _count_fitting(value, parts, place):
        yield place.found("must match a schema of anyOf")
    if (parts := sequence(schema, "oneOf")) and (count := _count_fitting(value, parts, place)) != 1:
        yield place.found(f"must match one schema of oneOf, but matches {count or 'none'}")
    if (part := schema.get("not")) is not None and _count_fitting(value, [part], place):
        yield place.found('must not match the schema of "not"')


def _count_fitting(value: Any, schemas: Sequence[Any], place: _Location) -> int:
    return sum(not any(_validate(value, mapping(schema), place)) for schema in schemas)


def has_format(text: str, name: str) -> bool:
    """Whether a text has a format; true if the API server does not know the format."""
    known = name.replace("-", "")
    if known in _PATTERNS:
        return matches(text, _PATTERNS[known])
    try:
        _PARSERS.get(known, str)(text)
    except ValueError:
        return False
    return True


def matches(text: str, pattern: str) -> bool:
    """Whether a pattern matches anywhere in a text; true for a malformed one, which the API server refuses."""
    compiled = _compiled(pattern)
    return compiled is None or compiled.search(text) is not None


@lru_cache(maxsize=512)
def _compiled(pattern: str) -> Any:
    try:
        return re2.compile(pattern, _OPTIONS)
    except re2.error:
        return None


def _cidr(text: str) -> None:
    address, slash, bits = text.partition("/")
    if not slash or not bits.isascii() or not bits.isdigit():
        raise ValueError(text)
    ipaddress.ip_interface(f"{address}/{bits}")


_PARSERS: Mapping[str, Callable[[str], object]] = {
    "ipv4": ipaddress.IPv4Address,
    "ipv6": ipaddress.IPv6Address,
    "cidr": _cidr,
    "date": date.fromisoformat,
}
"""By format, what fails with a ValueError for a text that does not have it."""


def inspect_upgrade(
    client: Client, path: str, manifest: Mapping[str, Any], safety: CrdUpgradeSafety
) -> tuple[str, ...]:
    """Compare a CustomResourceDefinition with the one on the cluster; a new one may be applied.

    Args:
        client: acts as the account that applies it.
        path: of the definition.
        manifest: as it will be applied.
        safety: spec.crdUpgradeSafety.

    Returns: warnings.
    Raises: BundleError (UnsafeCRDUpgrade); ApiError if the cluster cannot be read.
    """
    new = read_definition(manifest)
    if is_off(new.name, safety):
        return ()
    found = attempt(lambda: client.get(path), HTTPStatus.NOT_FOUND)
    if found is None:
        return ()
    old = read_definition(found.value)
    if old.exempt or new.exempt:
        annotation = f'{names.SAFE_CRD_UPGRADE_VALIDATION}: "false"'
        return (f"{_title(new.name)}not checked, since it has the annotation {annotation}",)
    findings = compare(old, new)
    trials = {} if is_off(new.name, safety, "existingResources") else plan_trials(old, new)
    existing, failure = _survey(client, old, trials, Survey(new.name, safety))
    return _judge(new.name, [*findings, *_unevaluated(findings, trials), *existing], failure, safety)


def _survey(
    client: Client, old: CustomResourceDefinition, trials: Mapping[str, Sequence[Trial]], survey: Survey
) -> tuple[list[CheckFinding], ApiError | None]:
    for version, tried in trials.items():
        pages = client.pages(replace(old.resource, version=version).path(), limit=PAGE_ITEMS)
        try:
            for item in (item for page in pages for item in page.items):
                if survey.has_enough:
                    break
                survey.add(item, tried)
        except ApiError as error:
            text = f"existing custom objects of version {version} could not be listed: {error}"
            unlisted = CheckFinding(check="existingResources", text=text, version=version)
            return [*survey.findings(), unlisted], error
    return survey.findings(), None


def _unevaluated(findings: Sequence[CheckFinding], versions: Mapping[str, object]) -> list[CheckFinding]:
    added = {f.version for f in findings if (f.check, f.level) == ("xvalidations", "Error") and f.version in versions}
    text = "rules added to x-kubernetes-validations of version {} were not evaluated for existing objects"
    return [
        CheckFinding(check="existingResources", text=text.format(version), version=version, level="Warn")
        for version in sorted(added)
    ]


def _judge(
    crd: str, findings: Sequence[CheckFinding], failure: ApiError | None, safety: CrdUpgradeSafety
) -> tuple[str, ...]:
    title = _title(crd)
    levels = [(level_of(finding, crd, safety), finding) for finding in findings]
    errors = [finding for level, finding in levels if level == "Error"]
    if failure and failure.transient and len(errors) == 1 and errors[0] is findings[-1]:
        raise failure
    if errors:
        remedy = _remedy(crd, errors)
        room = max(REFUSAL_CHARACTERS - len(title) - len(remedy), LEAST_CHARACTERS)
        raise BundleError(Reason.UNSAFE_CRD_UPGRADE, f"{title}{'; '.join(tell(errors, room))}; {remedy}")
    warned = tell([finding for level, finding in levels if level == "Warn"], WARNING_CHARACTERS)
    return tuple(f"{title}{line}" for line in warned)


def _title(crd: str) -> str:
    return f'{_TITLE} "{crd}": '


def is_about_upgrade(warning: str) -> bool:
    """Whether a warning is about a change of a definition, which is over once it is made, and not about what is."""
    return warning.startswith(_TITLE)


# What the API server refuses as well: no rule lets it through.
_FINAL = {
    "scope": "keep the scope, or delete the definition with its objects, because the API server never changes it",
    "storedVersionRemoval": (
        "keep these among its versions, with served: false if unused, until a storage migration has stored all objects "
        "at another version and removed these from status.storedVersions"
    ),
}


def _remedy(crd: str, errors: Sequence[CheckFinding]) -> str:
    found = sorted({finding.check for finding in errors})
    remedies = [_FINAL[check] for check in found if check in _FINAL]
    if checks := ", ".join(check for check in found if check not in _FINAL):
        rule = f"{{crd: {crd}, checks: [{checks}], enforcement: Warn}}"
        remedies.append(f"make the change compatible, or allow it in spec.crdUpgradeSafety: {{rules: [{rule}]}}")
    return "; ".join(remedies)


EMBEDDED = "x-kubernetes-embedded-resource"


TYPE_META = ("apiVersion", "kind", "metadata")


@dataclass(frozen=True, slots=True)
class Admission:
    """What admitting a custom resource leaves to be told; fields are like those of a `Violation`."""

    unknown: list[tuple[str, str, tuple[str, ...]]] = field(default_factory=list)
    """Fields that are dropped because their schema lacks them: field, its name, and the names that the schema has.

    Where the schema names no field, the API server drops all and says nothing; so does this.
    """
    resources: list[tuple[str, Mapping[str, Any]]] = field(default_factory=list)
    """Where the resource and those embedded in it are; their `TYPE_META` is not admitted."""


def admit(manifest: Mapping[str, Any], schema: Schema, admission: Admission | None = None) -> dict[str, Any]:
    """Return a custom resource, pruned and defaulted, and record in `admission` what was dropped.

    Raises: TooManyStepsError.
    """
    return _admit_fields(manifest, schema, Steps(MOST_STEPS), admission, is_resource=True)


def _admit(value: Any, schema: Schema, steps: Steps, admission: Admission | None, at: str = "") -> Any:
    if isinstance(value, dict):
        return _admit_fields(value, schema, steps, admission, at, is_resource=schema.get(EMBEDDED) is True)
    if isinstance(value, list) and isinstance(items := schema.get("items"), dict):
        return [
            _admit(item, items, steps, admission, path_below(at, f"[{index}]") if admission else "")
            for index, item in enumerate(value)
        ]
    return value


def _admit_fields(
    value: Mapping[str, Any],
    schema: Schema,
    steps: Steps,
    admission: Admission | None,
    at: str = "",
    *,
    is_resource: bool,
) -> dict[str, Any]:
    properties, others = mapping(schema, "properties"), schema.get("additionalProperties")
    steps.spend(1 + len(properties))
    if admission and is_resource:
        admission.resources.append((at, value))
    admitted: dict[str, Any] = {}
    for name, item in value.items():
        where = path_below(at, f".{name}" if at else name) if admission else ""
        if is_resource and name in TYPE_META:
            admitted[name] = item
        elif name in properties or isinstance(others, dict):
            below = mapping(properties.get(name, others))
            if item is not None or below.get("nullable") is True:
                admitted[name] = _admit(item, below, steps, admission, where)
        elif others is True or schema.get(PRESERVE):
            admitted[name] = item
        elif admission and (properties or is_resource):
            admission.unknown.append((where, name, (*(TYPE_META if is_resource else ()), *properties)))
    for name, property_ in properties.items():
        below = mapping(property_)
        if below.get("default") is not None and name not in admitted:
            admitted[name] = _admit(below["default"], below, steps, None)
    return admitted
