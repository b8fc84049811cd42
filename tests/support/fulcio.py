"""A Sigstore instance in memory: certificates for signers without keys, their time stamps, and promises of a log."""

from __future__ import annotations

import base64
import hashlib
import json
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID, ObjectIdentifier

ISSUER, SUBJECT = "https://issuer.example.com", "release@example.com"
START = datetime(2026, 1, 1, tzinfo=UTC)
LIFE = timedelta(minutes=10)
"""Of the certificate of a signer."""
_ISSUER = ObjectIdentifier("1.3.6.1.4.1.57264.1.8")
_SCTS = ObjectIdentifier("1.3.6.1.4.1.11129.2.4.2")


def _make_key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def _der(key: ec.EllipticCurvePrivateKey) -> bytes:
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    return key.public_key().public_bytes(serialization.Encoding.DER, form)


def _encode(data: bytes) -> str:
    return base64.b64encode(data).decode()


@dataclass(frozen=True, kw_only=True)
class Sigstore:
    """Makes what cosign 2 stores beside a document that is signed without a key."""

    authority: ec.EllipticCurvePrivateKey = field(default_factory=_make_key)
    certificate_log: ec.EllipticCurvePrivateKey = field(default_factory=_make_key)
    log: ec.EllipticCurvePrivateKey = field(default_factory=_make_key)

    @property
    def trusted_root(self) -> bytes:
        """Return trusted_root.json."""
        valid = {"start": "2020-01-01T00:00:00Z"}
        authority = self._sign(self._builder("authority", self.authority, timedelta(days=3650), is_authority=True))
        logs = [
            [
                {
                    "baseUrl": "https://log.example.com",
                    "hashAlgorithm": "SHA2_256",
                    "publicKey": {
                        "rawBytes": _encode(_der(key)),
                        "keyDetails": "PKIX_ECDSA_P256_SHA_256",
                        "validFor": valid,
                    },
                    "logId": {"keyId": _encode(hashlib.sha256(_der(key)).digest())},
                }
            ]
            for key in (self.log, self.certificate_log)
        ]
        der = authority.public_bytes(serialization.Encoding.DER)
        certificates = {"certificates": [{"rawBytes": _encode(der)}]}
        found = {
            "mediaType": "application/vnd.dev.sigstore.trustedroot+json;version=0.1",
            "tlogs": logs[0],
            "certificateAuthorities": [
                {
                    "subject": {"organization": "example", "commonName": "authority"},
                    "uri": "https://fulcio.example.com",
                    "certChain": certificates,
                    "validFor": valid,
                }
            ],
            "ctlogs": logs[1],
            "timestampAuthorities": [],
        }
        return json.dumps(found).encode()

    def annotate(
        self, payload: bytes, *, issuer: str = ISSUER, subject: str = SUBJECT, after: timedelta = timedelta(minutes=1)
    ) -> dict[str, str]:
        """Return the annotations of a document that a signer has signed, so long after getting the certificate."""
        key = _make_key()
        signature = key.sign(payload, ec.ECDSA(hashes.SHA256()))
        certificate = self._certify(key, issuer, subject)
        pem = certificate.public_bytes(serialization.Encoding.PEM)
        body = {
            "apiVersion": "0.0.1",
            "kind": "hashedrekord",
            "spec": {
                "data": {"hash": {"algorithm": "sha256", "value": hashlib.sha256(payload).hexdigest()}},
                "signature": {"content": _encode(signature), "publicKey": {"content": _encode(pem)}},
            },
        }
        return {
            "dev.cosignproject.cosign/signature": _encode(signature),
            "dev.sigstore.cosign/certificate": pem.decode(),
            "dev.sigstore.cosign/bundle": json.dumps(self._promise(json.dumps(body).encode(), START + after)),
        }

    def _promise(self, body: bytes, at: datetime) -> dict[str, Any]:
        entry = {
            "body": _encode(body),
            "integratedTime": int(at.timestamp()),
            "logIndex": 1,
            "logID": hashlib.sha256(_der(self.log)).hexdigest(),
        }
        signed = json.dumps(entry, sort_keys=True, separators=(",", ":")).encode()
        return {
            "SignedEntryTimestamp": _encode(self.log.sign(signed, ec.ECDSA(hashes.SHA256()))),
            "Payload": entry,
        }

    def _certify(self, key: ec.EllipticCurvePrivateKey, issuer: str, subject: str) -> x509.Certificate:
        """Return a certificate with the SCT of the log, which covers all of it but the SCT."""
        text = issuer.encode()
        extensions: list[tuple[x509.ExtensionType, bool]] = [
            (x509.SubjectAlternativeName([x509.RFC822Name(subject)]), True),
            (x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CODE_SIGNING]), False),
            (x509.UnrecognizedExtension(_ISSUER, bytes([0x0C, len(text)]) + text), False),
        ]
        builder = self._builder("", key, LIFE, is_authority=False)
        for extension, is_critical in extensions:
            builder = builder.add_extension(extension, is_critical)
        draft = self._sign(builder.add_extension(_scts(b""), critical=False))
        return self._sign(builder.add_extension(_scts(self._sct(draft.tbs_precertificate_bytes)), critical=False))

    def _sct(self, certificate: bytes) -> bytes:
        """Return a signed certificate time stamp (RFC 6962, section 3.2)."""
        time = int(START.timestamp() * 1000).to_bytes(8)
        issuer = hashlib.sha256(_der(self.authority)).digest()
        covered = b"\0\0" + time + b"\0\1" + issuer + len(certificate).to_bytes(3) + certificate + b"\0\0"
        signature = self.certificate_log.sign(covered, ec.ECDSA(hashes.SHA256()))
        log = hashlib.sha256(_der(self.certificate_log)).digest()
        return b"\0" + log + time + b"\0\0" + b"\4\3" + len(signature).to_bytes(2) + signature

    def _builder(
        self, name: str, key: ec.EllipticCurvePrivateKey, life: timedelta, *, is_authority: bool
    ) -> x509.CertificateBuilder:
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)] if name else [])
        usage = x509.KeyUsage(
            digital_signature=not is_authority,
            key_cert_sign=is_authority,
            crl_sign=is_authority,
            content_commitment=False,
            key_encipherment=False,
            data_encipherment=False,
            key_agreement=False,
            encipher_only=False,
            decipher_only=False,
        )
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "authority")]))
            .public_key(key.public_key())
            .serial_number(1 if is_authority else 2)
            .not_valid_before(START)
            .not_valid_after(START + life)
            .add_extension(usage, critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        )
        if is_authority:
            return builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        own = x509.AuthorityKeyIdentifier.from_issuer_public_key(self.authority.public_key())
        return builder.add_extension(own, critical=False)

    def _sign(self, builder: x509.CertificateBuilder) -> x509.Certificate:
        return builder.sign(self.authority, hashes.SHA256())


def _scts(sct: bytes) -> x509.UnrecognizedExtension:
    """Return the extension with one SCT; an empty one stands for a draft."""
    one = len(sct).to_bytes(2) + sct
    listed = len(one).to_bytes(2) + one
    length = bytes([len(listed)]) if len(listed) < 128 else bytes([0x81, len(listed)])
    return x509.UnrecognizedExtension(_SCTS, b"\4" + length + listed)
