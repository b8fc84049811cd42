"""Git repositories: a ref is found with ls-remote, one commit is fetched shallowly, nothing is ever checked out.

Git itself follows no redirects: it would connect to any address, and send an extra header there. Forges redirect from
/repo to /repo.git, or after a repository has moved; so the request is repeated by the transport, and git gets the final
address, checked and pinned like one of the spec. Redirects over plain http or unverified connections are not followed,
and credentials are sent to no other origin. Messages reveal nothing about other origins.

A commit is read with the repositories that it includes, each at the commit that it records. Whoever writes .gitmodules
chooses servers. So its URLs are those that a spec may name, and hosts and addresses are checked as those of a spec;
credentials are sent only to the scheme, host and port of the source. Git's names of submodules, which it uses as paths,
are ignored. The limits and the deadline of the source are for all together.

Not here: running git (process.py), addresses and credentials for it (connection.py), and objects (objects.py).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

from rukpak.api.errors import BundleError
from rukpak.api.plugins import Access, Entry, EntryKind, Limits, Refusal, Resolution, Signer
from rukpak.api.v1alpha2.conditions import Reason
from rukpak.controller.content.limits import Rejection, check_path, quote, too_many_entries
from rukpak.controller.sources.git.connection import (
    FULL_COMMIT,
    PEELED,
    SHORT_COMMIT,
    SSH,
    Connection,
    Repository,
    candidates,
    check_ref,
    connect,
    parse_repository,
)
from rukpak.controller.sources.git.objects import SUBMODULE, Item, Objects
from rukpak.controller.sources.git.process import NOT_FOLLOWED, RedirectedError
from rukpak.controller.sources.hosts import HTTPS, Detour, Place, find_problems, find_url_problems, place_of
from rukpak.controller.sources.pace import check_deadline
from rukpak.controller.sources.signatures import SignatureError, checking
from rukpak.controller.sources.signatures.git import ALGORITHMS, COMMIT, TAG, read_commit, read_keys, read_tag, verify
from rukpak.controller.sources.transport import Transport
from rukpak.controller.sources.trust import certificate_problems, certificates_of, credential_headers, read_tls
from rukpak.controller.sources.versions import Choice, Range, checked

Found = TypeVar("Found")

_QUERY = "/info/refs?service=git-upload-pack"
_DEFAULT_REF = "HEAD"
_TAGS = "refs/tags/"
_OF_TAG, _KEYS = "Tag", ".secret"
_NAMESPACES = ("refs/heads/", _TAGS)
MAX_COUNT = 100
"""Submodules of one source."""
MAX_DEPTH = 10
"""Submodules in submodules."""
_RELATIVE = ("./", "../")
_WAYS = "add its repository as another source, or use a directory without it"
_NOT_READ = f"is a submodule, which is not read; set submodules: true, {_WAYS}"
_SKIPPED = f"is a submodule that .gitmodules leaves out (update = none); {_WAYS}"


class GitSource:
    """The kind `git`.

    Parameters: repository, ref, semver, directory, verify, submodules, insecureSkipTLSVerify, certificateData.
    """

    def validate(self, parameters: Mapping[str, Any], path: str) -> list[str]:
        """Return what is wrong with the parameters, each with its field path below `path`."""
        ref, directory = _ref(parameters), _directory(parameters)
        problems = find_url_problems(parameters.get("repository", ""), f"{path}.repository", parse_repository)
        problems += find_problems(ref, f"{path}.ref", check_ref)
        if semver := parameters.get("semver"):
            if ref != _DEFAULT_REF:
                problems.append(f"{path}.ref: must not be set with semver; remove it")
            problems += find_problems(semver, f"{path}.semver", Range)
        if not _is_directory(directory):
            problems.append(f"{path}.directory: {quote(directory)} is not a relative path like foo/bar; correct it")
        return problems + certificate_problems(parameters, path)

    def identity(self, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return repository, ref and range of versions; `directory` and `submodules` do not change what they name."""
        identity = {"repository": parse_repository(parameters["repository"]).normal, "ref": _ref(parameters)}
        return identity | ({"semver": parameters["semver"]} if parameters.get("semver") else {})

    def origin(self, parameters: Mapping[str, Any]) -> str:
        """Return the repository."""
        return parse_repository(parameters["repository"]).normal

    def resolve(self, parameters: Mapping[str, Any], access: Access) -> Resolution:
        """Resolve the ref to its commit now; for a full commit, only check that this caller may read the repository.

        With `verify`, that object is fetched without any files, and its signature verified.

        Returns: pinned as `repository@commit`, digest as `sha1:commit` or `sha256:commit`.
        Raises: BundleError (NotFound, AmbiguousReference, Unauthorized, Unreachable, TLSVerificationFailed,
            HostKeyUnknown, HostKeyMismatch, InsecureRefused, InvalidReference, SecretInvalid, VerificationFailed,
            VerificationUnavailable, InvalidVerification).
        """
        repository = _parse(parameters, access)
        return reach(repository, parameters, access, lambda objects: _resolve(objects, parameters, access))

    def content_key(self, parameters: Mapping[str, Any], resolution: Resolution) -> str:
        """Return repository, directory and commit: access to one repository gives no access to commits of another.

        And whether submodules are read: their commits are part of the commit.
        """
        normal = parse_repository(parameters["repository"]).normal
        key = f"{normal}|{_directory(parameters)}|{resolution.digest}"
        return f"{key}|submodules" if parameters.get("submodules") else key

    def fetch(self, parameters: Mapping[str, Any], resolution: Resolution, access: Access) -> Iterator[Entry]:
        """Yield the files of the commit in path order, then those of each submodule, as git has them: unchecked.

        Raises: BundleError (PinnedContentGone, DirectoryNotFound, UnsupportedContent, ContentRejected,
            DigestMismatch, StorageFull, and those of `resolve`).
        """
        commit, repository = _commit(resolution, access), _parse(parameters, access)
        yield from Checkout(repository, parameters, access).read(commit, _directory(parameters))


def _ref(parameters: Mapping[str, Any]) -> str:
    return parameters.get("ref") or _DEFAULT_REF


def _directory(parameters: Mapping[str, Any]) -> str:
    given: str = parameters.get("directory") or ""
    directory = given.removeprefix("./").removesuffix("/")
    return directory if directory not in ("", ".") else given.removeprefix("./").removeprefix(".")


def _is_directory(directory: str) -> bool:
    try:
        return check_path(directory, Limits()) == directory
    except Rejection:
        return False


def _parse(parameters: Mapping[str, Any], access: Access) -> Repository:
    try:
        check_ref(_ref(parameters))
        return parse_repository(parameters["repository"])
    except ValueError:
        problem = GitSource().validate(parameters, access.path)[0]
        raise BundleError(Reason.INVALID_REFERENCE, problem) from None


def _commit(resolution: Resolution, access: Access) -> str:
    commit = resolution.digest.partition(":")[2]
    if not FULL_COMMIT.fullmatch(commit):  # another client has written the status
        problem = f"{quote(resolution.digest)} in status is not the digest of a commit; request a new resolution"
        raise BundleError(Reason.INVALID_REFERENCE, problem, place=f"{access.path}.ref")
    return commit


# resolving


@dataclass(frozen=True, slots=True, kw_only=True)
class _Target:
    """What a ref leads to."""

    commit: str
    tag: str = ""
    """The annotated tag that it is, without refs/tags/, and its object; '' for anything else."""
    tag_object: str = ""


def _resolve(objects: Objects, parameters: Mapping[str, Any], access: Access) -> Resolution:
    if access.pinned:
        # It is known in a poll only, for a second signature: the server was asked for the first one.
        known = _known_signer(access.pinned, access)
        return replace(access.pinned, signer=known or _check_pinned(objects, access.pinned, parameters, access))
    ref, repository = _ref(parameters), parameters["repository"]
    if semver := parameters.get("semver"):
        target = _find_tag(objects, semver, access)
        pinned = f"{repository}@{target.tag}@{target.commit}"
        resolution = Resolution(pinned=pinned, digest=_digest(target.commit), version=target.tag)
    else:
        target = _find_commit(objects, ref, access)
        shortened = next((ref.removeprefix(each) for each in _NAMESPACES if ref.startswith(each)), ref)
        named = "" if target.commit.startswith(ref.lower()) else shortened
        pinned = f"{repository}@{target.commit}"
        resolution = Resolution(pinned=pinned, digest=_digest(target.commit), reference=named)
    if not parameters.get("verify"):
        return resolution
    known = _known_signer(resolution, access)
    return replace(resolution, signer=known or _check_signature(objects, target, parameters, access))


def _known_signer(resolution: Resolution, access: Access) -> Signer | None:
    is_same = access.previous is not None and access.previous.version == resolution.version
    return access.known_signer(resolution.digest) if is_same else None


def _digest(commit: str) -> str:
    return f"{ALGORITHMS[len(commit)]}:{commit}"


def _check_pinned(objects: Objects, pinned: Resolution, parameters: Mapping[str, Any], access: Access) -> Signer:
    target = _Target(commit=_commit(pinned, access))
    if parameters["verify"].get("object") == _OF_TAG:
        ref = f"{_TAGS}{pinned.version}" if pinned.version else _ref(parameters)
        found = _find_commit(objects, ref, access)
        if found.commit != target.commit:
            problem = f"{quote(found.tag or ref)} leads to another commit now; request a new resolution"
            raise BundleError(Reason.VERIFICATION_FAILED, problem, place=f"{access.path}.verify")
        target = found
    return _check_signature(objects, target, parameters, access)


def _check_signature(objects: Objects, target: _Target, parameters: Mapping[str, Any], access: Access) -> Signer:
    with checking(f"{access.path}.verify", _KEYS):
        keys = read_keys(access.trusted.data.get(_KEYS, {}))
        if parameters["verify"].get("object") != _OF_TAG:
            signed = read_commit(target.commit, objects.fetch_object(COMMIT, target.commit))
        elif target.tag_object:
            data = objects.fetch_object(TAG, target.tag_object)
            signed = read_tag(target.tag_object, data, tag=target.tag, commit=target.commit)
        else:
            raise SignatureError("ref is not an annotated tag; make it one and sign it, or set object: Commit")
        return verify(signed, keys, access, now=time.time())


def _find_commit(objects: Objects, ref: str, access: Access) -> _Target:
    commit = ref.lower() if FULL_COMMIT.fullmatch(ref.lower()) else ""
    listed = candidates(_DEFAULT_REF if commit else ref)  # never all
    refs = objects.list_refs(*(name + suffix for name in listed for suffix in ("", PEELED)))
    is_short = any(len(name) > len(commit) for name in refs.values())  # 40 digits where names have 64
    if commit and not is_short:
        return _Target(commit=commit)
    for name in candidates(ref):
        if name + PEELED in refs:
            return _Target(commit=refs[name + PEELED], tag=name.removeprefix(_TAGS), tag_object=refs.get(name, ""))
        if name in refs:
            return _Target(commit=refs[name])
    return _Target(commit=_find_short(objects, ref, access))


def _find_tag(objects: Objects, semver: str, access: Access) -> _Target:
    choice, commit, tag_object = Choice(Range(semver)), "", ""
    with closing(objects.read_refs("--tags", "origin")) as refs:
        for name, found in checked(refs, partial(check_deadline, access)):
            tag = name.removeprefix(_TAGS)
            if name.startswith(_TAGS) and not tag.endswith(PEELED):
                choice.see(tag)
            if name.startswith(_TAGS) and tag.removesuffix(PEELED) == choice.highest:
                # What an annotated tag names comes after it.
                commit, tag_object = found, commit if tag.endswith(PEELED) else ""
    if choice.highest:
        return _Target(commit=commit, tag=choice.highest, tag_object=tag_object)
    problem = f"the repository has no tag in the range {quote(semver)}; {choice.describe_nearest()}"
    raise BundleError(Reason.NOT_FOUND, f"{problem}; correct it, or push a version", place=f"{access.path}.semver")


def _find_short(objects: Objects, ref: str, access: Access) -> str:
    # Servers list refs only, so all commits are fetched.
    if SHORT_COMMIT.fullmatch(ref.lower()):
        objects.fetch_commits()
        commits = objects.find_commits(ref.lower())
        if len(commits) > 1:
            problem = f"more than one commit starts with {quote(ref)}; use more digits"
            raise BundleError(Reason.AMBIGUOUS_REFERENCE, problem, place=f"{access.path}.ref")
        if commits:
            return commits[0]
    problem = f"no branch, tag or commit {quote(ref)}; check the spelling or push it"
    if ref == _DEFAULT_REF:
        problem = "the repository has no default branch; name a branch, tag or commit"
    raise BundleError(Reason.NOT_FOUND, problem, place=f"{access.path}.ref")


# submodules


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
    """Directory of the repository that is read."""
    prefix: str = ""
    """Prefix of its paths in the content."""
    submodule: str = ""
    """Its path from the root of the source's repository; '' for that itself."""
    depth: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """What was fetched of one commit."""

    wanted: _Wanted
    objects: Objects
    items: Sequence[Item]
    unread: list[Entry]
    """Submodules that must not be read."""


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
            files = [item for item in part.items if item.mode != SUBMODULE]
            where = f"{part.wanted.submodule}/{part.wanted.directory}".strip("/")
            with closing(part.objects.read(files, where)) as found:  # it ends git
                for entry in chain(found, part.unread):
                    yield replace(entry, path=f"{part.wanted.prefix}{entry.path}")

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
        is_around = not item.path  # the directory is in the submodule
        inner = _Wanted(
            url=module.url,
            commit=item.name,
            directory=wanted.directory.removeprefix(item.submodule).lstrip("/") if is_around else "",
            prefix=wanted.prefix if is_around else f"{wanted.prefix}{item.path}/",
            submodule=f"{wanted.submodule}/{item.submodule}".lstrip("/"),
            depth=wanted.depth + 1,
        )
        if not module.url:
            raise self._refuse(inner, ".gitmodules has no URL for it; add that, or remove the submodule")
        try:
            return replace(inner, url=resolve_url(module.url, wanted.url))
        except ValueError as error:
            raise self._refuse(inner, f"{_show(module.url)} {error}") from None

    def _leave_out(self, part: _Part, item: Item, problem: str) -> None:
        name = quote(f"{part.wanted.submodule}/{item.submodule}".lstrip("/"))
        refusal = Refusal(problem=f"{name} {problem}", reason=Reason.UNSUPPORTED_CONTENT)
        if not item.path:
            raise BundleError(refusal.reason, refusal.problem, place=self._access.path)
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
        def work(objects: Objects) -> _Part:
            items = objects.fetch_directory(wanted.commit, wanted.directory)
            return _Part(wanted=wanted, objects=objects, items=items, unread=[])

        return reach(repository, parameters, access, work, counted=self._access.scratch)

    # messages

    @property
    def _path(self) -> str:
        return f"{self._access.path}.submodules"

    def _refuse(self, wanted: _Wanted, problem: str) -> BundleError:
        return Rejection(f"{quote(wanted.submodule)}: {problem}").at(self._path)

    def _explain(self, error: BundleError, wanted: _Wanted, repository: Repository) -> BundleError:
        # No field of the spec is about the submodule alone.
        problem = error.problem
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
        return BundleError(error.reason, f"{quote(wanted.submodule)}: {problem}", place=self._path)


def _show(url: str) -> str:
    # The URL may contain a password.
    return f"its URL {'' if '@' in url else quote(url) + ' '}in .gitmodules"


# redirects


def reach(
    repository: Repository,
    parameters: Mapping[str, Any],
    access: Access,
    work: Callable[[Objects], Found],
    *,
    counted: Path | None = None,
) -> Found:
    """Do some work with a repository; if its server redirects, do it again with the target.

    Raises: BundleError; whatever `work` raises.
    """
    server = f"{repository.scheme}://{repository.authority}"
    place = place_of(f"{access.path}.repository", server, server, access.network)
    try:
        return work(Objects(connect(repository, parameters, access), access, place, counted))
    except RedirectedError:
        connection, place = _follow(repository, parameters, access)
        if place.is_elsewhere:
            _check_elsewhere(connection, access, place)
            received = access.receive
            access = replace(access, progress=lambda done, _: received(done))
        return work(Objects(connection, access, place, counted))


def _check_elsewhere(connection: Connection, access: Access, place: Place) -> None:
    detour = Detour(shown=place.unusable())
    hurried = replace(access, deadline=min(access.deadline, detour.until))
    try:
        if not Objects(connection, hurried, place).list_refs("HEAD"):
            raise detour.shown  # git takes any text for a list without refs
    except BundleError as error:
        raise detour.end(error, access) from None


def _follow(repository: Repository, parameters: Mapping[str, Any], access: Access) -> tuple[Connection, Place]:
    """Return how git reaches the target of a repository's redirect, and its place for messages.

    Another host is not asked here: git does, and the server that redirects learns nothing of that.

    Raises: BundleError (InsecureRefused, and those of the transport and of `connect`).
    """
    problem = f"{quote(repository.authority)} {NOT_FOLLOWED}"
    refused = BundleError(Reason.INSECURE_REFUSED, problem, place=f"{access.path}.repository")
    if repository.scheme != HTTPS or parameters.get("insecureSkipTLSVerify"):
        raise refused
    # Loopback only if the spec names it; an allowed host may redirect to any host.
    own = access.network.allow_loopback and repository.is_loopback
    guarded = replace(access, network=replace(access.network, allow_loopback=own, allowed_hosts=()))
    headers = credential_headers(parameters, access, repository, repository.user)
    is_private = bool(headers or (access.credentials and access.credentials.client_key))
    named, tls = replace(guarded, path=f"{access.path}.repository"), read_tls(parameters, access, repository)
    with Transport(named, tls=tls, loopback=repository.is_loopback) as transport:
        response = transport.send("GET", repository.url.rstrip("/") + _QUERY, headers, leaves=False)
        url = (response.follow() if response.is_redirect else "") or response.url
    place = place_of(f"{access.path}.repository", repository.url, url, access.network)
    try:
        target = parse_repository(url.removesuffix(_QUERY))
    except ValueError:
        raise refused from None
    if not url.endswith(_QUERY) or target.normal == repository.normal or (is_private and place.is_elsewhere):
        raise refused
    try:
        return connect(target, parameters, guarded), place
    except BundleError as error:
        raise (Detour(shown=place.unusable()).end(error, access) if place.is_elsewhere else error) from None
