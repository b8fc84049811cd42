"""Targets: structured records: manifests of images, Secrets, definitions, revisions, replies of the API server."""

from __future__ import annotations

import base64
import zlib
from typing import Any

from hack.fuzzing.target import Target, check_message, expect, refusals
from rukpak.api.bounds import LONGEST_RETRY_AFTER
from rukpak.api.plugins import Limits
from rukpak.api.v1alpha2.policies import CrdUpgradeSafety
from rukpak.controller.apply.crd_changes import CustomResourceDefinition, compare, read_definition, tell
from rukpak.controller.apply.crd_upgrade import WARNING_CHARACTERS, Survey, plan_trials
from rukpak.controller.apply.replies import classify
from rukpak.controller.building.revision import pack_objects, pack_terms, unpack_terms
from rukpak.controller.formats.composer import NodeBudget
from rukpak.controller.formats.manifests import read_documents
from rukpak.controller.formats.objects import ObjectKey, find_identity_problem
from rukpak.controller.kube.encoding import encode
from rukpak.controller.kube.errors import reply_error
from rukpak.controller.sources.credentials import DOCKER_CONFIG, DOCKER_CONFIG_JSON, find_credentials, parse_secret
from rukpak.controller.sources.image.manifest import Image, check_size, choose, name_chart, parse_manifest, plan_layers
from rukpak.controller.untrusted import mapping

_IMAGE = "spec.sources[0].image"
_NEXT = b"\n=== \n"


def check_manifest(data: bytes) -> None:
    """Read a manifest or an index, and plan its layers or choose among its platforms."""
    with refusals():
        document = parse_manifest(data, _IMAGE)
        if isinstance(document, Image):
            check_size(document, Limits(), _IMAGE)
            expect(0 <= document.size <= Limits().compressed_bytes, f"{document.size} bytes")
            plan_layers(document, _IMAGE)
        else:
            expect(choose(document, "linux/amd64", _IMAGE) in document.manifests, "an entry that is not in the index")


def check_chart_config(data: bytes) -> None:
    """Read the config of a chart, which contains a file name."""
    with refusals():
        expect("/" not in name_chart(data, _IMAGE), "a name that is a path")


def check_docker_config(data: bytes) -> None:
    """Read pull secrets and match them, without showing any of their contents."""
    for type_, key in ((DOCKER_CONFIG_JSON, ".dockerconfigjson"), (DOCKER_CONFIG, ".dockercfg")):
        with refusals():
            entries = parse_secret(_secret(type_, {key: data}), "image", _IMAGE).registries
            expect(all(entry in entries for entry in find_credentials(entries, "quay.io/foo/bar")), "other entries")


def check_secret(data: bytes) -> None:
    """Read a Secret whose keys start the lines of the input."""
    keys = ("username", "password", "bearerToken", "ssh-privatekey", "identity", "known_hosts", "ca.crt")
    values = dict(zip(keys, data.split(_NEXT), strict=False))
    for kind in ("image", "git", "http", "chart", "example.com/other"):
        with refusals():
            found = parse_secret(_secret("Opaque", values), kind, "spec.sources[0].auth")
            header = f"{found.username}{found.password}{found.bearer_token}"
            expect("\n" not in header and "\r" not in header, "a header of several lines")


def _secret(type_: str, values: dict[str, bytes]) -> dict[str, Any]:
    data = {key: base64.b64encode(value).decode() for key, value in values.items()}
    return {"metadata": {"name": "s", "namespace": "n"}, "type": type_, "data": data}


def check_definitions(data: bytes) -> None:
    """Compare the first document with the second, as definitions, and validate the others as their objects."""
    with refusals():
        documents = [item.value for item in read_documents(data, "a.yaml", budget=NodeBudget(50_000))]
        old, new = (read_definition(mapping(value)) for value in [*documents, {}, {}][:2])
        findings = [*compare(old, new), *_survey(old, new, documents[2:])]
        for line in tell(findings, WARNING_CHARACTERS):
            encode(line)
            expect(len(line) <= WARNING_CHARACTERS, f"a line of {len(line)} characters")


def _survey(old: CustomResourceDefinition, new: CustomResourceDefinition, objects: list[Any]) -> list[Any]:
    survey = Survey(new.name, CrdUpgradeSafety())
    for trials in plan_trials(old, new).values():
        for item in objects:
            if not find_identity_problem(item):
                survey.add(item, trials)
    return survey.findings()


def check_revision(data: bytes) -> None:
    """Read contents of the revision store: objects and terms."""
    objects, _, terms = data.partition(_NEXT)
    for packed in (objects, zlib.compress(objects, 1)):
        with refusals(ValueError):
            revision = unpack_terms("sha256:0", terms, packed).unpacked()
            expect(
                unpack_terms("sha256:0", pack_terms(revision), pack_objects(revision)).unpacked() == revision,
                "another revision",
            )


def check_reply(data: bytes) -> None:
    """Interpret a reply of the API server, parts of which a webhook may have written."""
    header, _, body = data.partition(b"\n")
    for status in (400, 403, 404, 409, 422, 429, 500, 503):
        for kind in ("Secret", "ConfigMap"):
            error = reply_error(status, {"Retry-After": header.decode("latin-1")}, body)
            failure = classify(error, ObjectKey("", kind, "n", "x"), install_namespace="n")
            check_message(failure.message)
            check_message(str(error))
            for seconds in (error.retry_after, failure.retry_after):
                expect(seconds is None or 0 <= seconds <= LONGEST_RETRY_AFTER, f"{seconds} s to wait")


_MANIFEST_WORDS = (
    b"null",
    b'"schemaVersion":2', b'"layers":[', b'"manifests":[', b'"mediaType":"', b'"digest":"sha256:', b'"size":-1',
    b'"platform":{"os":"linux","architecture":"amd64"}', b'"annotations":{"org.opencontainers.image.title":"', b"1e400",
)  # fmt: skip
_DOCKER_WORDS = (
    b'{"auths":{"',
    b'"auth":"',
    b'"username":"',
    b'"identitytoken":"',
    b"https://",
    b"/v2/",
    b"*.",
    b"dTpw",
)
_SCHEMA_WORDS = (
    b"\n---\n", b"openAPIV3Schema:", b"properties:", b"additionalProperties:", b"items:", b"type: ", b"pattern: ",
    b"maximum: ", b"multipleOf: ", b"enum: ", b"anyOf:", b"oneOf:", b"not:", b"nullable: true", b"format: date-time",
    b"x-kubernetes-list-type: map", b"x-kubernetes-int-or-string: true", b"x-kubernetes-validations:", b"required: ",
    b"x-kubernetes-preserve-unknown-fields: true", b"default: ", b"maxLength: ", b"uniqueItems: true", b"format: cidr",
)  # fmt: skip
_REVISION_WORDS = (_NEXT, b'"objects":[', b'"hooks":[', b'"format":"v1"', b'"pins":[]', b'"optional":[]', b'"drift":')
_REPLY_WORDS = (
    b'{"kind":"Status","message":"', b'"reason":"Invalid"', b'"details":{"causes":[{"reason":"', b'"field":"',
    b'"retryAfterSeconds":', b"FieldManagerConflict", b'admission webhook \\"a\\" denied the request: ',
    b"exceeded quota", b"is immutable", b'namespaces \\"x\\" not found', b"9" * 20, b"mvcc: database space exceeded",
)  # fmt: skip

TARGETS = (
    Target(name="manifests", check=check_manifest, covers="manifests and indexes of images", words=_MANIFEST_WORDS),
    Target(
        name="chart-configs", check=check_chart_config, covers="configs of charts", words=(b'{"name":"', b'"version":"')
    ),
    Target(
        name="docker-configs", check=check_docker_config, covers="dockerconfigjson and dockercfg", words=_DOCKER_WORDS
    ),
    Target(
        name="secrets", check=check_secret, covers="Secrets of sources", words=(_NEXT, b"-----BEGIN CERTIFICATE-----\n")
    ),
    Target(name="definitions", check=check_definitions, covers="schemas of CRDs, compared", words=_SCHEMA_WORDS),
    Target(name="revisions", check=check_revision, covers="records of the revision store", words=_REVISION_WORDS),
    Target(name="replies", check=check_reply, covers="replies of the API server", words=_REPLY_WORDS),
)
