"""Provenance files of charts, which `helm package --sign` writes: what a chart is and its digest, signed with OpenPGP.

The text is taken out of its frame here, and its signature verified like one of a separate file (RFC 9580, section 7),
so what was signed is what is read. It is read only after that. The digest alone would let a repository serve an old
chart as a new version, so name and version have to match, too.

https://helm.sh/docs/topics/provenance. Not here: how it is fetched (controller/sources/chart.py).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

import yaml

from rukpak.api.plugins import KIBIBYTE, Access, Signer
from rukpak.controller.content.limits import quote
from rukpak.controller.sources.signatures import SignatureError, openpgp

PROVENANCE_BYTES = 512 * KIBIBYTE
"""Limit of a provenance file, which contains Chart.yaml."""
_BEGIN, _SIGNATURE = b"-----BEGIN PGP SIGNED MESSAGE-----", b"-----BEGIN PGP SIGNATURE-----"
_HEADER = re.compile(rb"Hash: [A-Za-z0-9, -]+")
_BETWEEN = "\n...\n"
_DAMAGED = "the provenance file was not written by Helm; sign the chart again with helm package --sign"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartArchive:
    """A packaged chart, as it was found."""

    name: str
    version: str
    digest: str
    """As `sha256:…`."""


def verify(chart: ChartArchive, provenance: bytes, keyring: bytes, access: Access, *, now: float) -> Signer:
    """Verify that a provenance file is signed, and of a chart.

    Args:
        chart: that was found.
        provenance: content of the .prov file.
        keyring: of `openpgp.read_keys`, with at least one key.
        access: for running gpgv.
        now: seconds since the epoch.

    Raises: SignatureError; BundleError as `run_verifier`.
    """
    text, signature = split(provenance)
    types = (openpgp.BINARY, openpgp.TEXT)
    signer = openpgp.verify(b"\r\n".join(text), signature, keyring, access, types=types, now=now)
    signed = read_text(b"\n".join(text))
    if signed != chart:
        problem = f"the provenance file is of chart {quote(signed.name)} {quote(signed.version)}"
        if (signed.name, signed.version) == (chart.name, chart.version):
            problem = "the provenance file has another digest of the chart"
        raise SignatureError(f"{problem}; publish the chart and its provenance file together")
    return replace(signer, by="provenance")


def split(provenance: bytes) -> tuple[list[bytes], bytes]:
    """Return the lines of the signed text as they are hashed, and the armored signature, which is not verified yet.

    Raises: SignatureError.
    """
    lines = provenance.strip().split(b"\n")
    bare = [line.rstrip(b" \t\r") for line in lines]
    if bare[0] != _BEGIN or bare.count(_SIGNATURE) != 1 or b"" not in bare:
        raise SignatureError(_DAMAGED)
    start, end = bare.index(b""), bare.index(_SIGNATURE)
    text = [line.removeprefix(b"- ") for line in bare[start + 1 : end]]
    is_escaped = all(not line.startswith(b"-") or line.startswith(b"- ") for line in bare[start + 1 : end])
    if start > end or not is_escaped or not all(_HEADER.fullmatch(line) for line in bare[1:start]):
        raise SignatureError(_DAMAGED)
    return text, b"\n".join(bare[end:])


def read_text(text: bytes) -> ChartArchive:
    """Return the chart that a signed text is of: Chart.yaml, then the digest of one file. Raises: SignatureError."""
    try:
        about, files = (_values(yaml.compose(part, yaml.CSafeLoader)) for part in text.decode().split(_BETWEEN))
        (digest,) = _values(files["files"]).values()
        return ChartArchive(name=_text(about["name"]), version=_text(about["version"]), digest=_text(digest))
    except (ValueError, KeyError, RecursionError, yaml.YAMLError):
        raise SignatureError(_DAMAGED) from None


def _values(node: yaml.Node | None) -> dict[str, yaml.Node]:
    if not isinstance(node, yaml.MappingNode):
        raise yaml.YAMLError("no mapping")
    return {_text(key): value for key, value in node.value}


def _text(node: yaml.Node) -> str:
    if not isinstance(node, yaml.ScalarNode):
        raise yaml.YAMLError("no text")
    return str(node.value)
