"""Signatures that the administrator demands by where content comes from (`--require-verified`), whatever a spec says.

A demand is a pattern and where the keys are: `ghcr.io/acme/*=/etc/rukpak/keys`. The pattern is a host and a path, `*`
at its end stands for anything. The longest one that matches counts.

What matters is what servers take a location for, not how it is written. So each place has one canonical form, made from
what the request is made from, and a location that some server may read in another way has none: wherever anything is
demanded, it is refused. A place may have several names, and the demands for all of them count: with and without its
port, on both sides of a mirror, and over ssh, where paths begin at any folder of the server, from each folder on. If
they lead to different demands, none is guessed: the source is refused. So is a source that no such key can sign.

Not here: reading the keys (`revisions/source_access.py`), checking signatures (`signatures/`), and copies of content at
places that no pattern covers: `--allowed-hosts` keeps sources from those.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit

from rukpak.api.v1alpha2 import verification as signed
from rukpak.api.v1alpha2.fields import SecretReference
from rukpak.api.v1alpha2.types import BundleDeployment, Source
from rukpak.api.v1alpha2.verification import Demanded, Verification
from rukpak.controller.content.limits import quote
from rukpak.controller.sources.hosts import PORTS, embedded, parse_address
from rukpak.controller.sources.image.reference import HUB, HUB_NAMES, chart_reference, parse_reference

OPTION = "--require-verified"
SCHEME = "secret:"
"""With what `keys` begins if they are in a Secret."""
_ALIASES = {
    **dict.fromkeys((*HUB_NAMES, "registry.hub.docker.com"), HUB),
    **{f"{name}.github.com": "github.com" for name in ("api", "codeload", "redirect", "ssh", "www")},
    **{f"{name}.githubusercontent.com": "github.com" for name in ("media", "raw")},
    "altssh.gitlab.com": "gitlab.com",
    "altssh.bitbucket.org": "bitbucket.org",
}
"""Other names of a host, which serve the same below the same paths; to its usual name."""
_PATTERN = re.compile(r"\*|[^\s*/=,]*[.:\]][^\s*/=,]*/(?!/)[^\s*=,]*\*?|localhost/[^\s*=,]*\*?")
_HOST = re.compile(r"([a-z0-9_-]+\.)*(?!0x|[0-9]+$)[a-z0-9_-]+")
"""Not what resolvers read as an IPv4 address."""
_SERVICE = re.compile(r"\.svc(\..*)?$")
"""What the search list of Pods adds to the name of a Service."""
_ELEMENT = re.compile(r"~?[\w.+=@(-][\w.+,=@:()& -]*(?<![.: ])", re.ASCII)
"""What every server reads alike: not empty, no dots alone, no parameters (`;`), and nothing at the end that Windows
removes."""
_PORT = re.compile(r":[0-9]+(?=/|$)")
_API = re.compile(r"^(?:(github\.com/)(?:repos|media)|([^/]*/)v2)/")
"""Where GitHub and registries serve the same once more, below another path."""
_SUFFIX = re.compile(r"(/?\.git)+$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """Whose signature the content of some places must have."""

    pattern: str
    """In canonical form."""
    keys: str
    """Where the keys are: a file or folder, or `secret:NAMESPACE/NAME`."""

    def matches(self, name: str) -> bool:
        """Whether it is about a place; without a port, it is for all ports."""
        prefix, star, _ = self.pattern.partition("*")
        names = (name, _PORT.sub("", name))
        return name.startswith(prefix) or names[1].startswith(prefix) if star else prefix in names


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
    start, star, _ = pattern.partition("*")
    if not (equals and _PATTERN.fullmatch(pattern)):
        raise ValueError(f'{OPTION}: "{pair}" is not HOST/PATH=KEYS or HOST/PATH*=KEYS, like ghcr.io/acme/*=/etc/keys')
    name = keys.removeprefix(SCHEME)
    if not name:
        raise ValueError(f'{OPTION}: "{pair}" has no keys; name a file, a folder, or a Secret as secret:NAME')
    try:
        # Any letter in place of the star: what is before it need not be a whole element.
        place = f"{_canonical(f'{start}x')[:-1]}*" if star and start else pattern if star else _canonical(pattern)
    except ValueError as error:
        raise ValueError(f'{OPTION}: "{pair}" {error}; write it plainly') from None
    return Demand(pattern=place, keys=f"{SCHEME}{namespace}/{name}" if name != keys else keys)


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
        sources = tuple(map(self.with_demand, spec.sources))
        return deployment.model_copy(update={"spec": spec.model_copy(update={"sources": sources})})

    def with_demand(self, source: Source) -> Source:
        """Return a source that demands the signature that it must have."""
        try:
            names, request = locate(source)
        except ValueError as error:
            problem = f"{error} that servers may read in several ways, and the administrator demands signatures"
            problem = f"{problem} by place ({OPTION}); spell it plainly"
            return source.demanding(Demanded(verification=None, keys="", problem=problem))
        server = f"{names[0].partition('/')[0]}/"
        if request and any(each.pattern.startswith(server) for each in self.demands):
            source = source.requesting(request)
        found = {demand for each in self._with_mirrors(names) if (demand := self._demand_for(each))}
        if not found:
            return source
        problem, verification = "", _verification_of(source)
        if len(found) > 1:
            problem = f"the administrator demands other signatures for other names of it ({OPTION}); name another"
        elif verification is None:
            problem = f"the administrator demands a signature ({OPTION}), and sources of this kind have none"
        return source.demanding(Demanded(verification=verification, keys=found.pop().keys, problem=problem))

    def _with_mirrors(self, names: Sequence[str]) -> set[str]:
        found = set(names)
        for pair in self.mirrors.items():
            origin, mirror = (f"{_canonical(each.strip('/')).removesuffix('/')}/" for each in pair)
            for here, there in ((origin, mirror), (mirror, origin)):
                found |= {f"{there}{name.removeprefix(here)}" for name in found if name.startswith(here)}
        return found

    def _demand_for(self, location: str) -> Demand | None:
        matching = [demand for demand in self.demands if demand.matches(location)]
        return max(matching, key=lambda demand: len(demand.pattern), default=None)


def can_be_signed(source: Source) -> bool:
    """Whether there are signatures of sources of this kind at all."""
    return _verification_of(source) is not None


def _verification_of(source: Source) -> Verification | None:
    # Its Secret is only the name of a place.
    place = SecretReference(name="require-verified")
    cosign = signed.CosignVerification(keys=(signed.CosignKey(secret=place),))
    if source.image:
        return signed.ImageVerification(cosign=cosign)
    if source.git:
        return signed.GitVerification(secret=place)
    if source.http:
        return signed.HttpVerification(cosign=cosign)
    if source.chart and source.chart.is_in_registry:
        return signed.ChartVerification(cosign=cosign)
    return signed.ChartVerification(provenance=signed.ChartProvenance(secret=place)) if source.chart else None


def locate(source: Source) -> tuple[Sequence[str], str]:
    """Return the names of the place that a source gets its content from, and the URL to request if it is another one.

    Each name is a host and a path in canonical form, made from what the parsers of the request have read; '' for a kind
    that does not tell.

    Raises: ValueError with what has no canonical form.
    """
    # Slow to import, and needed only where something is demanded.
    from rukpak.controller.sources.git.connection import parse_repository  # noqa: PLC0415

    chart = source.chart
    image = parse_reference(source.image.ref) if source.image else None
    if chart and chart.is_in_registry:
        image = chart_reference(chart.repository, chart.name)
    if image:
        return [_canonical(f"{image.registry}/{image.repository}")], ""
    if url := source.http.url if source.http else chart.repository if chart else "":
        address, below = parse_address(url), f"/{chart.name}" if chart else ""
        name = _canonical(f"{address.authority}{address.path.removesuffix('/')}{below}")
        return [name, _API.sub(r"\1\2", name)], ""
    if not source.git:
        return [""], ""
    repository = parse_repository(source.git.repository)
    scheme, _, rest = repository.url.rpartition("://")
    server, _, path = rest.partition("/") if scheme else rest.replace(":/", ":", 1).partition(":")
    name = _canonical(f"{repository.authority}/{path}")
    if repository.scheme != "ssh":
        return [name], ""
    host, *elements = name.split("/")
    if elements[0].startswith("~") or (not scheme and "%" in path):  # git decodes paths only in URLs
        raise ValueError(f"{quote(path)} is a path")
    # Forges begin at their own root, and other servers at that of the machine: /home/git/acme/shop.
    names = ["/".join((host, *elements[start:])) for start in range(len(elements))]
    return names, "" if scheme else f"ssh://{server}/{path}"


def _canonical(place: str) -> str:
    """Return a host with a path in canonical form, as servers that ignore case read it, without `.git` at its end.

    The usual ports need not be written, so they are left out: a demand for one of them is for all ports.

    Raises: ValueError.
    """
    authority, _, path = place.partition("/")
    parts, path = urlsplit(f"//{authority}"), path.removesuffix("/")
    host, port = _canonical_host(parts.hostname or ""), parts.port
    elements = [unquote(each) for each in path.split("/")] if path else []
    for each in elements:
        if not _ELEMENT.fullmatch(each):  # also what could be decoded once more
            raise ValueError(f"{quote(each)} is a part of the path")
    address = f"{host}:{port}" if port and port not in PORTS.values() else host
    return f"{address}/{_SUFFIX.sub('', '/'.join(elements).lower())}"


def _canonical_host(host: str) -> str:
    name = host.removesuffix(".")
    with suppress(ValueError):
        address = ipaddress.ip_address(name)
        if isinstance(address, ipaddress.IPv4Address):
            return str(address)
        if not (address.ipv4_mapped or embedded(address)):
            return f"[{address}]"
    if not _HOST.fullmatch(name):  # also other spellings of addresses, such as 10.1
        raise ValueError(f"{quote(host)} is a host")
    return _ALIASES.get(name) or _SERVICE.sub("", name)
