"""The processor `rollouts`: pods are replaced when ConfigMaps and Secrets of the bundle that they read change.

An annotation of the pod template is a digest of these objects: of their data alone, in whichever order and notation.
Releases must not compute it differently, because that would replace every pod; `test_rollouts.py` has fixed values.

Whoever may read pods sees the digest, and in the pod what it is made of, but may not read Secrets. Checksums of charts
and hashed names allow billions of guesses a second at a password. So each Secret is stretched as passwords are stored,
which costs a guess about 10 ms, and salted with its name, so that no table of digests fits several. A random key would
allow no guess, but then the same inputs would no longer give the same revision, here, at the desk and after a restart.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from functools import cache
from typing import Any

from rukpak.api.names import CONFIG_DIGEST, RECREATE, ROLLOUT
from rukpak.api.plugins import ProcessRequest, Rendering
from rukpak.api.v1alpha2.processors import Rollouts
from rukpak.controller.formats.objects import (
    CONFIG_KINDS,
    Object,
    ObjectKey,
    group_of,
    identify,
    list_references,
    pod_template_path,
)
from rukpak.controller.processors import Charge, change_each, with_marks
from rukpak.controller.untrusted import mapping, strings, text

_DEFAULT_KINDS = Rollouts().kinds
_ITERATIONS = 10_000
_STEPS = 15_000
"""What these cost, in microseconds."""
_STEP_BYTES = 32
_ENCODE = json.JSONEncoder(sort_keys=True, separators=(",", ":")).encode


class RolloutsProcessor:
    """Writes the digest of what pods read to their templates."""

    def validate(self, parameters: Mapping[str, Any], path: str) -> list[str]:  # noqa: ARG002 - the schema checks all
        """Return no problems."""
        return []

    def process(self, request: ProcessRequest) -> Rendering:
        """Return the rendering with a digest in each pod template that refers to config of the bundle."""
        kinds = frozenset(request.parameters.get("kinds") or _DEFAULT_KINDS)
        found = {
            identify(item)._replace(namespace=_namespace_of(item, request)): item
            for item in request.rendering.objects
            if item["kind"] in CONFIG_KINDS and not group_of(item) and not _is_left_out(item)
        }

        @cache
        def _digest(config: ObjectKey) -> str:
            return digest_of(config, found[config], request.charge)

        def _mark(item: Object) -> Object:
            path = pod_template_path(group_of(item), item["kind"])
            if path is None or item["kind"] not in kinds or not _may_change(item):
                return item
            namespace, read = _namespace_of(item, request), set[ObjectKey]()
            for kind, name, is_optional in list_references(mapping(item, *path, "spec")):
                if not is_optional:  # pods start without it
                    request.charge(0, 1)
                    read.add(ObjectKey("", kind, namespace, name))
            digests = [[config.kind, config.name, _digest(config)] for config in sorted(read & found.keys())]
            if not digests:
                return item
            digest = hashlib.sha256(_ENCODE(digests).encode()).hexdigest()
            return with_marks(item, path, {"annotations": {CONFIG_DIGEST: f"sha256:{digest}"}})

        return change_each(request.rendering, _mark, request.charge)


def digest_of(config: ObjectKey, item: Object, charge: Charge) -> str:
    """Return the digest of the data of a ConfigMap or Secret; that of a Secret takes as long as to check a password.

    Args:
        config: which one it is.
        item: the object, unchecked.
        charge: of the request.
    """
    # As the API server stores it: stringData is another notation, and wins.
    written = {key: base64.b64encode(value.encode()).decode() for key, value in strings(item, "stringData").items()}
    data = {**strings(item, "data"), **(written if config.kind == "Secret" else {})}
    content = _ENCODE([data, *filter(None, [strings(item, "binaryData")])]).encode()
    charge(0, len(content) // _STEP_BYTES)
    if config.kind != "Secret":
        return hashlib.sha256(content).hexdigest()
    charge(0, _STEPS)
    salt = f"{config.namespace}/{config.name}".encode()
    return hashlib.pbkdf2_hmac("sha512", content, salt, _ITERATIONS).hex()


def _namespace_of(item: Object, request: ProcessRequest) -> str:
    return item["metadata"].get("namespace") or request.install_namespace


def _is_left_out(item: Object) -> bool:
    return text(item, "metadata", "annotations", ROLLOUT) == "false"


def _may_change(item: Object) -> bool:
    # The template of a Job is immutable.
    is_immutable = item["kind"] == "Job" and text(item, "metadata", "annotations", RECREATE) != "true"
    return not (is_immutable or _is_left_out(item))
