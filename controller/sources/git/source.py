"""Git repositories: a ref is found with ls-remote, one commit is fetched shallowly, nothing is ever checked out.

Not here: running git (process.py), reaching a repository (connection.py), following redirects (redirect.py), objects
(objects.py), and submodules (submodules.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from functools import partial
from typing import Any, TypeVar

from api.errors import BundleError
from api.plugins import Access, Entry, Limits, Resolution
from api.v1alpha2.conditions import Reason
from controller.content.limits import Rejection, check_path, quote
from controller.sources.git.connection import (
    FULL_COMMIT,
    PEELED,
    SHORT_COMMIT,
    Repository,
    candidates,
    check_ref,
    parse_repository,
)
from controller.sources.git.objects import Objects
from controller.sources.git.redirect import reach
from controller.sources.git.submodules import Checkout
from controller.sources.pace import check_deadline
from controller.sources.trust import certificate_problems
from controller.sources.versions.ranges import Range
from controller.sources.versions.selection import Choice, checked

Found = TypeVar("Found")

_DEFAULT_REF = "HEAD"
_TAGS = "refs/tags/"
_NAMESPACES = ("refs/heads/", _TAGS)
_ALGORITHMS = {40: "sha1", 64: "sha256"}


class GitSource:
    """The kind `git`.

    Parameters: repository, ref, semver, directory, submodules, insecureSkipTLSVerify, certificateData.
    """

    def validate(self, parameters: Mapping[str, Any], path: str) -> list[str]:
        """Return what is wrong with the parameters, each with its field path below `path`."""
        problems = []
        repository, ref, directory = parameters.get("repository", ""), _ref(parameters), _directory(parameters)
        try:
            parse_repository(repository)
        except ValueError as error:
            # Not quoted if it may contain a password.
            problems.append(f"{path}.repository: {'the URL' if '@' in repository else quote(repository)} {error}")
        try:
            check_ref(ref)
        except ValueError as error:
            problems.append(f"{path}.ref: {quote(ref)} {error}")
        if semver := parameters.get("semver"):
            if ref != _DEFAULT_REF:
                problems.append(f"{path}.ref: must not be set with semver; remove it")
            try:
                Range(semver)
            except ValueError as error:
                problems.append(f"{path}.semver: {quote(semver)} {error}")
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

        Returns: pinned as `repository@commit`, digest as `sha1:commit` or `sha256:commit`.
        Raises: BundleError (NotFound, AmbiguousReference, Unauthorized, Unreachable, TLSVerificationFailed,
            HostKeyUnknown, HostKeyMismatch, InsecureRefused, InvalidReference, SecretInvalid).
        """
        ref = _ref(parameters)
        if semver := parameters.get("semver"):
            tag, commit = _ask(parameters, access, lambda objects: _find_tag(objects, semver, access))
            pinned = f"{parameters['repository']}@{tag}@{commit}"
            return Resolution(pinned=pinned, digest=f"{_ALGORITHMS[len(commit)]}:{commit}", version=tag)
        commit = _ask(parameters, access, lambda objects: _find_commit(objects, ref, access))
        digest = f"{_ALGORITHMS[len(commit)]}:{commit}"
        named = "" if commit.startswith(ref.lower()) else _shorten(ref)
        return Resolution(pinned=f"{parameters['repository']}@{commit}", digest=digest, reference=named)

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


def _shorten(ref: str) -> str:
    """Return a branch or tag without the namespace of its refs."""
    return next((ref.removeprefix(each) for each in _NAMESPACES if ref.startswith(each)), ref)


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
        raise BundleError(Reason.INVALID_REFERENCE, f"{access.path}.ref: {problem}")
    return commit


def _ask(parameters: Mapping[str, Any], access: Access, work: Callable[[Objects], Found]) -> Found:
    repository = _parse(parameters, access)
    return reach(repository, parameters, access, lambda *reached: work(Objects(repository, *reached)))


def _find_commit(objects: Objects, ref: str, access: Access) -> str:
    commit = ref.lower() if FULL_COMMIT.fullmatch(ref.lower()) else ""
    refs = objects.list_refs(*_names(_DEFAULT_REF if commit else ref))
    is_short = any(len(name) > len(commit) for name in refs.values())  # 40 digits where names have 64
    found = commit if commit and not is_short else _choose(refs, ref)
    return found or _find_short(objects, ref, access)


def _find_tag(objects: Objects, semver: str, access: Access) -> tuple[str, str]:
    """Return the tag with the highest version in a range, and its commit, annotated tags peeled."""
    choice, commit = Choice(Range(semver)), ""
    with closing(objects.read_refs("--tags", "origin")) as refs:
        for name, found in checked(refs, partial(check_deadline, access)):
            tag = name.removeprefix(_TAGS)
            if name.startswith(_TAGS) and not tag.endswith(PEELED):
                choice.see(tag)
            if name.startswith(_TAGS) and tag.removesuffix(PEELED) == choice.highest:
                commit = found  # what an annotated tag names comes after it
    if choice.highest:
        return choice.highest, commit
    problem = f"the repository has no tag in the range {quote(semver)}; {choice.describe_nearest()}"
    raise BundleError(Reason.NOT_FOUND, f"{access.path}.semver: {problem}; correct it, or push a version")


def _names(ref: str) -> list[str]:
    """Return the refs to list, never all."""
    return [name + suffix for name in candidates(ref) for suffix in ("", PEELED)]


def _choose(refs: Mapping[str, str], ref: str) -> str:
    """Return the commit of the first candidate that exists, an annotated tag peeled; '' for none."""
    wanted = (name + suffix for name in candidates(ref) for suffix in (PEELED, ""))
    return next((refs[name] for name in wanted if name in refs), "")


def _find_short(objects: Objects, ref: str, access: Access) -> str:
    """Return the commit with an abbreviated name: servers list refs only, so all commits are fetched."""
    if SHORT_COMMIT.fullmatch(ref.lower()):
        objects.fetch_commits()
        commits = objects.find_commits(ref.lower())
        if len(commits) > 1:
            message = f"{access.path}.ref: more than one commit starts with {quote(ref)}; use more digits"
            raise BundleError(Reason.AMBIGUOUS_REFERENCE, message)
        if commits:
            return commits[0]
    message = f"{access.path}.ref: no branch, tag or commit {quote(ref)}; check the spelling or push it"
    if ref == _DEFAULT_REF:
        message = f"{access.path}.ref: the repository has no default branch; name a branch, tag or commit"
    raise BundleError(Reason.NOT_FOUND, message)
