"""`spec.sources[]`: where content is fetched from, in both spellings that the API has had.

Not here: what a kind does with its block (`controller/sources`), and its further checks (`Source.validate` there).
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import ConfigDict, Field

from api.v1alpha2.fields import (
    QUALIFIED_NAME,
    Api,
    Directory,
    Namespace,
    ObjectName,
    PollInterval,
    parse_duration,
    rule,
    rules,
)

_BLOCKS = ("image", "git", "http")

# user:password@ in a URL; a user alone stands in the clone URLs of some forges.
_FULL_USER_INFO = "^[a-z]+://[^/@]*:[^/@]*@"

# Every character is spelled out: \s and \S mean other characters to the API server (RE2) than to pydantic (Rust).
_SCHEME_URL = r"^(https?|ssh)://[!-,.0-~][!-~]*$"
# [user@]host:path; a second colon would be a remote helper (ext::), two slashes another scheme (file://).
_SCP_LIKE = r"^([A-Za-z0-9._~-]+@)?[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?:/?[!-,.0-9;-~][!-~]*$"
# What git check-ref-format refuses, as far as a pattern can say it; and what git would take for an option.
_REF = r"^[^\x00-\x20\x7f-\xa0~^:?*\[\\-][^\x00-\x20\x7f-\xa0~^:?*\[\\]*$"


class SecretReference(Api):
    """A Secret."""

    namespace: Namespace | None = None
    """Namespace of the Secret. Default: spec.installNamespace, which is required then."""
    name: ObjectName
    """Name of the Secret."""


class Auth(Api):
    """Which Secret holds the credentials; also `{namespace, name}` without `secret`, which means the same."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule("has(self.secret) || has(self.name)", "name a Secret: secret.name is required", ".secret"),
            rule(
                "!has(self.secret) || !(has(self.name) || has(self.namespace))",
                "the Secret is named twice: give either secret, or name and namespace",
                ".secret",
            ),
        )
    )
    secret: SecretReference | None = None
    """The Secret with the credentials. Its type and keys are Kubernetes' own (dockerconfigjson, basic-auth, ssh-auth),
    or Flux's (identity, known_hosts, bearerToken, ca.crt)."""
    namespace: Namespace | None = None
    """Older spelling of secret.namespace."""
    name: ObjectName | None = None
    """Older spelling of secret.name."""

    @property
    def reference(self) -> SecretReference | None:
        """The Secret, in either spelling."""
        if self.secret or not self.name:
            return self.secret
        return SecretReference(namespace=self.namespace, name=self.name)


class _Block(Api):
    """What the blocks of the kinds have in common."""

    auth: Auth | None = None
    """Credentials for the source. Default: none. They go only to the host that they are for, and never over plain
    http or with insecureSkipTLSVerify."""
    insecure_skip_tls_verify: bool = False
    """Do not verify the certificate of the source, and allow plain http to it. For tests, and without credentials."""
    certificate_data: Annotated[str, Field(max_length=262144, pattern=r"^$|-----BEGIN CERTIFICATE-----")] = ""
    """CA certificates in PEM that the source is verified with, instead of the system's."""


class ImageSource(_Block):
    """An OCI or Docker image, or an OCI artifact, in a registry."""

    ref: Annotated[str, Field(min_length=1, max_length=1024, pattern=r"^[!-~]+$")]
    """Image reference: a tag (quay.io/foo/bar:v1) or a digest (quay.io/foo/bar@sha256:…). A tag is resolved to a digest
    once, and that digest stays installed until the spec changes or a new resolution is asked for."""
    platform: Annotated[str, Field(max_length=64, pattern=r"^[a-z0-9]+/[a-z0-9_]+(/[a-z0-9._]+)?$")] = "linux/amd64"
    """Which image of an index to take: os/architecture or os/architecture/variant."""


class GitSource(_Block):
    """One commit of a git repository."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                f"!self.repository.matches('{_FULL_USER_INFO}')",
                "must not hold a password: name a Secret in auth",
                ".repository",
            )
        )
    )
    repository: Annotated[
        str,
        Field(
            min_length=1,
            max_length=2048,
            json_schema_extra=rules(
                rule(
                    f"self.matches(r'{_SCHEME_URL}|{_SCP_LIKE}')",
                    "must be https://host/path, ssh://user@host/path or user@host:path",
                )
            ),
        ),
    ]
    """URL of the repository: https://host/path, ssh://user@host/path or user@host:path."""
    ref: Annotated[
        str,
        Field(
            min_length=1,
            max_length=256,
            json_schema_extra=rules(
                rule(f"self.matches(r'{_REF}')", r'must be a git ref: no leading "-", no blanks, none of ~^:?*[\ in it')
            ),
        ),
    ] = "HEAD"
    """Commit (also abbreviated), tag, branch or full ref (refs/…). It is resolved to a commit once, and that commit
    stays installed until the spec changes or a new resolution is asked for."""
    directory: Directory = ""
    """Part of the repository to take: a relative path. Empty: all of it."""
    destination: Directory | None = None
    """Older spelling of the destination of the source."""


class HttpSource(_Block):
    """One file at a URL."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(f"!self.url.matches('{_FULL_USER_INFO}')", "must not hold a password: name a Secret in auth", ".url")
        )
    )
    url: Annotated[str, Field(min_length=1, max_length=2048, pattern=r"^https?://[!-.0-~][!-~]*$")]
    """URL of an archive (.tar, .tar.gz, .tgz, .tar.zst, .zip), which is unpacked, or of one YAML or JSON file, which
    keeps the last element of the path as its name."""
    sha256: Annotated[str, Field(max_length=64, pattern=r"^([0-9a-f]{64})?$")] = ""
    """Pin of the body: its SHA-256 in 64 hexadecimal digits. Any other body is refused. Empty: the digest of the first
    fetch is recorded."""
    strip_components: Annotated[int, Field(ge=0, le=64)] = 0
    """How many leading path elements to drop from the names in an archive, as `tar --strip-components` does. Archives
    made by forges need 1."""
    destination: Directory | None = None
    """Older spelling of the destination of the source."""


class Parameters(Api):
    """Parameters of an out-of-tree kind, as its documentation says; `auth` means what it means elsewhere."""

    model_config = ConfigDict(extra="allow")
    auth: Auth | None = None
    """Credentials for the source. Default: none."""


class Source(Api):
    """One place that content is fetched from."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            *(
                rule(
                    f"has(self.{block}) == (self.kind == '{block}')",
                    f'must be set when kind is "{block}", and only then',
                    f".{block}",
                )
                for block in _BLOCKS
            ),
            rule(
                f"!has(self.parameters) || !(self.kind in {list(_BLOCKS)})",
                "is for kinds that are not built in; set the block that kind names instead",
                ".parameters",
            ),
            rule(
                "!has(self.destination) || !(has(self.git) && has(self.git.destination)"
                " || has(self.http) && has(self.http.destination))",
                "is given twice: here, and inside the block of the kind; take one out",
                ".destination",
            ),
        )
    )
    kind: Annotated[
        str,
        Field(
            min_length=1,
            max_length=317,
            json_schema_extra=rules(
                rule(
                    f"self in {list(_BLOCKS)} || self.matches(r'{QUALIFIED_NAME}')",
                    "must be image, git, http, or the <domain>/<name> of an installed plug-in",
                )
            ),
        ),
    ]
    """What kind of source this is: image, git, http, or the <domain>/<name> of an installed plug-in. Exactly the block
    of this name must be set."""
    destination: Directory | None = None
    """Directory of the content tree that the content goes to: a relative path. Default: the root. Several sources may
    share a destination, or nest; a path that two of them bring is refused (ContentConflict)."""
    poll_interval: PollInterval = ""
    """How often to look whether a floating ref (a tag, a branch, a URL without sha256) names something else now, at
    least 30s. Empty: never; a new resolution is asked for by changing the spec, or by the annotation
    core.rukpak.io/reconcile-requested-at."""
    image: ImageSource | None = None
    """The image, if kind is image."""
    git: GitSource | None = None
    """The commit, if kind is git."""
    http: HttpSource | None = None
    """The file, if kind is http."""
    parameters: Annotated[Parameters, Field(json_schema_extra={"maxProperties": 64})] | None = None
    """The parameters of a kind that is not built in, as its plug-in documents them."""

    @property
    def target(self) -> str:
        """The destination in either spelling; the root is ''."""
        inner = self.git.destination if self.git else self.http.destination if self.http else None
        return self.destination or inner or ""

    @property
    def poll_interval_seconds(self) -> float | None:
        """`poll_interval` in seconds; None: never."""
        return parse_duration(self.poll_interval) if self.poll_interval else None

    @property
    def block(self) -> str:
        """The name of the block that holds the parameters: field paths have it."""
        return self.kind if self.kind in _BLOCKS else "parameters"

    @property
    def parameters_json(self) -> dict[str, Any]:
        """The block that `kind` names as plain JSON, defaults filled in, without credentials and destination."""
        block = self._block
        if block is None:
            return {}
        return block.model_dump(mode="json", by_alias=True, exclude_none=True, exclude={"auth", "destination"})

    @property
    def secret(self) -> SecretReference | None:
        """The Secret with the credentials, in either spelling; its namespace may be left to the install namespace."""
        auth = self._block.auth if self._block else None
        return auth.reference if auth else None

    @property
    def _block(self) -> _Block | Parameters | None:
        blocks = {"image": self.image, "git": self.git, "http": self.http}
        return blocks.get(self.kind, self.parameters)
