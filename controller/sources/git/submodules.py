"""Submodules: a commit with the repositories that it includes, each at the commit that it records.

Whoever writes .gitmodules chooses servers. So its URLs are those that a spec may name, and hosts and addresses are
checked as those of a spec; credentials are sent only to the scheme, host and port of the source. Git's names of
submodules, which it uses as paths, are ignored. The limits and the deadline of the source are for all together.

Not here: objects (objects.py), and reaching a repository (redirect.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

from api.errors import BundleError
from api.plugins import Access, Entry, EntryKind, Refusal
from api.v1alpha2.conditions import Reason
from controller.content.limits import Rejection, quote, too_many_entries
from controller.sources.git.connection import SSH, Connection, Repository, parse_repository
from controller.sources.git.files import SUBMODULE, Item
from controller.sources.git.objects import Objects
from controller.sources.git.redirect import reach
from controller.sources.redirects import Place
from controller.sources.trust import certificates_of

MAX_COUNT = 100
"""Submodules of one source."""
MAX_DEPTH = 10
"""Submodules in submodules."""
_RELATIVE = ("./", "../")
_WAYS = "add its repository as another source, or use a directory without it"
_NOT_READ = f"is a submodule, which is not read; set submodules: true, {_WAYS}"
_SKIPPED = f"is a submodule that .gitmodules leaves out (update = none); {_WAYS}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Module:
    """A section of .gitmodules."""

    url: str = ""
    is_skipped: bool = False
    """Whether git leaves the submodule out unless it is asked for it (`update = none`, gitmodules(5))."""


def parse_modules(listing: bytes) -> dict[str, Module]:
    """Return the sections of .gitmodules by the path of the submodule; names that git ignores are left out.

    Args:
        listing: of `git config --list -z`: keys as `submodule.<name>.<variable>`, of which the last one counts.
    """
    sections: dict[str, dict[str, str]] = {}
    for line in listing.decode(errors="surrogateescape").split("\0"):
        key, _, value = line.partition("\n")
        section, _, rest = key.partition(".")
        name, _, variable = rest.rpartition(".")
        # As git since CVE-2018-11235.
        if section == "submodule" and name and ".." not in name.replace("\\", "/").split("/"):
            sections.setdefault(name, {})[variable] = value
    return {
        found["path"]: Module(url=found.get("url", ""), is_skipped=found.get("update") == "none")
        for found in sections.values()
        if "path" in found
    }


def resolve_url(url: str, base: str) -> str:
    """Return the URL of a submodule; a relative one starts at the URL of its superproject (git-submodule(1), "add").

    Raises: ValueError if it has more `../` than that URL has elements.
    """
    if not url.startswith(_RELATIVE):
        return url
    base, separator = base.removesuffix("/"), "/"
    while url.startswith(_RELATIVE):
        up, _, url = url.partition("/")
        if up == "..":
            base, separator = _chop(base, separator)
    return f"{base}{separator}{url}".removesuffix("/")


def _chop(base: str, separator: str) -> tuple[str, str]:
    """Return a URL without its last element, and what separates it from the next one: a colon if it is scp-like."""
    if "/" in base:
        return base.rpartition("/")[0], separator
    if ":" in base:
        return base.rpartition(":")[0], ":"
    raise ValueError("has too many ../; correct it")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wanted:
    """One commit of one repository."""

    url: str
    commit: str
    directory: str
    """Of the repository, that is read."""
    prefix: str = ""
    """Of its paths in the content."""
    submodule: str = ""
    """Its path from the root of the source's repository; '' for that itself."""
    depth: int = 0

    def include(self, item: Item, url: str) -> _Wanted:
        """Return the commit of a submodule below the directory, or of the one that contains it."""
        is_around = not item.path
        return _Wanted(
            url=url,
            commit=item.name,
            directory=self.directory.removeprefix(item.submodule).lstrip("/") if is_around else "",
            prefix=self.prefix if is_around else f"{self.prefix}{item.path}/",
            submodule=f"{self.submodule}/{item.submodule}".lstrip("/"),
            depth=self.depth + 1,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """What was fetched of one commit."""

    wanted: _Wanted
    objects: Objects
    items: Sequence[Item]
    unread: list[Entry]
    """Submodules that must not be read."""

    def read(self) -> Iterator[Entry]:
        """Yield the entries. Raises: BundleError."""
        files = [item for item in self.items if item.mode != SUBMODULE]
        where = f"{self.wanted.submodule}/{self.wanted.directory}".strip("/")
        with closing(self.objects.read(files, where)) as found:  # it ends git
            for entry in chain(found, self.unread):
                yield replace(entry, path=f"{self.wanted.prefix}{entry.path}")


class Checkout:
    """The files of one commit of a source and, if `submodules` is set, of its submodules.

    Args:
        repository: of the source.
        parameters: of the source.
        access: of the call.
    """

    def __init__(self, repository: Repository, parameters: Mapping[str, Any], access: Access) -> None:
        self._source, self._parameters, self._access = repository, parameters, access
        self._parts: list[_Part] = []

    def read(self, commit: str, directory: str) -> Iterator[Entry]:
        """Fetch everything, then yield the files below a directory: those of the commit, then of each submodule.

        Raises: BundleError (as `Objects.fetch_directory` and `Objects.read`).
        """
        self._fetch(_Wanted(url=self._parameters["repository"], commit=commit, directory=directory))
        for part in self._parts:
            yield from part.read()

    def _fetch(self, wanted: _Wanted) -> None:
        if wanted.depth > MAX_DEPTH:
            raise self._refuse(wanted, f"it is nested in more than {MAX_DEPTH} submodules; use another directory")
        if len(self._parts) > MAX_COUNT:
            raise self._refuse(wanted, f"the source has more than {MAX_COUNT} submodules; use another directory")
        part = (
            self._reach(wanted) if wanted.submodule else self._get(wanted, self._source, self._parameters, self._access)
        )
        self._parts.append(part)
        if sum(len(each.items) for each in self._parts) > self._access.limits.entries:
            raise too_many_entries(self._access.limits).at(self._access.path)
        submodules = [item for item in part.items if item.mode == SUBMODULE]
        if submodules and self._parameters.get("submodules"):
            modules = parse_modules(part.objects.read_modules(wanted.commit))
            self._fetch_included(part, submodules, modules)
        else:
            for item in submodules:
                self._leave_out(part, item, _NOT_READ)

    def _fetch_included(self, part: _Part, submodules: Sequence[Item], modules: Mapping[str, Module]) -> None:
        for item in submodules:
            module = modules.get(item.submodule, Module())
            if module.is_skipped:
                self._leave_out(part, item, _SKIPPED)
            else:
                self._fetch(self._include(part.wanted, item, module))

    def _include(self, wanted: _Wanted, item: Item, module: Module) -> _Wanted:
        inner = wanted.include(item, module.url)
        if not module.url:
            raise self._refuse(inner, ".gitmodules has no URL for it; add that, or remove the submodule")
        try:
            return replace(inner, url=resolve_url(module.url, wanted.url))
        except ValueError as error:
            raise self._refuse(inner, f"{_show(module.url)} {error}") from None

    def _leave_out(self, part: _Part, item: Item, problem: str) -> None:
        """Leave it to formats to refuse a submodule; refuse it if nothing else is wanted."""
        name = quote(f"{part.wanted.submodule}/{item.submodule}".lstrip("/"))
        refusal = Refusal(problem=f"{name} {problem}", reason=Reason.UNSUPPORTED_CONTENT)
        if not item.path:
            raise BundleError(refusal.reason, f"{self._access.path}: {refusal.problem}")
        part.unread.append(Entry(path=item.path, kind=EntryKind.SYMBOLIC_LINK, refusal=refusal))

    def _reach(self, wanted: _Wanted) -> _Part:
        try:
            repository = parse_repository(wanted.url)
        except ValueError as error:
            raise self._refuse(wanted, f"{_show(wanted.url)} {error}") from None
        # Loopback only if the spec names it, as for redirects.
        own = self._access.network.allow_loopback and self._source.is_loopback
        network = replace(self._access.network, allow_loopback=own)
        # A folder of its own: git sees no keys and files of other servers.
        scratch = self._access.scratch / f"submodule-{len(self._parts)}"
        scratch.mkdir(exist_ok=True)
        access = replace(self._access, path=self._path, network=network, scratch=scratch)
        parameters = self._parameters
        if repository.origin != self._source.origin:
            certificates = certificates_of(parameters, access)
            parameters = {**parameters, "certificateData": certificates, "insecureSkipTLSVerify": False}
            access = replace(access, credentials=None)
        try:
            return self._get(wanted, repository, parameters, access)
        except BundleError as error:
            raise self._explain(error, wanted, repository) from None

    def _get(self, wanted: _Wanted, repository: Repository, parameters: Mapping[str, Any], access: Access) -> _Part:
        """Fetch one commit."""

        def work(connection: Connection, reached: Access, place: Place) -> _Part:
            objects = Objects(repository, connection, reached, place, counted=self._access.scratch)
            items = objects.fetch_directory(wanted.commit, wanted.directory)
            return _Part(wanted=wanted, objects=objects, items=items, unread=[])

        return reach(repository, parameters, access, work)

    # messages

    @property
    def _path(self) -> str:
        return f"{self._access.path}.submodules"

    def _refuse(self, wanted: _Wanted, problem: str) -> BundleError:
        return Rejection(f"{quote(wanted.submodule)}: {problem}").at(self._path)

    def _explain(self, error: BundleError, wanted: _Wanted, repository: Repository) -> BundleError:
        """Return an error about a submodule as one of the source: no field of the spec is about it alone."""
        problem = error.message.partition(": ")[2]
        host, is_foreign = quote(repository.authority), repository.origin != self._source.origin
        if error.reason in (Reason.UNAUTHORIZED, Reason.NOT_FOUND):
            remedy = "check auth"
            if is_foreign:
                remedy = "make it public: credentials are sent to the host of the source only"
            problem = f"{host} denies access to it, or does not have it; correct its URL in .gitmodules, or {remedy}"
        if error.reason is Reason.UNAUTHORIZED and repository.scheme == SSH and is_foreign:
            problem = f"{host} requires a key, and that of auth is for the host of the source only; use https for it"
        if error.reason is Reason.PINNED_CONTENT_GONE:
            problem = f"{host} does not have commit {quote(wanted.commit)}; push it there, or update the submodule"
        return BundleError(error.reason, f"{self._path}: {quote(wanted.submodule)}: {problem}")


def _show(url: str) -> str:
    """Return a URL of .gitmodules for a message, unless it may contain a password."""
    return f"its URL {'' if '@' in url else quote(url) + ' '}in .gitmodules"
