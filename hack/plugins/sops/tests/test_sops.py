"""The processor with the real sops, on files that were encrypted by it. The keys in `data` are for these tests only."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rukpak.conformance import OBJECTS, Processing, ProcessorContract
from rukpak.plugins import (
    BundleError,
    Capabilities,
    ContentTree,
    Hook,
    LargeTextError,
    Limits,
    Means,
    Prepared,
    PrepareRequest,
    ProcessRequest,
    Reason,
    Refusal,
    Rendering,
    read_documents,
)
from rukpak_sops import SopsProcessor

DATA = Path(__file__).parent / "data"
AGE = "age1r0g8u39nheafzzl4dgmle5zmh0s9gvcepfuzts5yzdlvu0d29f8qlf7exk"
OTHER = "age1l8ke67qvvh85hhz5m2zk7mn3z2wa98q4l8v0z2rsywpjp9k24swq38hw09"
PGP = "965927177BC4A997207D5ECF27F7E5CAA62DA833"
LOCKED = "0BB1F632CFF896E632B3F1E826B66AFA8A664B8C"
CANARY = "canary-7f3a91"
PATH = "spec.processors[0].parameters"
PARAMETERS = {"secret": {"name": "keys"}}
SECRET = f"""\
apiVersion: v1
kind: Secret
metadata:
  name: database
stringData:
  password: {CANARY}
"""
Encrypt = Callable[..., bytes]


def key(name: str) -> dict[str, bytes]:
    return {name: (DATA / name).read_bytes()}


@pytest.fixture(scope="session")
def program() -> str:
    found = shutil.which("sops")
    if not found:
        pytest.skip("needs sops on PATH")
    return found


@pytest.fixture(scope="session")
def encrypt(program: str, tmp_path_factory: pytest.TempPathFactory) -> Encrypt:
    """Encrypts a text with the real sops."""
    home = tmp_path_factory.mktemp("gnupg")
    armored = ((DATA / name).read_text() for name in ("test.asc", "locked.asc"))
    blocks = (re.split(r"\n\n|\n=", text)[1] for text in armored)
    (home / "pubring.gpg").write_bytes(b"".join(base64.b64decode("".join(block.split())) for block in blocks))

    def _encrypt(text: str | bytes, form: str = "yaml", *options: str, to: Sequence[str] = ("--age", AGE)) -> bytes:
        done = subprocess.run(
            [program, "encrypt", *to, *options, "--input-type", form, "--output-type", form, "/dev/stdin"],
            input=text if isinstance(text, bytes) else text.encode(),
            env={"GNUPGHOME": str(home), "SOPS_GPG_EXEC": os.devnull, "HOME": str(home)},
            capture_output=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout

    return _encrypt


@pytest.fixture
def prepare(program: str, tmp_path: Path) -> Callable[..., Prepared]:
    def _prepare(
        files: Mapping[str, bytes], keys: Mapping[str, bytes] | None = None, means: Means | None = None
    ) -> Prepared:
        root, scratch = tmp_path / "content", tmp_path / "scratch"
        for folder in (root, scratch):
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
        for name, data in files.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_bytes(data)
        try:
            return SopsProcessor().prepare(
                PrepareRequest(
                    name="test",
                    parameters=PARAMETERS,
                    path=PATH,
                    tree=ContentTree(root=root, destinations=("",)),
                    secrets={"keys": key("test.agekey") if keys is None else keys},
                    means=replace(means or Means(), scratch=scratch, programs={"sops": program}),
                )
            )
        finally:
            assert not [*scratch.iterdir()], "a key or a text stays in the scratch folder"

    return _prepare


@pytest.fixture
def process(program: str, tmp_path: Path) -> Callable[..., Rendering]:
    def _process(
        rendering: Rendering,
        charge: Callable[[int], None] = lambda _steps: None,
        unprepared: Mapping[str, Refusal] | None = None,
        **parameters: Any,
    ) -> Rendering:
        return SopsProcessor().process(
            ProcessRequest(
                name="test",
                install_namespace="default",
                parameters=PARAMETERS | parameters,
                path=PATH,
                rendering=rendering,
                capabilities=Capabilities(kubernetes_version="v1.36.3"),
                charge=lambda _bytes, steps: charge(steps),
                secrets={"keys": key("test.agekey")},
                unprepared=unprepared or {},
                means=Means(scratch=tmp_path, programs={"sops": program}),
            )
        )

    return _process


def values_of(text: bytes) -> list[Any]:
    return [document.value for document in read_documents(text, "result")]


def refusal(call: Callable[..., Any], *arguments: Any, **options: Any) -> BundleError:
    """Return why something is refused, or would be if anything read the file that cannot be opened."""

    def _read_all() -> None:
        made = call(*arguments, **options)
        for found in made.unprepared.values() if isinstance(made, Prepared) else ():
            raise BundleError(found.reason, found.problem)

    with pytest.raises(BundleError) as caught:
        _read_all()
    assert CANARY not in str(caught.value.message)
    assert "\n" not in caught.value.message
    error: BundleError = caught.value
    return error


class TestContract(ProcessorContract):
    plugin = SopsProcessor

    @pytest.fixture(autouse=True, scope="class")
    @classmethod
    def _examples(cls, encrypt: Encrypt) -> None:
        secrets = {"keys": key("test.agekey") | key("test.asc")}
        given: dict[str, Any] = {"parameters": PARAMETERS, "secrets": secrets}
        item = an_object("Secret", stringData={"a": CANARY}, encrypt=encrypt)
        other = an_object("ConfigMap", data={"a": CANARY}, encrypt=encrypt)
        both, by_pgp = encrypt(f"{SECRET}---\na: 1\n"), encrypt(f"A={CANARY}\nB=\n", "dotenv", to=("--pgp", PGP))
        changed = item | {"metadata": {"name": "other"}}
        cls.good = [
            Processing(**given, objects=[item, *OBJECTS], hooks=[Hook(manifest=item, events=("pre-install",))]),
            Processing(**given, files={"a.yaml": both, "b/c.env": by_pgp, "d.txt": b"a"}),
            Processing(**(given | {"parameters": {**PARAMETERS, "allowOtherKinds": True}}), objects=[other]),
        ]
        cls.bad = [
            (Processing(**given, objects=[other]), Reason.INVALID_CONFIG),
            (Processing(**given, objects=[changed]), Reason.INVALID_BUNDLE),
            (Processing(parameters=PARAMETERS, files={"a.yaml": both}), Reason.INVALID_CONFIG),
            (Processing(parameters=PARAMETERS, objects=[item]), Reason.INVALID_CONFIG),
        ]
        cls.bad_parameters = [(value, f"{PATH}{field}") for value, field in BAD]


# the content

FORMS = [
    ("yaml", "values.yaml", f"a: {{b: [{CANARY}, 1, true, null, 2.5]}} # why\n"),
    ("yaml", "values.yml", SECRET),
    ("json", "values.json", json.dumps({"a": {"b": [CANARY, 1, True, None]}})),
    ("dotenv", "app.env", f"# why\nPASSWORD={CANARY}\nEMPTY=\n"),
    ("ini", "app.ini", f"[database]\npassword = {CANARY}\n"),
    ("binary", "app.conf", f"line one\npassword {CANARY}\n"),
    ("yaml", "secrets.enc", f"a: {CANARY}\n"),
    ("json", "secrets.enc", json.dumps({"a": CANARY})),
    ("dotenv", "secrets.enc", f"A={CANARY}\n"),
]


@pytest.mark.parametrize("case", FORMS, ids=[f"{form} in {name}" for form, name, _ in FORMS])
@pytest.mark.parametrize("kind", ["age", "pgp"])
def test_a_file_is_decrypted(
    kind: str, case: tuple[str, str, str], encrypt: Encrypt, prepare: Callable[..., Prepared]
) -> None:
    form, name, text = case
    encrypted = encrypt(text, form, to=("--age", AGE) if kind == "age" else ("--pgp", PGP))

    prepared = prepare({f"in/a folder/{name}": encrypted}, key("test.agekey" if kind == "age" else "test.asc"))

    [(path, found)] = prepared.files.items()
    assert path == f"in/a folder/{name}"
    assert found.decode() == text if form in ("binary", "dotenv") else CANARY in found.decode()
    if form in ("yaml", "json"):
        assert values_of(found) == values_of(text.encode())
    assert any(CANARY in secret for secret in prepared.secrets)


def test_data_that_is_no_text_is_decrypted(encrypt: Encrypt, prepare: Callable[..., Prepared]) -> None:
    data = bytes(range(256))

    prepared = prepare({"keystore.p12": encrypt(data, "binary")})

    assert prepared.files == {"keystore.p12": data}
    assert prepared.secrets == (base64.b64encode(data).decode(),)


def test_documents_that_were_encrypted_together_are_decrypted_together(
    encrypt: Encrypt, prepare: Callable[..., Prepared]
) -> None:
    text = f"{SECRET}---\na: 1\n---\nb: {CANARY}\n"

    assert values_of(prepare({"a.yaml": encrypt(text)}).files["a.yaml"]) == values_of(text.encode())


def test_each_document_may_be_encrypted_by_itself(encrypt: Encrypt, prepare: Callable[..., Prepared]) -> None:
    first, both = encrypt(SECRET), encrypt(f"a: {CANARY}\n---\nb: 2\n")
    plain = b"# stays\nkind: ConfigMap\n"
    text = b"---\n".join([b"# a comment\n", first, plain, both, plain, b""])

    found = prepare({"a.yaml": text}).files["a.yaml"]

    assert found.count(plain) == 2
    assert values_of(found) == [
        *values_of(SECRET.encode()), {"kind": "ConfigMap"}, {"a": CANARY}, {"b": 2}, {"kind": "ConfigMap"}
    ]  # fmt: skip


@pytest.mark.parametrize(
    "options",
    [
        ("--encrypted-regex", "^(data|stringData)$"),
        ("--unencrypted-regex", "^(apiVersion|kind|metadata)$"),
    ],
    ids=" ".join,
)
def test_what_is_encrypted_in_part_is_secret_in_part(
    options: tuple[str, ...], encrypt: Encrypt, prepare: Callable[..., Prepared]
) -> None:
    prepared = prepare({"a.yaml": encrypt(SECRET, "yaml", *options)})

    assert values_of(prepared.files["a.yaml"]) == values_of(SECRET.encode())
    assert prepared.secrets == (CANARY,)


def test_the_checksum_may_cover_only_what_is_encrypted(
    program: str, prepare: Callable[..., Prepared], tmp_path: Path
) -> None:
    rule = {"age": AGE, "encrypted_regex": "^stringData$", "mac_only_encrypted": True}
    (tmp_path / ".sops.yaml").write_text(json.dumps({"creation_rules": [rule]}))
    (tmp_path / "a.yaml").write_text(SECRET)
    encrypted = subprocess.run([program, "encrypt", "a.yaml"], cwd=tmp_path, capture_output=True, check=True).stdout

    renamed = encrypted.replace(b"name: database", b"name: renamed")

    assert values_of(prepare({"a.yaml": renamed}).files["a.yaml"]) == [
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "renamed"}, "stringData": {"password": CANARY}}
    ]


def test_names_of_an_object_are_not_secret(encrypt: Encrypt, prepare: Callable[..., Prepared]) -> None:
    assert prepare({"a.yaml": encrypt(SECRET)}).secrets == (CANARY,)


NOT_ENCRYPTED = {
    "a manifest": SECRET.encode(),
    "values of a chart that deploys an operator for SOPS": b'sops: {enabled: true}\nexample: "ENC[AES256_GCM,"\n',
    "a template": b"sops:\n  mac: {{ .Values.mac }}\na: {{ tpl }} ENC[AES256_GCM,\n",
    "a text about SOPS": b"sops writes ENC[AES256_GCM,data:...]",
    "an empty file": b"",
    "data": bytes(range(256)) + b"sops ENC[AES256_GCM,",
}


@pytest.mark.parametrize("text", NOT_ENCRYPTED.values(), ids=NOT_ENCRYPTED.keys())
def test_what_is_not_encrypted_stays(text: bytes, prepare: Callable[..., Prepared]) -> None:
    assert prepare({"a.yaml": text, "b.txt": text}) == Prepared()


def test_one_of_several_keys_is_enough(encrypt: Encrypt, prepare: Callable[..., Prepared]) -> None:
    encrypted = encrypt(SECRET, to=("--age", AGE, "--pgp", PGP))
    keys = key("other.agekey") | key("locked.asc") | key("test.asc")

    assert prepare({"a.yaml": encrypted}, keys).files.keys() == {"a.yaml"}


def test_parts_of_a_key_may_be_needed_from_several_groups(
    program: str, encrypt: Encrypt, prepare: Callable[..., Prepared], tmp_path: Path
) -> None:
    """What SOPS calls key groups: each has a part of the key."""
    groups = [{"age": [AGE]}, {"age": [OTHER]}]
    (tmp_path / ".sops.yaml").write_text(json.dumps({"creation_rules": [{"key_groups": groups}]}))
    (tmp_path / "a.yaml").write_text(SECRET)
    encrypted = subprocess.run([program, "encrypt", "a.yaml"], cwd=tmp_path, capture_output=True, check=True).stdout

    prepared = prepare({"a.yaml": encrypted}, key("test.agekey") | key("other.agekey"))
    error = refusal(prepare, {"a.yaml": encrypted}, key("test.agekey"))

    assert values_of(prepared.files["a.yaml"]) == values_of(SECRET.encode())
    assert f'is encrypted for age "{AGE}", age "{OTHER}"' in error.message


def test_a_link_to_an_encrypted_file_is_left(
    encrypt: Encrypt, prepare: Callable[..., Prepared], tmp_path: Path
) -> None:
    outside = tmp_path / "outside.yaml"
    outside.write_bytes(encrypt(SECRET))
    (tmp_path / "content").mkdir()

    def _prepare(files: Mapping[str, bytes]) -> Prepared:
        (tmp_path / "content" / "link.yaml").symlink_to(outside)
        return prepare(files)

    assert _prepare({}) == Prepared()


# what cannot be decrypted


def tampered(text: bytes) -> bytes:
    """Exchange two encrypted values, which are valid each."""
    value = json.loads(text)
    value["a"], value["b"] = value["b"], value["a"]
    return json.dumps(value).encode()


def unencrypted_changed(text: bytes) -> bytes:
    return text.replace(b"namespace-one", b"namespace-two")


def without_mac(text: bytes) -> bytes:
    value = json.loads(text)
    del value["sops"]["mac"]
    return json.dumps(value).encode()


@pytest.mark.parametrize("change", [tampered, unencrypted_changed, without_mac])
def test_what_was_changed_after_encryption_is_refused(
    change: Callable[[bytes], bytes], encrypt: Encrypt, prepare: Callable[..., Prepared]
) -> None:
    text = json.dumps({"a": CANARY, "b": "other", "c_unencrypted": "namespace-one"})
    encrypted = encrypt(text, "json")

    error = refusal(prepare, {"in/a.json": change(encrypted)})

    assert error.reason is Reason.INVALID_BUNDLE
    assert error.message.startswith('"in/a.json": changed after it was encrypted')


def for_cloud(encrypt: Encrypt) -> bytes:
    value = json.loads(encrypt(json.dumps({"a": CANARY}), "json"))
    value["sops"]["kms"] = [
        {"arn": "arn:aws:kms:us-east-1:1:key/1", "created_at": "2026-01-01T00:00:00Z", "enc": "AQ=="}
    ]
    del value["sops"]["age"]
    return json.dumps(value).encode()


UNOPENED: Mapping[str, Callable[[Encrypt], bytes]] = {
    "for another key": lambda encrypt: encrypt(SECRET, to=("--age", OTHER)),
    "for a key of a cloud service only": for_cloud,
    "damaged": lambda encrypt: encrypt(SECRET).replace(b"ENC[AES256_GCM,data:", b"ENC[AES256_GCM,data:AAAA", 1),
    "changed": lambda encrypt: tampered(encrypt(json.dumps({"a": CANARY, "b": "c"}), "json")),
}


@pytest.mark.parametrize("case", UNOPENED)
def test_a_file_that_cannot_be_opened_stays_as_it_is_beside_others_that_can(
    case: str, encrypt: Encrypt, prepare: Callable[..., Prepared]
) -> None:
    """One repository has the files of several clusters, each with a key of its own."""
    other = UNOPENED[case](encrypt)
    made = prepare({"overlays/eu/a.yaml": encrypt(SECRET), "overlays/us/a.yaml": other})
    assert CANARY.encode() in made.files["overlays/eu/a.yaml"]
    assert "overlays/us/a.yaml" not in made.files, "it stays as it is"
    assert list(made.unprepared) == ["overlays/us/a.yaml"]
    assert '"overlays/us/a.yaml"' in made.unprepared["overlays/us/a.yaml"].problem


def test_of_a_file_with_several_documents_each_is_opened_that_can_be(
    encrypt: Encrypt, prepare: Callable[..., Prepared]
) -> None:
    other = encrypt(SECRET, to=("--age", OTHER))
    made = prepare({"a.yaml": encrypt(SECRET) + b"---\n" + other})
    assert CANARY.encode() in made.files["a.yaml"]
    assert made.files["a.yaml"].endswith(other)
    assert list(made.unprepared) == ["a.yaml"]


@pytest.mark.parametrize("form", ["yaml", "json", "dotenv", "ini", "binary"])
@pytest.mark.parametrize(("kind", "recipient"), [("age", AGE), ("pgp", PGP)])
def test_a_wrong_key_is_told_with_those_that_would_do(
    kind: str, recipient: str, form: str, encrypt: Encrypt, prepare: Callable[..., Prepared]
) -> None:
    text = {"json": '{"a": "1"}', "dotenv": "A=1\n", "ini": "[a]\nb = 1\n"}.get(form, "a: 1\n")
    encrypted = encrypt(text, form, to=(f"--{kind}", recipient))

    error = refusal(prepare, {f"a.{form}": encrypted}, key("other.agekey") | key("locked.asc"))

    assert error.reason is Reason.INVALID_CONFIG
    assert error.message == (
        f'"a.{form}": is encrypted for {kind} "{recipient}"; {PATH}.secret: Secret "keys": none of its keys opens it; '
        "add a private key that does"
    )


def test_a_pgp_key_with_a_passphrase_is_refused(encrypt: Encrypt, prepare: Callable[..., Prepared]) -> None:
    error = refusal(prepare, {"a.yaml": encrypt(SECRET, to=("--pgp", LOCKED))}, key("locked.asc"))

    assert "a PGP key has a passphrase" in error.message


BAD_KEYS = {
    "no Secret": ({}, "has no key of age"),
    "other keys": ({"keys.txt": b"AGE-SECRET-KEY-1X"}, "has no key of age"),
    "no key of age": ({"a.agekey": b"# a comment\nhunter2"}, 'key "a.agekey": line 2 is no private key of age'),
    "a public key of age": ({"a.agekey": AGE.encode()}, "line 1 is no private key of age"),
    "a damaged key of age": ({"a.agekey": b"AGE-SECRET-KEY-1" + 58 * b"Q"}, "an age key is damaged"),
    "data": ({"a.agekey": bytes(range(256))}, "is no private key of age"),
    "a plug-in of age": ({"a.agekey": b"AGE-PLUGIN-YUBIKEY-1QQ"}, "line 1 is no private key of age"),
    "too many keys": ({"a.agekey": 2000 * (b"AGE-SECRET-KEY-1" + 58 * b"Q" + b"\n")}, "more than 64 KiB of age keys"),
    "no armor": ({"a.asc": b"\x95\x03"}, 'key "a.asc": no armored private key'),
    "a damaged armor": (
        {"a.asc": b"-----BEGIN PGP PRIVATE KEY BLOCK-----\n\nabcde\n-----END PGP PRIVATE KEY BLOCK-----"},
        "the armored private key is damaged",
    ),
}


@pytest.mark.parametrize(("keys", "problem"), BAD_KEYS.values(), ids=BAD_KEYS.keys())
def test_a_secret_without_a_usable_key_is_told(
    keys: Mapping[str, bytes], problem: str, encrypt: Encrypt, prepare: Callable[..., Prepared]
) -> None:
    error = refusal(prepare, {"a.yaml": encrypt(SECRET)}, keys)

    assert error.reason is Reason.INVALID_CONFIG
    assert f'{PATH}.secret: Secret "keys": ' in error.message
    assert problem in error.message
    assert "hunter2" not in error.message


CLOUDS = {
    "kms": ("AWS KMS", {"arn": "arn:aws:kms:us-east-1:111122223333:key/1"}),
    "gcp_kms": ("Google Cloud KMS", {"resource_id": "projects/p/locations/l/keyRings/r/cryptoKeys/k"}),
    "azure_kv": ("Azure Key Vault", {"vault_url": "https://v.vault.azure.net", "name": "n", "version": "1"}),
    "hc_vault": ("HashiCorp Vault", {"vault_address": "http://127.0.0.1:1", "engine_path": "t", "key_name": "n"}),
    "hckms": ("Huawei Cloud KMS", {"key_id": "tr-west-1:x"}),
}


@pytest.mark.parametrize("kind", CLOUDS)
def test_keys_of_cloud_services_are_refused_by_name(
    kind: str, encrypt: Encrypt, prepare: Callable[..., Prepared]
) -> None:
    name, fields = CLOUDS[kind]
    value = json.loads(encrypt(json.dumps({"a": CANARY}), "json"))
    value["sops"][kind] = [fields | {"created_at": "2026-01-01T00:00:00Z", "enc": "AQ=="}]
    both = json.dumps(value).encode()
    del value["sops"]["age"]

    error = refusal(prepare, {"a.json": json.dumps(value).encode()})

    assert error.reason is Reason.NOT_SUPPORTED
    assert error.message.startswith(f'"a.json": encrypted for {name} only; keys of cloud services are not used')
    assert prepare({"a.json": both}).secrets == (CANARY,), "a key of age is enough"
    assert (
        f", {name} (keys of cloud services are not used"
        in refusal(prepare, {"a.json": both}, key("other.agekey")).message
    )


@pytest.mark.parametrize("metadata", [{"mac": 1}, {"mac": "x", "age": "x"}, {"lastmodified": "x", "age": [1, {}]}])
def test_metadata_that_is_not_of_sops_is_refused(metadata: Mapping[str, Any], prepare: Callable[..., Prepared]) -> None:
    text = json.dumps({"a": "ENC[AES256_GCM,data:x]", "sops": metadata})

    assert refusal(prepare, {"a.json": text.encode()}).reason in (Reason.INVALID_BUNDLE, Reason.INVALID_CONFIG)


LONG = {
    "blanks in a dotenv": b"sops_mac=ENC[AES256_GCM,\nA=x" + b" " * (1 << 20) + b"y\n",
    "lines of an ini": b"[sops]\nmac=ENC[AES256_GCM,\n" + b"\n" * (1 << 20),
    "separators": b"sops: ENC[AES256_GCM,\n" + b"---\n" * (1 << 15),
    "a word": b"sops_mac=ENC[AES256_GCM,\n" + b"age__list_" * (1 << 17),
}


@pytest.mark.parametrize("text", LONG.values(), ids=LONG.keys())
@pytest.mark.timeout(30)
def test_content_that_is_made_to_take_long_does_not(text: bytes, prepare: Callable[..., Prepared]) -> None:
    with contextlib.suppress(BundleError):
        assert prepare({"a": text}).files == {}


@pytest.mark.timeout(30)
def test_a_key_that_is_made_to_take_long_does_not(encrypt: Encrypt, prepare: Callable[..., Prepared]) -> None:
    blanks = b"-----BEGIN PGP PRIVATE KEY BLOCK-----" + b" \n" * (1 << 19) + b"!"

    assert "damaged" in refusal(prepare, {"a.yaml": encrypt(SECRET)}, {"a.asc": blanks}).message


def test_a_search_of_much_in_much_is_charged(process: Callable[..., Rendering]) -> None:
    item = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"a": "x" * 100_000}}
    steps: list[int] = []

    process(Rendering(objects=[item], secrets=[f"secret-{n}" for n in range(1000)]), charge=steps.append)

    assert sum(steps) > 50_000


def test_all_files_together_have_the_time_of_one_run(encrypt: Encrypt, prepare: Callable[..., Prepared]) -> None:
    files = {f"{index}.yaml": encrypt(SECRET) for index in range(3)}

    error = refusal(prepare, files, means=Means(seconds=0.001))

    assert error.reason is Reason.RENDER_LIMIT_EXCEEDED


def test_much_text_is_left_to_a_child(encrypt: Encrypt, prepare: Callable[..., Prepared]) -> None:
    text = encrypt("a: " + 5 * "x" * (1 << 20))

    with pytest.raises(LargeTextError):
        prepare({"a.yaml": text}, means=Means(inline=True))


def test_more_text_than_the_limit_is_refused(encrypt: Encrypt, prepare: Callable[..., Prepared]) -> None:
    error = refusal(prepare, {"a.yaml": encrypt(SECRET)}, means=Means(limits=Limits(text_bytes=100)))

    assert error.reason is Reason.RENDER_LIMIT_EXCEEDED


def test_without_sops_the_message_says_what_to_install(encrypt: Encrypt, tmp_path: Path) -> None:
    with pytest.raises(BundleError, match="install SOPS") as caught:
        SopsProcessor().find_program(Means(scratch=tmp_path, programs={"sops": str(tmp_path / "missing")}))
    assert caught.value.reason is Reason.NOT_SUPPORTED


# objects


def an_object(kind: str, *, encrypt: Encrypt, **fields: Any) -> dict[str, Any]:
    item = {"apiVersion": "v1", "kind": kind, "metadata": {"name": "database"}, **fields}
    options = ("--encrypted-regex", "^(data|stringData|annotations)$")
    value: dict[str, Any] = json.loads(encrypt(json.dumps(item), "json", *options))
    return value


def test_a_rendered_object_is_decrypted(encrypt: Encrypt, process: Callable[..., Rendering]) -> None:
    item = an_object("Secret", stringData={"a": CANARY}, encrypt=encrypt)
    other = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}
    hook = Hook(manifest=item, events=("pre-install",))

    result = process(Rendering(objects=[other, item], hooks=[hook], warnings=["kept"]))

    assert result.objects[0] == other
    assert result.objects[1]["stringData"] == {"a": CANARY}
    assert "sops" not in result.objects[1]
    assert result.hooks[0].manifest == result.objects[1]
    assert result.warnings == ["kept"]
    assert list(result.secrets) == [CANARY]


def in_data(text: bytes, kind: str = "Secret", key: str = "values.yaml") -> dict[str, Any]:
    field = "data" if kind == "Secret" else "binaryData"
    encoded = {field: {key: base64.b64encode(text).decode(), "other": "eA=="}}
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": "database"}, **encoded}


@pytest.mark.parametrize(
    ("form", "key", "text"),
    [
        ("yaml", "values.yaml", f"password: {CANARY}\n"),
        ("json", "config.json", json.dumps({"password": CANARY})),
        ("dotenv", ".env", f"PASSWORD={CANARY}\n"),
        ("ini", "a.ini", f"[a]\npassword = {CANARY}\n"),
        ("binary", "id_rsa", CANARY),
    ],
)
def test_a_document_in_the_data_of_a_secret_is_decrypted(
    form: str, key: str, text: str, encrypt: Encrypt, process: Callable[..., Rendering]
) -> None:
    item = in_data(encrypt(text, form), key=key)
    result = process(Rendering(objects=[item]))
    data = result.objects[0]["data"]
    assert CANARY.encode() in base64.b64decode(data[key])
    assert b"sops" not in base64.b64decode(data[key])
    assert data["other"] == "eA=="
    plain = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "a"},
        "stringData": {key: encrypt(text, form).decode()},
    }
    assert CANARY in process(Rendering(objects=[plain])).objects[0]["stringData"][key]


@pytest.mark.parametrize("kind", ["Secret", "ConfigMap"])
def test_a_document_in_data_that_cannot_be_opened_is_refused_with_its_key(
    kind: str, encrypt: Encrypt, process: Callable[..., Rendering]
) -> None:
    """As a generator makes it of a file."""
    error = refusal(process, Rendering(objects=[in_data(encrypt(SECRET, to=("--age", OTHER)), kind)]))
    place = "data" if kind == "Secret" else "binaryData"
    assert f'{kind} database: {place}.values.yaml: is encrypted for age "{OTHER}"' in error.message


def test_fields_of_a_rendered_object_that_were_moved_are_told(
    encrypt: Encrypt, process: Callable[..., Rendering]
) -> None:
    item = an_object("Secret", stringData={"a": CANARY, "b": "other"}, encrypt=encrypt)
    item["stringData"] = dict(reversed(item["stringData"].items()))

    error = refusal(process, Rendering(objects=[item]))

    assert error.message.startswith("Secret database: changed after it was encrypted")


def test_an_object_that_cannot_be_opened_is_told_with_its_file(
    encrypt: Encrypt, prepare: Callable[..., Prepared], process: Callable[..., Rendering]
) -> None:
    partly = ("yaml", "--encrypted-regex", "^stringData$")
    files = {
        "other.yaml": encrypt(SECRET, *partly, to=("--age", OTHER)),
        "b.yaml": encrypt(SECRET, *partly).replace(b"name: database", b"name: other"),
    }
    made = prepare(files)
    objects = {path: values_of(text)[0] for path, text in files.items()}

    changed = refusal(process, Rendering(objects=[objects["b.yaml"]]), unprepared=made.unprepared)
    foreign = refusal(process, Rendering(objects=[objects["other.yaml"]]), unprepared=made.unprepared)

    assert changed.message.startswith('"b.yaml": Secret other: changed after it was encrypted')
    assert foreign.message.startswith(f'"other.yaml": Secret database: is encrypted for age "{OTHER}"')


PLACES: Mapping[str, dict[str, Any]] = {
    "a ConfigMap": {"kind": "ConfigMap", "data": {"a": CANARY}},
    "a part of a text": {"kind": "ConfigMap", "data": {"a": f"url: http://user:{CANARY}@host"}},
    "base64": {"kind": "ConfigMap", "binaryData": {"a": base64.b64encode(CANARY.encode()).decode()}},
    "a key": {"kind": "ConfigMap", "data": {CANARY: "a"}},
    "an annotation of a Secret": {"kind": "Secret", "metadata": {"name": "a", "annotations": {"a": CANARY}}},
    "a list": {"kind": "Pod", "spec": {"containers": [{"env": [{"name": "A", "value": CANARY}]}]}},
    "other indentation": {"kind": "ConfigMap", "data": {"a": "b:\n    first line\n    second line"}},
}


@pytest.mark.parametrize("item", PLACES.values(), ids=PLACES.keys())
def test_decrypted_values_in_other_places_than_secrets_are_refused(
    item: dict[str, Any], process: Callable[..., Rendering]
) -> None:
    manifest = {"apiVersion": "v1", "metadata": {"name": "a"}} | item
    secrets = (CANARY, "first line\nsecond line")
    rendering = Rendering(objects=[manifest], secrets=secrets)
    as_hook = Rendering(objects=[], hooks=[Hook(manifest=manifest, events=("pre-install",))], secrets=secrets)

    for each in (rendering, as_hook):
        error = refusal(process, each)
        assert error.reason is Reason.INVALID_CONFIG
        assert error.message.startswith(f"{PATH}: {item['kind']} a: ")
        assert process(each, allowOtherKinds=True) == each


def test_secrets_and_short_values_are_not_refused(process: Callable[..., Rendering]) -> None:
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}, "data": {"a": CANARY}}
    other = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"a": "on"}}
    rendering = Rendering(objects=[secret, other], secrets=(CANARY, "on", ""))

    assert process(rendering) == rendering


# parameters

GOOD = [{"secret": {"name": "keys"}}, {"secret": {"name": "a.b-c"}, "allowOtherKinds": True}]
BAD: list[tuple[Any, str]] = [
    ({}, ".secret"),
    ({"secret": "keys"}, ".secret"),
    ({"secret": None}, ".secret"),
    ({"secret": {}}, ".secret.name"),
    ({"secret": {"name": 1}}, ".secret.name"),
    ({"secret": {"name": "a/b"}}, ".secret.name"),
    ({"secret": {"name": "Keys"}}, ".secret.name"),
    ({"secret": {"name": "keys", "namespace": "a"}}, ".secret.namespace"),
    ({"secret": {"name": "keys"}, "allowOtherKinds": "true"}, ".allowOtherKinds"),
    ({"secret": {"name": "keys"}, "a b": 1}, '["a b"]'),
]


@pytest.mark.parametrize("parameters", GOOD)
def test_parameters_are_accepted(parameters: dict[str, Any]) -> None:
    assert SopsProcessor().validate(parameters, PATH) == []
    assert SopsProcessor().find_secrets(parameters) == [parameters["secret"]["name"]]


@pytest.mark.parametrize(("parameters", "field"), BAD)
def test_parameters_are_refused_by_field(parameters: dict[str, Any], field: str) -> None:
    [problem] = SopsProcessor().validate(parameters, PATH)

    assert problem.startswith(f"{PATH}{field}: ")
