"""Signatures that the administrator demands by where content comes from (`--require-verified`), whatever a spec says.

A demand is a pattern and where the keys are: `ghcr.io/acme/*=/etc/rukpak/keys`. The pattern is a host and a path, `*`
at its end stands for anything. The longest one that matches counts.

What matters is what servers take a location for, not how it is written. So each spelling that some server may use is
tried: without user, port, query and `.git`, in lower case, by the other names of Docker Hub and of hosts of Git,
percent-encoded once or more often, with and without `.` and `..`, as the API of a registry has it, and on both sides of
a mirror. If they lead to different demands, none is guessed: the source is refused. So is a source that no such key can
sign.

Not here: reading the keys (`revisions/credentials.py`), checking signatures (`signatures/`), and copies of content at
places that no pattern covers: `--allowed-hosts` keeps sources from those.
"""

from __future__ import annotations

import ipaddress
import posixpath
import re
import socket
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import unquote

from api.v1alpha2.references import SecretReference
from api.v1alpha2.types import BundleDeployment, Source
from api.v1alpha2.verification import (
    ChartProvenance,
    ChartVerification,
    CosignKey,
    CosignVerification,
    Demanded,
    GitVerification,
    HttpVerification,
    ImageVerification,
    Verification,
)
from controller.sources.hosts import PORTS
from controller.sources.image.reference import HUB, HUB_NAMES, parse_reference

OPTION = "--require-verified"
SCHEME = "secret:"
"""With what `keys` begins if they are in a Secret."""
_ALIASES = {
    **dict.fromkeys((*HUB_NAMES, "registry.hub.docker.com"), HUB),
    "ssh.github.com": "github.com",
    "www.github.com": "github.com",
    "altssh.gitlab.com": "gitlab.com",
    "altssh.bitbucket.org": "bitbucket.org",
}
"""Other names of a host that serve the same paths, such as those for SSH through firewalls; to its usual name."""
_PATTERN = re.compile(r"\*|[^\s*/=,]*[.:\]][^\s*/=,]*/(?!/)[^\s*=,]*\*?|localhost/[^\s*=,]*\*?")
_PORT = re.compile(r":([0-9]*)$")
_USUAL_PORTS = frozenset({"", *map(str, PORTS.values())})
_SCP_LIKE = re.compile(r"(?:[^/@:]+@)?(\[[^\]]+\]|[^/:\[]+):(.*)", re.DOTALL)
_MOST_DECODINGS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """Whose signature the content of some places must have."""

    pattern: str
    """In lower case."""
    keys: str
    """Where the keys are: a file or folder, or `secret:NAMESPACE/NAME`."""

    def matches(self, location: str) -> bool:
        """Whether it is about a location in normal form."""
        prefix, star, _ = self.pattern.partition("*")
        return location.startswith(prefix) if star else location == prefix


def name_demand(path: str) -> str:
    """Return how messages name what is demanded of the source at a field path."""
    return f"{path}: {OPTION} of the administrator"


def parse_demands(text: str, namespace: str) -> tuple[Demand, ...]:
    """Return the demands of the option.

    Args:
        text: `PATTERN=KEYS,…`.
        namespace: of Secrets.

    Raises: ValueError with the problem.
    """
    return tuple(_parse(pair.strip(), namespace) for pair in text.split(",") if pair.strip())


def _parse(pair: str, namespace: str) -> Demand:
    pattern, equals, keys = pair.partition("=")
    if not (equals and _PATTERN.fullmatch(pattern)):
        raise ValueError(f'{OPTION}: "{pair}" is not HOST/PATH=KEYS or HOST/PATH*=KEYS, like ghcr.io/acme/*=/etc/keys')
    name = keys.removeprefix(SCHEME)
    if not name:
        raise ValueError(f'{OPTION}: "{pair}" has no keys; name a file, a folder, or a Secret as secret:NAME')
    return Demand(pattern=_normal_place(pattern), keys=f"{SCHEME}{namespace}/{name}" if name != keys else keys)


@dataclass(frozen=True, slots=True, kw_only=True)
class SignaturePolicy:
    """The administrator's demands, and the mirrors of registries, which are other names of the same places."""

    demands: Sequence[Demand] = ()
    mirrors: Mapping[str, str] = field(default_factory=dict)

    def complete(self, deployment: BundleDeployment) -> BundleDeployment:
        """Return a BundleDeployment whose sources demand the signatures that they must have."""
        if not self.demands:
            return deployment
        spec = deployment.spec
        sources = tuple(map(self._with_demand, spec.sources))
        return deployment.model_copy(update={"spec": spec.model_copy(update={"sources": sources})})

    def _with_demand(self, source: Source) -> Source:
        found = {demand for each in find_locations(source, self.mirrors) if (demand := self._demand_for(each))}
        if not found:
            return source
        problem = ""
        verification = None
        if len(found) > 1:
            problem = (
                f"the administrator demands other signatures for other spellings of it ({OPTION}); spell it plainly"
            )
        elif (verification := _verification_of(source)) is None:
            problem = f"the administrator demands a signature ({OPTION}), and sources of this kind have none"
        [demand, *_] = sorted(found, key=lambda each: each.pattern)
        return source.demanding(Demanded(verification=verification, keys=demand.keys, problem=problem))

    def _demand_for(self, location: str) -> Demand | None:
        matching = [demand for demand in self.demands if demand.matches(location)]
        return max(matching, key=lambda demand: len(demand.pattern), default=None)


def can_be_signed(source: Source) -> bool:
    """Whether there are signatures of sources of this kind at all."""
    return _verification_of(source) is not None


def _verification_of(source: Source) -> Verification | None:
    """Return what the keys of an administrator can sign of a source; its Secret is only the name of a place."""
    place = SecretReference(name="require-verified")
    cosign = CosignVerification(keys=(CosignKey(secret=place),))
    if source.image:
        return ImageVerification(cosign=cosign)
    if source.git:
        return GitVerification(secret=place)
    if source.http:
        return HttpVerification(cosign=cosign)
    if source.chart and source.chart.is_in_registry:
        return ChartVerification(cosign=cosign)
    return ChartVerification(provenance=ChartProvenance(secret=place)) if source.chart else None


def find_locations(source: Source, mirrors: Mapping[str, str]) -> set[str]:
    """Return each spelling of host and path of a source, in normal form; '' for a kind that does not tell."""
    if source.image:
        return set(_of_registry(source.image.ref, mirrors))
    if source.chart and source.chart.is_in_registry:
        return set(_of_registry(f"{_without_scheme(source.chart.repository).rstrip('/')}/{source.chart.name}", mirrors))
    if source.chart:
        return set(_spellings(f"{source.chart.repository.partition('?')[0].rstrip('/')}/{source.chart.name}"))
    if source.git:
        return set(_spellings(_as_url(source.git.repository)))
    return set(_spellings(source.http.url)) if source.http else {""}


def _of_registry(reference: str, mirrors: Mapping[str, str]) -> Iterator[str]:
    try:
        parsed = parse_reference(reference)
    except ValueError:  # it is refused before anything is asked
        return
    for spelling in _spellings(f"{parsed.registry}/{parsed.repository}"):
        yield spelling
        host, _, path = spelling.partition("/")
        for name, mirror in mirrors.items():
            place, origin = _normal_place(mirror.strip("/")), _normal_place(name)
            if host == origin:
                yield from _spellings(f"{place}/{path}")
            if spelling.startswith(f"{place}/"):
                yield from _spellings(f"{origin}/{spelling.removeprefix(f'{place}/')}")


def _without_scheme(url: str) -> str:
    return url.partition("://")[2]


def _as_url(repository: str) -> str:
    if "://" not in repository and (match := _SCP_LIKE.fullmatch(repository)):
        return f"ssh://{match[1]}/{match[2]}"
    return repository


def _spellings(url: str) -> Iterator[str]:
    """Yield what servers may take a URL, or a host with a path, for."""
    place = _without_scheme(url) if "://" in url else url
    authority, _, path = re.split(r"[?#]", place, maxsplit=1)[0].partition("/")
    host, port = _normal_address(authority.rpartition("@")[2].lower())
    for each in set(_paths(path)):
        yield f"{host}/{each}"
        yield f"{host}{port}/{each}"


def _normal_place(text: str) -> str:
    """Return a pattern, or the place of a mirror, in normal form."""
    authority, slash, path = text.lower().partition("/")
    host, port = _normal_address(authority)
    return f"{host}{port}{slash}{path}"


def _normal_address(authority: str) -> tuple[str, str]:
    """Return host and port in normal form, the port with its colon.

    The usual ports need not be written, so they are left out: a demand for one of them is for all ports.
    """
    found = _PORT.search(authority)
    host, digits = (authority[: found.start()], found[1]) if found else (authority, "")
    # Clients read a port as a number: :05000 is :5000.
    port = digits.lstrip("0")
    return _normal(host.rstrip(".")), "" if port in _USUAL_PORTS else f":{port}"


def _normal(host: str) -> str:
    """Return the usual name of a host, or spelling of an address, as resolvers read all of them: 10.1 is 10.0.0.1."""
    if host in _ALIASES:
        return _ALIASES[host]
    try:
        if ":" not in host:
            return socket.inet_ntoa(socket.inet_aton(host))
        address = ipaddress.IPv6Address(host.strip("[]"))
    except (OSError, ValueError):
        return host
    return str(address.ipv4_mapped) if address.ipv4_mapped else f"[{address}]"


def _paths(path: str) -> Iterator[str]:
    for _ in range(_MOST_DECODINGS):
        for each in (path, posixpath.normpath(f"/{path}")):
            plain = re.sub("/+", "/", each).strip("/").lower().removesuffix(".git")
            yield plain
            yield plain.removeprefix("v2/")
        path = unquote(path)
