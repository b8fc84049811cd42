"""`spec.sources[]`: where content is fetched from, in both spellings that the API has had.

Not here: what a kind does with its block (`controller/sources`) and its other checks (`Source.validate` there).
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import ConfigDict, Field, PrivateAttr

from rukpak.api.v1alpha2.fields import (
    Api,
    AtomicList,
    Directory,
    Namespace,
    ObjectName,
    PollInterval,
    RepositoryDirectory,
    SecretReference,
    block_rule,
    model_rules,
    parameters_rule,
    parse_duration,
    plug_in_kind,
    rule,
    rules,
)
from rukpak.api.v1alpha2.verification import (
    ChartVerification,
    Demanded,
    GitVerification,
    HttpVerification,
    ImageVerification,
    Verification,
)

_BLOCKS = ("image", "git", "http", "configMap", "chart")

# user:password@ in a URL; some forges have a user without a password in their clone URLs.
_FULL_USER_INFO = "^[a-z]+://[^/@]*:[^/@]*@"

# Characters are spelled out, because \s and \S mean different characters to the API server (RE2) and pydantic (Rust).
_SCHEME_URL = r"^(https?|ssh)://[!-,.0-~][!-~]*$"
# [user@]host:path; a second colon would be a remote helper (ext::), two slashes another scheme (file://).
_SCP_LIKE = r"^([A-Za-z0-9._~-]+@)?[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?:/?[!-,.0-9;-~][!-~]*$"
# What git check-ref-format refuses, as far as a pattern can express it, and what git would parse as an option.
_REF = r"^[^\x00-\x20\x7f-\xa0~^:?*\[\\-][^\x00-\x20\x7f-\xa0~^:?*\[\\]*$"


def _no_password(field: str) -> dict[str, str]:
    problem = "must not contain a password; name a Secret in auth"
    return rule(f"!self.{field}.matches('{_FULL_USER_INFO}')", problem, f".{field}")


class Auth(Api):
    """The Secret with the credentials. `{namespace, name}` without `secret` means the same."""

    model_config = model_rules(
        rule("has(self.secret) || has(self.name)", "secret.name is required", ".secret"),
        rule(
            "!has(self.secret) || !(has(self.name) || has(self.namespace))",
            "the Secret is set twice; set either secret, or name and namespace",
            ".secret",
        ),
    )
    secret: SecretReference | None = None
    """The Secret with the credentials. It has a type of Kubernetes (dockerconfigjson, basic-auth, ssh-auth) or keys as
    in Flux (identity, known_hosts, bearerToken, ca.crt, tls.crt and tls.key)."""
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
    """Fields that the built-in kinds have in common."""

    auth: Auth | None = None
    """Credentials for the source. Default: none. They are sent only to the host of the source, never over plain http
    and never with insecureSkipTLSVerify."""
    insecure_skip_tls_verify: bool = False
    """Skip verification of the source's certificate, and allow plain http. For tests, and only without credentials."""
    certificate_data: Annotated[str, Field(max_length=262144, pattern=r"^$|-----BEGIN CERTIFICATE-----")] = ""
    """CA certificates in PEM to verify the source with, in place of the system's."""


VersionRange = Annotated[str, Field(min_length=1, max_length=256, pattern=r"^[ -~]+$")]


class ImageSource(_Block):
    """An OCI or Docker image, or an OCI artifact, in a registry."""

    model_config = model_rules(
        rule(
            "!has(self.semver) || !self.ref.matches('@|:[^/]*$')",
            "must have neither tag nor digest together with semver",
            ".ref",
        ),
        rule("!has(self.semverFilter) || has(self.semver)", "requires semver", ".semverFilter"),
    )
    ref: Annotated[str, Field(min_length=1, max_length=1024, pattern=r"^[!-~]+$")]
    """Image reference with a tag (quay.io/foo/bar:v1) or a digest (quay.io/foo/bar@sha256:…). A tag is resolved to a
    digest once; that digest remains installed until the spec changes or a new resolution is requested."""
    semver: VersionRange | None = None
    """Range of versions, as Helm writes them: >=1.2.0 <2.0.0, ~1.4, 1.x. The highest version among the tags that is in
    the range is used; pre-releases only if the range names one. ref has no tag then. Default: the tag or digest of
    ref."""
    semver_filter: Annotated[str, Field(min_length=1, max_length=256)] | None = None
    """Regular expression (RE2) that a tag must contain to be considered: ^v, -alpine$. Default: all tags are."""
    platform: Annotated[str, Field(max_length=64, pattern=r"^[a-z0-9]+/[a-z0-9_]+(/[a-z0-9._]+)?$")] = "linux/amd64"
    """Which image of an index to use: os/architecture or os/architecture/variant."""
    verify: ImageVerification | None = None
    """Who must have signed the image. Checked before anything of it is read. Default: nobody."""


class GitSource(_Block):
    """One commit of a git repository."""

    model_config = model_rules(
        _no_password("repository"),
        rule("!has(self.semver) || !has(self.ref) || self.ref == 'HEAD'", "must not be set with semver", ".ref"),
    )
    repository: Annotated[
        str,
        Field(min_length=1, max_length=2048),
        rules(
            rule(
                f"self.matches(r'{_SCHEME_URL}|{_SCP_LIKE}')",
                "must be https://host/path, ssh://user@host/path or user@host:path",
            )
        ),
    ]
    """URL of the repository: https://host/path, ssh://user@host/path or user@host:path."""
    ref: Annotated[
        str,
        Field(min_length=1, max_length=256),
        rules(rule(f"self.matches(r'{_REF}')", r'must be a git ref: no leading "-", no blanks, none of ~^:?*\[')),
    ] = "HEAD"
    """Commit (may be abbreviated), tag, branch or full ref (refs/…). It is resolved to a commit once; that commit
    remains installed until the spec changes or a new resolution is requested."""
    semver: VersionRange | None = None
    """Range of versions, as Helm writes them: >=1.2.0 <2.0.0, ~1.4, 1.x. The highest version among the tags that is in
    the range is used; pre-releases only if the range names one. Default: ref."""
    directory: RepositoryDirectory = ""
    """Directory of the repository to use, as a relative path. Links in it may lead anywhere in the repository. Empty:
    the whole repository."""
    verify: GitVerification | None = None
    """Who must have signed the commit or the tag. Checked before any file is read. Default: nobody."""
    submodules: bool | None = None
    """Whether the submodules in the directory are read, too, each at the commit that the repository records, and those
    that they include. Their hosts must be allowed like that of a source; auth is sent only to the scheme, host and port
    of repository. Default: a submodule is not read, and an error where the format would read it."""
    destination: Directory | None = None
    """Older spelling of the destination of the source."""


class HttpSource(_Block):
    """One file at a URL."""

    model_config = model_rules(_no_password("url"))
    url: Annotated[str, Field(min_length=1, max_length=2048, pattern=r"^https?://[!-.0-~][!-~]*$")]
    """URL of an archive (.tar, .tar.gz, .tgz, .tar.zst, .zip), which is unpacked, or of a single YAML or JSON file,
    whose name is the last element of the path."""
    sha256: Annotated[str, Field(max_length=64, pattern=r"^([0-9a-f]{64})?$")] = ""
    """Expected SHA-256 of the body, in 64 hexadecimal digits; any other body is refused. Empty: the digest of the first
    fetch is recorded."""
    strip_components: Annotated[int, Field(ge=0, le=64)] = 0
    """How many leading path elements to remove from names in an archive, as `tar --strip-components` does. Archives
    generated by forges need 1."""
    verify: HttpVerification | None = None
    """Who must have signed the file. Checked before it is read. Default: nobody."""
    destination: Directory | None = None
    """Older spelling of the destination of the source."""


class ConfigMapSource(Api):
    """Content in ConfigMaps of the install namespace, for what is in no registry or repository."""

    model_config = model_rules(
        rule("has(self.name) != has(self.names)", "set either name or names, and not both", ".name"),
    )
    name: ObjectName | None = None
    """Name of the ConfigMap. Each key of data and binaryData is a file; a single key that is named like an archive
    (.tar, .tar.gz, .tgz, .tar.zst, .zip) is unpacked. Any change of it is installed, unless it is immutable."""
    names: Annotated[AtomicList[ObjectName] | None, Field(min_length=1, max_length=64)] = None
    """Names of several ConfigMaps, in place of name: the parts of one archive, as kubectl rukpak push makes them, or
    ConfigMaps with different keys."""


_OCI = "oci://"


class ChartSource(_Block):
    """One version of a Helm chart, in a chart repository or in a registry."""

    model_config = model_rules(
        _no_password("repository"),
        rule(
            f"!has(self.passCredentials) || !self.repository.startsWith('{_OCI}')",
            "is for chart repositories, whose index.yaml names addresses; remove it",
            ".passCredentials",
        ),
        rule(
            f"!has(self.verify) || has(self.verify.cosign) == self.repository.startsWith('{_OCI}')",
            "must be cosign for a registry (oci://), and provenance for a chart repository",
            ".verify",
        ),
    )
    repository: Annotated[str, Field(min_length=1, max_length=2048, pattern=r"^(https?|oci)://[!-.0-~][!-~]*$")]
    """URL of the chart repository, which has an index.yaml: https://charts.example.com. It is asked once per
    pollInterval for all sources that use it with the same credentials. Or the folder of a registry that contains the
    chart: oci://registry.example.com/charts."""
    name: Annotated[str, Field(min_length=1, max_length=250, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]
    """Name of the chart. The files of its directory are the content: Chart.yaml is in the destination."""
    version: VersionRange | None = None
    """Version (1.4.2), or range of versions as Helm writes them: >=1.2.0 <2.0.0, ~1.4, 1.x. The highest version in the
    range is used; pre-releases only if the range names one. Default: the highest version that is no pre-release."""
    sha256: Annotated[str, Field(max_length=64, pattern=r"^([0-9a-f]{64})?$")] = ""
    """Expected SHA-256 of the packaged chart, in 64 hexadecimal digits; any other chart is refused. Empty: the digest
    that the repository has is recorded."""
    pass_credentials: bool | None = None
    """Whether auth is also sent to another host, if index.yaml says that the chart is there: over verified https, and
    only to hosts that the administrator allows. Default: only to the scheme, host and port of repository."""
    verify: ChartVerification | None = None
    """Who must have signed the chart. Checked before it is read. Default: nobody."""

    @property
    def is_in_registry(self) -> bool:
        """Whether the repository is a folder of a registry."""
        return self.repository.startswith(_OCI)


class Parameters(Api):
    """Parameters of an out-of-tree kind, as its plug-in documents them; `auth` has its usual meaning."""

    model_config = ConfigDict(extra="allow")
    auth: Auth | None = None
    """Credentials for the source. Default: none."""


class Source(Api):
    """A place to fetch content from."""

    model_config = model_rules(
        *map(block_rule, _BLOCKS),
        parameters_rule(_BLOCKS),
        rule(
            "!has(self.destination) || !(has(self.git) && has(self.git.destination)"
            " || has(self.http) && has(self.http.destination))",
            "is set twice, here and in the block of the kind; remove one",
            ".destination",
        ),
    )
    kind: Annotated[str, plug_in_kind(_BLOCKS)]
    """Kind of the source: image, git, http, configMap, chart, or the <domain>/<name> of an installed plug-in. Of image,
    git, http, configMap and chart, only the block of this name may be set, and must be."""
    destination: Directory | None = None
    """Directory of the content tree to put the content in, as a relative path. Default: the root. Sources may share or
    nest destinations; a path that two sources contain is refused (ContentConflict)."""
    poll_interval: PollInterval = ""
    """How often to check whether a floating reference (tag, branch, range of versions, URL without sha256) has
    changed; at least 30s.
    Empty: never; to request a new resolution, change the spec or the annotation
    core.rukpak.io/reconcile-requested-at."""
    image: ImageSource | None = None
    """The image to fetch, if kind is image."""
    git: GitSource | None = None
    """The commit to fetch, if kind is git."""
    http: HttpSource | None = None
    """The file to fetch, if kind is http."""
    config_map: ConfigMapSource | None = None
    """The ConfigMaps in spec.installNamespace to read, if kind is configMap."""
    chart: ChartSource | None = None
    """The chart to fetch, if kind is chart."""
    parameters: Annotated[Parameters, Field(json_schema_extra={"maxProperties": 64})] | None = None
    """Parameters of a kind that is not built in, as its plug-in documents them."""

    _demanded: Demanded | None = PrivateAttr(default=None)
    _requested: str = PrivateAttr(default="")

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
    def is_local(self) -> bool:
        """Whether the content is in the cluster: it is resolved again when it changes."""
        return self.config_map is not None

    @property
    def is_in_registry(self) -> bool:
        """Whether the content is in an image registry, for which accounts have pull Secrets."""
        return self.image is not None or (self.chart is not None and self.chart.is_in_registry)

    @property
    def block(self) -> str:
        """The name of the block with the parameters, as it appears in field paths."""
        return self.kind if self.kind in _BLOCKS else "parameters"

    @property
    def parameters_json(self) -> dict[str, Any]:
        """The block that `kind` names as plain JSON with defaults, without credentials and destination."""
        block = self._block
        if block is None:
            return {}
        return block.model_dump(mode="json", by_alias=True, exclude_none=True, exclude={"auth", "destination"})

    def requesting(self, repository: str) -> Source:
        """Return the source with the spelling of its repository that requests use; what identifies it stays."""
        made = self.model_copy()
        made._requested = repository  # noqa: SLF001 - of the same class
        return made

    @property
    def request_json(self) -> dict[str, Any]:
        """`parameters_json` as requests use it."""
        return {**self.parameters_json, **({"repository": self._requested} if self._requested else {})}

    @property
    def secret(self) -> SecretReference | None:
        """The Secret with the credentials, in either spelling; without a namespace it is in the install namespace."""
        auth: Auth | None = getattr(self._block, "auth", None)
        return auth.reference if auth else None

    def demanding(self, demanded: Demanded) -> Source:
        """Return the source with a signature that the administrator demands of it."""
        made = self.model_copy()
        made._demanded = demanded  # noqa: SLF001 - of the same class
        return made

    @property
    def demanded(self) -> Demanded | None:
        """What the administrator demands in addition to `verify`."""
        return self._demanded

    @property
    def needs_signature(self) -> bool:
        """Whether anybody must have signed the content."""
        return self.verification is not None or self._demanded is not None

    @property
    def verification(self) -> Verification | None:
        """Who must have signed the content; None for a kind that is not built in, whose plug-in has its own means."""
        block = self._block
        verify: Verification | None = getattr(block, "verify", None) if isinstance(block, _Block) else None
        return verify

    @property
    def _block(self) -> Api | None:
        name = "config_map" if self.kind == "configMap" else self.block
        block: Api | None = getattr(self, name)
        return block
