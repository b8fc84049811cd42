"""The processor `sops.rukpak.io/v1`: decrypts content that was encrypted with SOPS, with age and PGP keys of a Secret.

Encrypted files are decrypted before the format reads them, each as a whole; of YAML with several documents, those that
were encrypted together. Objects that are still encrypted after rendering are decrypted then, and so are whole documents
in the data of Secrets. The sops program does it: without network, and it verifies the checksum (MAC) of all values.

One repository often has the files of several clusters, each with a key of its own. So what cannot be opened stays as it
is, and is refused where it is read: by its name in the spec or in a generator, or as an object.

- Keys are never in arguments, and never in files except for PGP keys, which SOPS reads from a keyring only. It reads
  that itself: gpg and its agent are not used, since a confined program cannot start or reach them.
- What was decrypted belongs into `data` and `stringData` of Secrets, which `rukpak diff` and others do not show. In
  other places it is refused, unless the parameters allow it.
- Of what sops prints on failure nothing is shown: it may quote values.
"""

from __future__ import annotations

import base64
import binascii
import json
import os
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NoReturn

from rukpak.plugins import (
    MEBIBYTE,
    BundleError,
    Means,
    Prepared,
    PrepareRequest,
    ProcessRequest,
    ProgramFinder,
    ProgramResult,
    ProgramVersion,
    Reason,
    Refusal,
    Rendering,
    TextBudget,
    name_key,
    program_memory,
    quote,
    read_documents,
    run_program,
)

_FIELDS = frozenset({"secret", "allowOtherKinds"})
_NAME = re.compile(r"[a-z0-9](?:[-a-z0-9.]{0,251}[a-z0-9])?").fullmatch
_UNOPENED = (Reason.INVALID_CONFIG, Reason.INVALID_BUNDLE, Reason.NOT_SUPPORTED)
"""Why one file cannot be opened."""
_VERSION = re.compile(r"sops v?(3\.(?:9|[1-9][0-9])\.[0-9]+)").match
_MARK = b"ENC[AES256_GCM,"
"""How each encrypted value starts."""
_CLOUDS = {
    "kms": "AWS KMS",
    "gcp_kms": "Google Cloud KMS",
    "azure_kv": "Azure Key Vault",
    "hc_vault": "HashiCorp Vault",
    "hckms": "Huawei Cloud KMS",
}
_RECIPIENTS = {"age": "recipient", "pgp": "fp"}
_SHOWN = 5  # recipients in a message


class SopsProcessor:
    """Decrypts files of the content and rendered objects. Thread-safe."""

    def __init__(self) -> None:
        self._finder = ProgramFinder(
            "sops",
            ["--disable-version-check", "--version"],
            lambda text: found[1] if (found := _VERSION(text)) else "",
            remedy="install SOPS 3.9 or newer",
        )

    def validate(self, parameters: Mapping[str, Any], path: str) -> list[str]:
        """Return the problems of the parameters."""
        problems = [f"{name_key(path, str(key))}: unknown field; remove it" for key in parameters if key not in _FIELDS]
        secret = parameters.get("secret")
        if not isinstance(secret, Mapping):
            problems.append(f"{path}.secret: required: the Secret with the keys; set name")
        else:
            problems += [
                f"{name_key(f'{path}.secret', str(key))}: unknown field; remove it" for key in secret if key != "name"
            ]
            name = secret.get("name")
            if not isinstance(name, str) or not _NAME(name):
                problems.append(f"{path}.secret.name: must be the name of a Secret of the install namespace")
        if not isinstance(parameters.get("allowOtherKinds", False), bool):
            problems.append(f"{path}.allowOtherKinds: must be true or false")
        return problems

    def find_secrets(self, parameters: Mapping[str, Any]) -> Sequence[str]:
        """Return the name of the Secret with the keys."""
        return [parameters["secret"]["name"]]

    def find_program(self, means: Means) -> ProgramVersion:
        """Return the sops program.

        Raises: BundleError (NotSupported) if there is none, or it is older than 3.9.
        """
        return self._finder.find(means, "processor sops.rukpak.io/v1")

    def program_bytes(self, means: Means) -> int:
        """Return the bytes of memory that sops may use."""
        return program_memory(means)

    def prepare(self, request: PrepareRequest) -> Prepared:
        """Return the decrypted content of the encrypted files.

        Raises: BundleError (InvalidConfig without the right key, InvalidBundle for what was changed after it was
            encrypted, NotSupported without sops, RenderLimitExceeded); LargeTextError.
        """
        budget = TextBudget.of(request.means)
        found = list(_find_encrypted(request.tree.root, budget, request.means))
        if not found:
            return Prepared()
        files: dict[str, bytes] = {}
        secrets: list[str] = []
        unopened: dict[str, Refusal] = {}
        with self._sops(request.means, request.secrets, request.parameters, request.path) as sops:
            for path, pieces in found:
                decrypted: list[tuple[bytes, list[str]]] = []
                for piece in pieces:
                    try:
                        decrypted.append(_decrypt(piece, path, sops, budget))
                    except BundleError as error:
                        if error.reason not in _UNOPENED:
                            raise
                        unopened.setdefault(path, Refusal(problem=error.message, reason=error.reason))
                        decrypted.append((piece.text, []))
                if any(text != piece.text for (text, _), piece in zip(decrypted, pieces, strict=True)):
                    files[path] = b"".join(text for text, _ in decrypted)
                secrets += (secret for _, texts in decrypted for secret in texts)
        return Prepared(files=files, secrets=_distinct(secrets), unprepared=unopened)

    def process(self, request: ProcessRequest) -> Rendering:
        """Return the rendering with the objects decrypted that are still encrypted.

        Raises: BundleError: as for `prepare`; InvalidConfig for what was decrypted in other places than Secrets.
        """
        rendering = request.rendering
        manifests = [*rendering.objects, *(hook.manifest for hook in rendering.hooks)]
        if any(_is_encrypted(item) or any(_find_documents(item)) for item in manifests):
            budget = TextBudget.of(request.means)
            with self._sops(request.means, request.secrets, request.parameters, request.path) as sops:
                decrypted = [_decrypt_object(item, sops, budget, request.unprepared) for item in manifests]
            manifests = [item for item, _ in decrypted]
            secrets = _distinct((*rendering.secrets, *(text for _, texts in decrypted for text in texts)))
            count = len(rendering.objects)
            hooks = [
                replace(hook, manifest=item) for hook, item in zip(rendering.hooks, manifests[count:], strict=True)
            ]
            rendering = replace(rendering, objects=manifests[:count], hooks=hooks, secrets=secrets)
        if not request.parameters.get("allowOtherKinds"):
            _refuse_outside_secrets(manifests, rendering.secrets, request)
        return rendering

    @contextmanager
    def _sops(
        self, means: Means, secrets: Mapping[str, Mapping[str, bytes]], parameters: Mapping[str, Any], path: str
    ) -> Iterator[_Sops]:
        """Yield what runs sops with the keys of the Secret that the parameters name."""
        name = parameters["secret"]["name"]
        age, pgp = _read_keys(secrets.get(name, {}), f"{path}.secret: Secret {quote(name)}")
        program = self._finder.find(means, path)
        with TemporaryDirectory(prefix="keys-", dir=means.scratch) as folder:
            keyring = Path(folder, "secring.gpg")
            if pgp:
                means.occupy(len(pgp))
                keyring.touch(mode=0o600)
                keyring.write_bytes(pgp)
            yield _Sops(
                program=program.path,
                means=means,
                deadline=time.monotonic() + means.seconds,
                environment={**_ENVIRONMENT, "SOPS_AGE_KEY": age, "GNUPGHOME": folder},
                secret=f"{path}.secret: Secret {quote(name)}",
            )


# keys

_IDENTITY = re.compile(r"AGE-SECRET-KEY-(?:PQ-)?1[0-9A-Z]+").fullmatch
_BEGIN, _END = (f"-----{word} PGP PRIVATE KEY BLOCK-----".encode() for word in ("BEGIN", "END"))
_MOST_BYTES = 64 << 10
"""Of all age keys: Linux allows 128 KiB for a variable."""


def _read_keys(data: Mapping[str, bytes], place: str) -> tuple[str, bytes]:
    """Return the age identities, one a line, and the keyring of the PGP keys.

    Raises: BundleError (InvalidConfig).
    """
    age: list[str] = []
    pgp: list[bytes] = []
    for key, value in sorted(data.items()):
        where = f"{place}: key {quote(key)}"
        if key.endswith(".agekey"):
            age += _read_identities(value, where)
        elif key.endswith(".asc"):
            pgp += _read_private_keys(value, where)
    if not age and not pgp:
        _refuse(place, 'has no key of age (in a key that ends with ".agekey") or of PGP (".asc"); add one')
    identities = "\n".join(age)
    if len(identities) > _MOST_BYTES:
        _refuse(place, f"has more than {_MOST_BYTES >> 10} KiB of age keys; remove those that are not needed")
    return identities, b"".join(pgp)


def _read_identities(value: bytes, where: str) -> Iterator[str]:
    for number, line in enumerate(value.decode(errors="replace").splitlines(), 1):
        text = line.strip()
        if text and not text.startswith("#"):
            if not _IDENTITY(text):
                _refuse(where, f"line {number} is no private key of age; it starts with AGE-SECRET-KEY-1")
            yield text


def _read_private_keys(value: bytes, where: str) -> Iterator[bytes]:
    _, *blocks = value.split(_BEGIN)
    if not blocks:
        _refuse(where, "no armored private key; write it with gpg --export-secret-keys --armor")
    for block in blocks:
        lines = map(bytes.strip, block.partition(_END)[0].splitlines())
        # Headers have a colon, and the checksum, which is optional, starts with "=".
        text = b"".join(line for line in lines if b":" not in line and not line.startswith(b"="))
        try:
            yield base64.b64decode(text, validate=True)
        except binascii.Error:
            _refuse(where, "the armored private key is damaged; export it again")


def _refuse(place: str, problem: str) -> NoReturn:
    raise BundleError(Reason.INVALID_CONFIG, f"{place}: {problem}")


# the program

_ENVIRONMENT = {
    # Requests that cannot succeed without network are not repeated.
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_MAX_ATTEMPTS": "1",
    "VAULT_MAX_RETRIES": "0",
    "SOPS_GPG_EXEC": "/nonexistent",
    "SOPS_DISABLE_VERSION_CHECK": "1",
}
_GO_RUNTIME = 2  # exit status of Go's runtime, as without memory
_NO_KEY = 128
_CHANGED = frozenset({24, 25, 51, 52})
_ASKS_AGENT = "gpg-agent"  # for the passphrase of a key
_NO_IDENTITY = "Errors while loading age identities"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class _Sops:
    """The sops program with the keys of one call. All runs together take no longer than one may."""

    program: Path
    means: Means
    deadline: float
    environment: Mapping[str, str]
    secret: str
    """How messages name the Secret."""

    def decrypt(self, text: bytes, form: str, place: str, needed: _Needed) -> bytes:
        """Return a decrypted text.

        Args:
            text: with the metadata of SOPS.
            form: as SOPS names it: yaml, json, dotenv, ini, binary.
            place: messages start with it.
            needed: the keys that it was encrypted for.

        Raises: BundleError (InvalidConfig, InvalidBundle, RenderLimitExceeded).
        """
        if needed.clouds and not needed.recipients:
            problem = f"encrypted for {needed.describe()} only; {_NO_NETWORK}"
            raise BundleError(Reason.NOT_SUPPORTED, f"{problem}; encrypt it for a key of age or PGP, too", place=place)
        left = self.deadline - time.monotonic()
        if left <= 0:
            problem = f"decrypting takes more than {self.means.seconds:g} s"
            raise BundleError(Reason.RENDER_LIMIT_EXCEEDED, f"{problem}; encrypt fewer files", place=place)
        # Without --config, it searches for .sops.yaml in all parent folders.
        command = [
            str(self.program),
            "--config",
            os.devnull,
            "decrypt",
            "--input-type",
            form,
            "--output-type",
            form,
            "/dev/stdin",
        ]
        means = replace(self.means, seconds=left)
        result = run_program(command, means, subject=place, text=text, environment=self.environment)
        if result.status:
            raise self._explain(result, form, place, needed)
        return result.output

    def _explain(self, result: ProgramResult, form: str, place: str, needed: _Needed) -> BundleError:
        if result.status < 0 or result.status == _GO_RUNTIME:
            problem = f"sops needs more than {self.means.memory_bytes // MEBIBYTE} MiB of memory, or has crashed"
            return BundleError(Reason.RENDER_LIMIT_EXCEEDED, f"{problem}; split the file", place=place)
        if result.status in _CHANGED:
            problem = "changed after it was encrypted: the checksum (MAC) or a value does not match"
            return BundleError(Reason.INVALID_BUNDLE, f"{problem}; change it with sops and push it again", place=place)
        if result.status != _NO_KEY:
            problem = f"sops cannot read it as {form}"
            return BundleError(Reason.INVALID_BUNDLE, f"{problem}; encrypt it again", place=place)
        said = " ".join(result.stderr.replace("|", "").split())
        if _ASKS_AGENT in said:
            problem, remedy = "a PGP key has a passphrase", "export it without"
        elif _NO_IDENTITY in said:
            problem, remedy = "an age key is damaged", "copy it again"
        else:
            problem, remedy = "none of its keys opens it", "add a private key that does"
        unused = f" ({_NO_NETWORK})" if needed.clouds else ""
        return BundleError(
            Reason.INVALID_CONFIG,
            f"is encrypted for {needed.describe()}{unused}; {self.secret}: {problem}; {remedy}",
            place=place,
        )


_NO_NETWORK = "keys of cloud services are not used, because sops runs without network"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Needed:
    """The keys that something was encrypted for."""

    recipients: Sequence[str]
    """Public keys of age, fingerprints of PGP."""
    clouds: Sequence[str]

    @classmethod
    def of(cls, metadata: Mapping[str, Any]) -> _Needed:
        """Read them from the metadata of SOPS."""
        groups = [group for group in (metadata, *_items(metadata, "key_groups")) if isinstance(group, Mapping)]
        recipients = [
            f"{kind} {quote(str(item.get(field)))}"
            for group in groups
            for kind, field in _RECIPIENTS.items()
            for item in _items(group, kind)
            if isinstance(item, Mapping)
        ]
        clouds = [name for kind, name in _CLOUDS.items() if any(_items(group, kind) for group in groups)]
        return cls(recipients=recipients, clouds=clouds)

    def describe(self) -> str:
        """Return them as part of a message."""
        more = [f"{len(self.recipients) - _SHOWN} more"] if len(self.recipients) > _SHOWN else []
        return ", ".join([*self.recipients[:_SHOWN], *more, *self.clouds]) or "no key"


def _items(value: Mapping[str, Any], key: str) -> Sequence[Any]:
    found = value.get(key)
    return found if isinstance(found, list) else ()


# files

_SEPARATOR = re.compile(rb"^(---[ \t\r]*(?:#[^\n]*)?(?:\n|\Z))", re.MULTILINE)
_SIGNS = {
    "dotenv": re.compile(rb"^sops_mac=", re.MULTILINE),
    "ini": re.compile(rb"^\[sops\]", re.MULTILINE),
    "yaml": re.compile(rb"^sops:", re.MULTILINE),
}
_FLAT_ITEM = re.compile(r"(?:^|_)(age|pgp|kms|gcp_kms|azure_kv|hc_vault|hckms)__list_[0-9]{1,9}__map_(\w+)$")
"""A field of a key in the metadata of a form without nesting."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Piece:
    """Part of a file."""

    text: bytes
    form: str = ""
    """As SOPS names it; empty for what is not encrypted."""
    values: Sequence[Any] = ()
    """The documents of YAML and JSON."""
    metadata: Mapping[str, Any] | None = None


def _find_encrypted(root: Path, budget: TextBudget, means: Means) -> Iterator[tuple[str, list[_Piece]]]:
    """Yield the paths of encrypted files, and what they consist of, in order."""
    for folder, folders, names in os.walk(root):
        folders.sort()
        for name in sorted(names):
            path = Path(folder, name)
            # Of a link, the file that it leads to is decrypted.
            if path.is_symlink() or path.stat().st_size > means.limits.manifest_bytes:
                continue
            if means.cancelled.is_set():
                raise BundleError(Reason.RENDER_FAILED, "canceled: the result is no longer needed")
            text = path.read_bytes()
            if _MARK in text and b"sops" in text:
                relative = path.relative_to(root).as_posix()
                budget.charge_text(len(text), relative)
                pieces = _split(text, relative, budget)
                if any(piece.metadata for piece in pieces):
                    yield relative, pieces


def _split(text: bytes, path: str, budget: TextBudget) -> list[_Piece]:
    """Return the pieces of a file; one that is not encrypted if it is not as SOPS writes it, as some templates."""
    form = _find_form(text)
    if form in ("dotenv", "ini"):
        return [_Piece(text=text, form=form, metadata=_read_flat(text.decode(errors="replace"), form))]
    if form == "json":
        return [_read_json(text, path, budget)]
    if form != "yaml":
        return [_Piece(text=text)]
    parts = _SEPARATOR.split(text)
    documents = [_read_piece(part, path, "yaml", budget) for part in parts[::2]]
    separators = [b"", *parts[1::2]]
    pieces: list[_Piece] = []
    # Documents that were encrypted together have one checksum.
    pairs = zip(separators, documents, strict=True)
    for _, group in groupby(pairs, lambda pair: pair[1].metadata and pair[1].metadata.get("mac")):
        (separator, first), *others = group
        if separator:
            pieces.append(_Piece(text=separator))
        joined = b"".join((first.text, *(text for between, each in others for text in (between, each.text))))
        values = [value for each in (first, *(each for _, each in others)) for value in each.values]
        pieces.append(replace(first, text=joined, values=values))
    return pieces


def _read_json(text: bytes, path: str, budget: TextBudget) -> _Piece:
    """Return the piece of a JSON file: what SOPS encrypts without knowing its form is JSON, too."""
    if path.endswith((".yaml", ".yml", ".json")):
        return _read_piece(text, path, "json" if path.endswith(".json") else "yaml", budget)
    piece = _read_piece(text, path, "json", budget)
    is_binary = piece.metadata is not None and piece.values[0].keys() <= {"data", "sops"}
    return replace(piece, form="binary") if is_binary else piece


def _find_form(text: bytes) -> str:
    if text.lstrip().startswith(b"{"):
        return "json"
    return next((form for form, sign in _SIGNS.items() if sign.search(text)), "")


def _read_piece(text: bytes, path: str, form: str, budget: TextBudget) -> _Piece:
    try:
        values = [document.value for document in read_documents(text, path, strict=False, budget=budget)]
    except BundleError as error:
        if error.reason is not Reason.INVALID_BUNDLE:
            raise
        return _Piece(text=text)  # a template, or the format refuses it
    metadata = next((value["sops"] for value in values if _is_encrypted(value)), None)
    return _Piece(text=text, form=form, values=values, metadata=metadata)


def _is_encrypted(value: Any) -> bool:
    """Whether a document has the metadata of SOPS. Without a checksum it is refused later, and not passed on."""
    metadata = value.get("sops") if isinstance(value, Mapping) else None
    return isinstance(metadata, Mapping) and ("mac" in metadata or "lastmodified" in metadata)


def _read_flat(text: str, form: str) -> Mapping[str, Any]:
    """Return the metadata of a form without nesting, as far as it names keys."""
    metadata: dict[str, Any] = {"mac": ""}
    for key, value in _read_assignments(text[text.find("[sops]") :] if form == "ini" else text):
        if (item := _FLAT_ITEM.search(key)) and item[2] == _RECIPIENTS.get(item[1], "enc"):
            metadata.setdefault(item[1], []).append({item[2]: value})
    return metadata


def _read_assignments(text: str) -> Iterator[tuple[str, str]]:
    for line in text.split("\n"):
        key, sign, value = line.partition("=")
        if sign:
            yield key.strip(), value.strip()


def _decrypt(piece: _Piece, path: str, sops: _Sops, budget: TextBudget, place: str = "") -> tuple[bytes, list[str]]:
    """Return the decrypted text of a piece, and what was secret of it; `place` is how messages name the file."""
    if piece.metadata is None:
        return piece.text, []
    text = sops.decrypt(piece.text, piece.form, place or quote(path), _Needed.of(piece.metadata))
    if piece.form == "binary":
        return text, [_show(text)]
    if piece.form in ("dotenv", "ini"):
        return text, list(_find_assigned(piece.text.decode(errors="replace"), text.decode(errors="replace")))
    values = [document.value for document in read_documents(text, path, strict=False, budget=budget)]
    return text, [secret for pair in zip(piece.values, values, strict=False) for secret in _find_secrets(*pair)]


def _show(data: bytes) -> str:
    """Return bytes as they are in a Secret or ConfigMap."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return base64.b64encode(data).decode()


def _find_assigned(encrypted: str, decrypted: str) -> Iterator[str]:
    mark = _MARK.decode()
    keys = {key for key, value in _read_assignments(encrypted) if value.startswith(mark)}
    for key, value in _read_assignments(decrypted):
        if key in keys:
            yield value
            yield value.replace("\\n", "\n")


# objects


def _find_secrets(encrypted: Any, decrypted: Any) -> Iterator[str]:
    """Yield what was secret of a document; what identifies an object everybody sees."""
    if isinstance(decrypted, Mapping) and isinstance(encrypted, Mapping) and {"apiVersion", "kind"} <= decrypted.keys():
        metadata = decrypted.get("metadata")
        shown = {"apiVersion", "kind", "type", "metadata"}
        notes = {"annotations": metadata.get("annotations")} if isinstance(metadata, Mapping) else {}
        yield from _find_encrypted_texts(encrypted.get("metadata"), notes)
        decrypted = {key: value for key, value in decrypted.items() if key not in shown}
    yield from _find_encrypted_texts(encrypted, decrypted)


def _distinct(secrets: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(filter(None, secrets)))


def _find_encrypted_texts(encrypted: Any, decrypted: Any) -> Iterator[str]:
    if isinstance(encrypted, Mapping) and isinstance(decrypted, Mapping):
        for key in filter(decrypted.__contains__, encrypted):
            yield from _find_encrypted_texts(encrypted[key], decrypted[key])
    elif isinstance(encrypted, list) and isinstance(decrypted, list):
        for pair in zip(encrypted, decrypted, strict=False):
            yield from _find_encrypted_texts(*pair)
    elif isinstance(encrypted, str) and encrypted.startswith(_MARK.decode()):
        if isinstance(decrypted, str):
            yield decrypted
        elif isinstance(decrypted, int | float) and not isinstance(decrypted, bool):
            yield json.dumps(decrypted)


def _decrypt_object(
    item: dict[str, Any], sops: _Sops, budget: TextBudget, unprepared: Mapping[str, Refusal]
) -> tuple[dict[str, Any], list[str]]:
    """Return an object decrypted, and what was secret of it; `unprepared` has the files that could not be opened."""
    if not _is_encrypted(item):
        return _decrypt_data(item, sops, budget)
    place = _describe(item)
    try:
        text = sops.decrypt(json.dumps(item).encode(), "json", place, _Needed.of(item["sops"]))
    except BundleError as error:
        files = [path for path, why in unprepared.items() if why.problem == error.at(quote(path)).message]
        if files:
            raise error.at(f"{', '.join(map(quote, files[:_SHOWN]))}: {place}") from None
        raise
    decrypted = next(read_documents(text, place, budget=budget)).value
    return decrypted, list(_find_secrets(item, decrypted))


def _find_documents(item: Mapping[str, Any]) -> Iterator[tuple[str, str, bytes]]:
    """Yield field, key and text of what may be whole documents of SOPS in the data of a Secret or ConfigMap."""
    if item.get("apiVersion") != "v1" or item.get("kind") not in ("Secret", "ConfigMap"):
        return
    encoded = "data" if item["kind"] == "Secret" else "binaryData"
    for field in ("data", "stringData", "binaryData"):
        values = item.get(field)
        for key, value in values.items() if isinstance(values, Mapping) else ():
            try:
                text = base64.b64decode(value) if field == encoded else value.encode()
            except (AttributeError, TypeError, ValueError):
                continue  # the API server refuses it
            if _MARK in text and b"sops" in text:
                yield field, key, text


def _decrypt_data(item: dict[str, Any], sops: _Sops, budget: TextBudget) -> tuple[dict[str, Any], list[str]]:
    """Return a Secret with whole documents in its data decrypted, as by Flux; those of a ConfigMap are only checked."""
    changed, secrets = item, list[str]()
    for field, key, text in _find_documents(item):
        place = f"{_describe(item)}: {name_key(field, key)}"
        budget.charge_text(len(text), place)
        decrypted = [_decrypt(piece, key, sops, budget, place) for piece in _split(text, key, budget)]
        found = b"".join(part for part, _ in decrypted)
        if item["kind"] == "Secret" and found != text:
            value = base64.b64encode(found).decode() if field == "data" else found.decode(errors="replace")
            changed = {**changed, field: {**changed[field], key: value}}
            secrets += [value, _show(found), *(each for _, texts in decrypted for each in texts)]
    return changed, secrets


def _describe(item: Mapping[str, Any]) -> str:
    metadata = item["metadata"]
    name = "/".join(filter(None, (metadata.get("namespace"), metadata["name"])))
    return f"{item['kind']} {name}"


_LEAST = 4
"""Characters of a text that is secret."""
_BYTES_PER_STEP, _BYTES_PER_TEXT = 2000, 100
"""That are searched in one step, and that to search a text takes in addition."""


def _refuse_outside_secrets(
    manifests: Iterable[Mapping[str, Any]], secrets: Iterable[str], request: ProcessRequest
) -> None:
    """Refuse decrypted texts in places that everybody is shown.

    Raises: BundleError (InvalidConfig).
    """
    collapsed = (_collapse(secret) for secret in secrets)
    wanted = {form for text in collapsed if len(text) >= _LEAST for form in (text, _encode(text))}
    if not wanted:
        return
    for item in manifests:
        is_secret = (item.get("apiVersion"), item.get("kind")) == ("v1", "Secret")
        hidden = _HIDDEN if is_secret else ()
        for path, text in _texts_of({key: value for key, value in item.items() if key not in hidden}):
            request.charge(0, 1 + (len(text) + _BYTES_PER_TEXT) * len(wanted) // _BYTES_PER_STEP)
            if _has_any(text, wanted):
                name = _describe(item)
                place = f"{item['kind'] if _has_any(name, wanted) else name}: {path.removeprefix('.')}"
                problem = "has a decrypted value, which everybody who may read the object can see"
                remedy = f"take it from a Secret, encrypt only what is secret, or set {request.path}.allowOtherKinds"
                raise BundleError(Reason.INVALID_CONFIG, f"{request.path}: {place}: {problem}; {remedy}")


def _has_any(text: str, wanted: Iterable[str]) -> bool:
    shown = _collapse(text)
    return any(secret in shown for secret in wanted)


_HIDDEN = frozenset({"data", "stringData"})


def _collapse(text: str) -> str:
    """Return a text without line breaks and indentation, which templates change."""
    return " ".join(text.split())


def _encode(text: str) -> str:
    return base64.b64encode(text.encode(errors="surrogatepass")).decode()


def _texts_of(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Yield the path and the text of each string, number and key in a value; of a key, the path of its mapping."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield path, key
            yield from _texts_of(item, name_key(path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _texts_of(item, f"{path}[{index}]")
    elif isinstance(value, str):
        yield path, value
    elif isinstance(value, int | float):
        yield path, json.dumps(value)
