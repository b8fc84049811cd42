"""The processor `images`: which rule applies to the name of an image, and what it becomes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from typing import Any

from rukpak.api.plugins import ProcessRequest, Rendering
from rukpak.api.v1alpha2.fields import parse_field_path
from rukpak.controller.content.limits import quote
from rukpak.controller.formats.objects import Object, group_of, pod_template_path
from rukpak.controller.processors import change_each

_DOCKER_HUB = "docker.io/"
_OFFICIAL = "library/"
_IMAGES = (
    ("spec", "initContainers", "image"),
    ("spec", "containers", "image"),
    ("spec", "ephemeralContainers", "image"),
    ("spec", "volumes", "image", "reference"),
)


def replace_image(image: str, rules: Sequence[Mapping[str, Any]]) -> str:
    """Return the image as the rule with the longest matching `from` makes it, or unchanged if none matches.

    `from` matches the name as it is written, and with its registry: nginx is docker.io/library/nginx.
    """
    name, suffix = _split(image)
    matches = [(rule, rest) for rule in rules for rest in _rests(name, rule["from"])]
    if not matches:
        return image
    rule, rest = max(matches, key=lambda match: len(match[0]["from"]))
    return f"{rule.get('to') or rule['from']}{rest}{_suffix(rule, suffix)}"


def _rests(name: str, prefix: str) -> Iterator[str]:
    for spelling in dict.fromkeys((name, _with_registry(name))):
        if spelling == prefix or (prefix.endswith("/") and spelling.startswith(prefix)):
            yield spelling[len(prefix) :]
            return


def _split(image: str) -> tuple[str, str]:
    without_digest = image.partition("@")[0]
    folder, slash, last = without_digest.rpartition("/")
    name = folder + slash + last.partition(":")[0]
    return name, image[len(name) :]


def _with_registry(name: str) -> str:
    registry, slash, _ = name.partition("/")
    if slash and ("." in registry or ":" in registry or registry == "localhost"):
        return name
    return f"{_DOCKER_HUB}{name}" if slash else f"{_DOCKER_HUB}{_OFFICIAL}{name}"


def _suffix(rule: Mapping[str, Any], suffix: str) -> str:
    if rule.get("digest"):
        return f"@{rule['digest']}"
    return f":{rule['tag']}" if rule.get("tag") else suffix


class ImagesProcessor:
    """Replaces images in pods, pod templates and given fields of custom resources."""

    def validate(self, parameters: Mapping[str, Any], path: str) -> list[str]:
        """Return the problems of the parameters."""
        problems = []
        for index, rule in enumerate(parameters.get("images") or ()):
            place, to = f"{path}.images[{index}]", rule.get("to")
            if to is not None and to.endswith("/") != rule["from"].endswith("/"):
                problems.append(f'{place}.to: must end with "/" if from does, and only then')
            if not (to or rule.get("tag") or rule.get("digest")):
                problems.append(f"{place}: set at least one of to, tag and digest")
            if rule.get("tag") and rule.get("digest"):
                problems.append(f"{place}.digest: must not be set together with tag")
        for index, fields in enumerate(parameters.get("imageFields") or ()):
            problems += _check_paths(fields["paths"], f"{path}.imageFields[{index}].paths")
        return problems

    def process(self, request: ProcessRequest) -> Rendering:
        """Return the rendering with all images replaced that a rule matches."""
        rules = request.parameters["images"]
        fields = _fields_by_kind(request.parameters.get("imageFields") or ())
        found: set[str] = set()

        def _replace_image(image: str) -> str:
            request.charge(0, len(rules))
            found.add(image)
            return replace_image(image, rules)

        def _replace(item: Object) -> Object:
            kind = group_of(item), item["kind"]
            template = pod_template_path(*kind)
            in_pods = [] if template is None else [(*template, *path) for path in _IMAGES]
            result, paths = item, [*in_pods, *fields.get(kind, ())]
            request.charge(0, len(paths))
            for path in paths:
                result = _change_texts(result, path, _replace_image)
            return result

        made = change_each(request.rendering, _replace, request.charge)
        request.charge(0, len(rules) * len(found))
        return replace(made, warnings=(*made.warnings, *_describe_unmatched(rules, found, request.path)))


def _describe_unmatched(rules: Sequence[Mapping[str, Any]], found: Iterable[str], path: str) -> Iterator[str]:
    names = sorted({_split(image)[0] for image in found})
    for index, rule in enumerate(rules):
        start = rule["from"]
        if start.endswith("/") or rule.get("optional") or any(list(_rests(name, start)) for name in names):
            continue
        nearest = get_close_matches(start, names, n=1)
        like = f"; the nearest is {quote(nearest[0])}" if nearest else ""
        yield f"{path}.images[{index}]: from matches no image{like}; correct it, or set optional: true"


def _check_paths(paths: Sequence[str], place: str) -> list[str]:
    problems = []
    for index, path in enumerate(paths):
        try:
            parse_field_path(path)
        except ValueError as error:
            problems.append(f"{place}[{index}]: {error}")
    return problems


def _fields_by_kind(given: Sequence[Mapping[str, Any]]) -> dict[tuple[str, str], list[tuple[str, ...]]]:
    result: dict[tuple[str, str], list[tuple[str, ...]]] = {}
    for fields in given:
        paths = result.setdefault((fields.get("group") or "", fields["kind"]), [])
        paths += map(parse_field_path, fields["paths"])
    return result


def _change_texts(value: Any, path: tuple[str, ...], change: Callable[[str], str]) -> Any:
    # A path through a list means each of its items.
    if isinstance(value, list):
        items = [_change_texts(item, path, change) for item in value]
        is_same = all(new is old for new, old in zip(items, value, strict=True))
        return value if is_same else items
    if not path:
        if not isinstance(value, str):
            return value
        changed = change(value)
        return value if changed == value else changed
    if not isinstance(value, dict) or path[0] not in value:
        return value
    inner = _change_texts(value[path[0]], path[1:], change)
    return value if inner is value[path[0]] else {**value, path[0]: inner}
