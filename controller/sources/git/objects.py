"""One commit of a repository, as objects in a bare folder: fetched, listed and read, never checked out.

Without a work tree, no hook, filter, line end, link or name can do harm. First the commit alone is fetched, and of a
`directory` only the files below it; from a server that does not serve commits or files by name, more: the commit with
everything, then all branches and tags. The limits are the same.

Links that lead out of the wanted directory lead to other files of the same commit. Links that stay inside remain links,
for content/archive.py to follow; so do all if the whole commit is wanted. content/archive.py checks names, sizes and
links. Git LFS pointers only stand for content: they must not be read.

Not here: reaching the server, and which submodules are fetched (source.py).
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from mmap import mmap
from pathlib import Path

from rukpak.api.errors import BundleError
from rukpak.api.plugins import MEBIBYTE, Access, Entry, EntryKind, Limits, Refusal
from rukpak.api.v1alpha2.conditions import Reason
from rukpak.controller.content.archive import Node, copies, resolve
from rukpak.controller.content.limits import (
    Budget,
    Rejection,
    Unusable,
    check_target,
    describe_bytes,
    leaving,
    quote,
    too_many_entries,
)
from rukpak.controller.sources.git.connection import AUTHORITY, FULL_COMMIT, PEELED, Connection
from rukpak.controller.sources.git.process import (
    OUTPUT_BYTES,
    Child,
    GitFailed,
    GitRunner,
    NotServedError,
    check_served,
    translate,
)
from rukpak.controller.sources.hosts import Place

FOLDER, LINK, SUBMODULE = "040000", "120000", "160000"
_EXECUTABLE = "100755"
FILES = ("100644", _EXECUTABLE, "100664")  # the last one was written by the oldest versions of git
_CHUNK = 64 * 1024
# https://github.com/git-lfs/git-lfs/blob/main/docs/spec.md: shorter than 1024 bytes, in this order.
_LFS_BYTES = 1024
_LFS = re.compile(
    rb"version https://(?:git-lfs\.github\.com|hawser\.github\.com)/spec/v1\n(?:[a-z0-9.-]+ .*\n)*oid sha256:"
)
_TREE = "repository"
_COMMITS_ONLY, _WITHOUT_FILES = "--filter=tree:0", "--filter=blob:none"
"""Options of `git fetch`."""
_FETCH = ("fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-auto-maintenance")
_SHA256_DIGITS = 64
_NAME = re.compile(r"[^\x00-\x20\x7f~^:?*\[\\]+(?:\^\{\})?")
_MOST_TIPS = 100_000
_MOST_ALIKE = 10_000
"""Names of objects that are read if they start alike; a repository may be made so that millions do."""
_LONGEST_REF = 2048
"""Bytes of a line of `git ls-remote`; the names in a spec are shorter."""
_LISTING_FACTOR = 12
"""How much memory the files of a commit take at most for each byte of their list."""
_MODULES = ".gitmodules"
_MODULES_BYTES = MEBIBYTE
_SETTINGS_BYTES = 4 * MEBIBYTE


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """A path in a tree."""

    path: str
    mode: str
    name: str
    refusal: Refusal | None = None
    """Why it must not be read."""
    submodule: str = ""
    """Path of a submodule in the commit."""


class Objects:
    """The fetched objects of one repository, in a folder of the scratch folder.

    Messages name the host of `place`, even if `connection` goes to the target of a redirect, of which they reveal
    nothing. `counted` is the folder whose size is limited, by default the scratch folder.
    """

    def __init__(self, connection: Connection, access: Access, place: Place, counted: Path | None = None) -> None:
        self._access, self._place = access, place
        self._has_authority = AUTHORITY in connection.config
        folder = self._folder = access.scratch.resolve() / "repository"
        # Without network: git would fetch missing objects one by one.
        self._local = GitRunner(access, folder, counted=counted)
        self._remote = GitRunner(access, folder, connection, counted=counted)

    # fetching

    def list_refs(self, *names: str) -> dict[str, str]:
        """Return those of some refs that the server has, by full name, with their object names.

        Raises: BundleError.
        """
        return {name: commit for name, commit in self.read_refs("origin", *names) if name in names}

    def read_refs(self, *arguments: str) -> Generator[tuple[str, str]]:
        """Yield refs of the server one by one, by full name, with their object names; the server may add others.

        Names that no ref may have are left out (git-check-ref-format), and so are very long ones. None is kept.

        Args:
            arguments: of `git ls-remote`.

        Raises: BundleError.
        """
        self._folder.mkdir(exist_ok=True)
        with self._failures_told(), self._remote.start("ls-remote", "--quiet", *arguments) as child:
            yield from _parse_refs(child)

    def fetch_commits(self, *, with_files: bool = False) -> None:
        """Fetch the commits of all branches and tags, with their files at least if the server cannot leave them out.

        Raises: BundleError.
        """
        # By object names: each ref would become a file.
        tips = set[str]()
        with closing(self.read_refs("--heads", "--tags", "origin")) as refs:
            for name, commit in refs:
                if not name.endswith(PEELED):
                    tips.add(commit)
                if len(tips) > _MOST_TIPS:
                    problem = f"more than {_MOST_TIPS} branches and tags; name a branch, a tag, or a commit in full"
                    place = f"{self._access.path}.repository"
                    raise BundleError(Reason.CONTENT_REJECTED, f"it has {problem}", place=place)
        self._begin(len(next(iter(tips))) if tips else 0)
        if tips:
            options = [] if with_files else [_COMMITS_ONLY]
            self._run(self._remote, *_FETCH, *options, "--stdin", "origin", lines=sorted(tips))

    def fetch_object(self, kind: str, name: str) -> bytes:
        """Fetch a commit or annotated tag, without its files if the server supports that, and return its content.

        Raises: BundleError (PinnedContentGone, and those of the connection).
        """
        self._begin(len(name))
        try:
            self._want("--depth=1", _COMMITS_ONLY, "origin", name)
        except NotServedError as error:
            if error.is_absent:
                raise self._gone(name) from None
            self.fetch_commits()
        if self._find_names(name) != [name]:
            raise self._gone(name)
        return self._run(self._local, "cat-file", kind, name)

    def find_commits(self, prefix: str) -> list[str]:
        """Return the fetched commits whose names start with a prefix.

        Raises: BundleError.
        """
        names = self._find_names(prefix)
        if not names:
            return []
        described = self._run(self._local, "cat-file", "--batch-check=%(objecttype) %(objectname)", lines=names)
        return [line.split()[1] for line in described.decode().splitlines() if line.startswith("commit ")]

    def _find_names(self, prefix: str) -> list[str]:
        with self._spool("rev-parse", f"--disambiguate={prefix}") as output:
            names = output[: (_MOST_ALIKE + 1) * (_SHA256_DIGITS + 1)].decode().split()
        if len(names) > _MOST_ALIKE:
            problem = f"more than {_MOST_ALIKE} objects start with {quote(prefix)}; use more digits"
            raise BundleError(Reason.AMBIGUOUS_REFERENCE, problem, place=f"{self._access.path}.ref")
        return names

    def fetch_directory(self, commit: str, directory: str) -> list[Item]:
        """Fetch the files of one commit below a directory, and return them in path order, with submodules among them.

        A submodule at the directory or above is the only item, with an empty path.

        Raises: BundleError (PinnedContentGone, DirectoryNotFound, UnsupportedContent, ContentRejected, and those of
            the connection).
        """
        for options in ([_WITHOUT_FILES], []) if directory else ([],):
            try:
                self._begin(len(commit))
                self._want("--depth=1", *options, "origin", commit)
                return self._take(commit, directory, self._want_files if options else lambda _items: None)
            except NotServedError as error:
                if error.is_absent:
                    raise self._gone(commit) from None
        self.fetch_commits(with_files=True)
        if self.find_commits(commit) != [commit]:
            raise self._gone(commit)
        return self._take(commit, directory, lambda _items: None)

    def _gone(self, commit: str) -> BundleError:
        # After a force push, servers collect the old ones.
        problem = f"{quote(self._place.host)} does not have commit {quote(commit)}"
        remedy = "push it again, correct ref, or request a new resolution"
        return BundleError(Reason.PINNED_CONTENT_GONE, f"{problem}; {remedy}", place=f"{self._access.path}.ref")

    def _want_files(self, items: Iterable[Item]) -> None:
        if names := sorted({item.name for item in items if not item.refusal and item.mode != SUBMODULE}):
            self._want(_WITHOUT_FILES, "--stdin", "origin", lines=names)

    def _begin(self, digits: int) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir()
        algorithm = "sha256" if digits == _SHA256_DIGITS else "sha1"
        self._run(self._local, "init", "--quiet", "--bare", "--template=", f"--object-format={algorithm}")

    def _want(self, *arguments: str, lines: Sequence[str] = ()) -> None:
        with self._failures_told(check_served):
            self._remote.run(*_FETCH, *arguments, lines=lines)

    def _run(self, runner: GitRunner, *arguments: str, lines: Sequence[str] = ()) -> bytes:
        with self._failures_told():
            return runner.run(*arguments, lines=lines)

    @contextmanager
    def _failures_told(self, check: Callable[[str], None] = lambda _complaint: None) -> Iterator[None]:
        try:
            yield
        except GitFailed as failed:
            check(failed.complaint)
            error = translate(failed.complaint, self._place, has_authority=self._has_authority)
            raise self._place.show(error) from None

    # listing

    def _take(self, commit: str, directory: str, fetch: Callable[[Iterable[Item]], None]) -> list[Item]:
        tree = self._find_tree(commit, directory) if directory else Item(path="", mode=FOLDER, name=commit)
        if tree and tree.mode == SUBMODULE:
            return [replace(tree, path="", submodule=tree.path)]
        items = self._list_files(tree.name, directory) if tree else []
        self._check(items)
        fetch(items)
        links = self._read_links(items) if directory else {}
        return items if tree and not may_leave(links.values()) else self._take_linked(commit, directory, items, fetch)

    def _take_linked(
        self, commit: str, directory: str, known: Sequence[Item], fetch: Callable[[Iterable[Item]], None]
    ) -> list[Item]:
        # Links may lead anywhere in the commit.
        with self._listing("-r", commit) as listing:
            with self._reading(listing):
                links = [item for item in read_listing(listing) if item.mode == LINK]
            self._check(links)
            fetched = {item.name for item in known}
            fetch([item for item in links if item.name not in fetched])
            targets = self._read_links(links)
            with self._reading(listing):
                try:
                    items = take_directory(read_listing(listing), targets, directory, self._access.limits)
                except Rejection as rejection:
                    raise rejection.at(self._access.path) from None
        if items is None:
            raise self._no_directory(commit, directory, "is not a directory")
        self._check(items)
        fetched.update(item.name for item in links)
        fetch([item for item in items if item.name not in fetched])
        return items

    def _list_files(self, tree: str, directory: str) -> list[Item]:
        with self._listing("-r", tree) as listing, self._reading(listing):
            most = self._access.limits.entries + 1
            return [
                replace(item, submodule=f"{directory}/{item.path}".lstrip("/")) if item.mode == SUBMODULE else item
                for item in islice(read_listing(listing), most)
            ]

    def _listing(self, *arguments: str) -> AbstractContextManager[bytes | mmap]:
        # Never `ls-tree -l`, which needs every file for its size.
        return self._spool("ls-tree", "-z", "--full-tree", *arguments)

    @contextmanager
    def _spool(self, *arguments: str) -> Iterator[bytes | mmap]:
        with self._failures_told(), self._local.spool(*arguments) as output:
            yield output

    @contextmanager
    def _reading(self, listing: bytes | mmap) -> Iterator[None]:
        with self._access.room(len(listing) * _LISTING_FACTOR), self._access.computing():
            yield

    def _check(self, items: Sequence[Item]) -> None:
        if len(items) > self._access.limits.entries:
            raise too_many_entries(self._access.limits).at(self._access.path)
        for item in items:
            if item.mode not in (*FILES, LINK, SUBMODULE):
                raise Rejection(f"entry {quote(item.path)} has an unknown mode; repair the repository").at(
                    self._access.path
                )

    def _read_links(self, items: Sequence[Item]) -> dict[str, str]:
        links = [item for item in items if item.mode == LINK]
        return {entry.path: entry.target for entry in self.read(links, "")}

    def _find_tree(self, commit: str, directory: str) -> Item | None:
        found = self._look_up(commit, directory)
        if found and found[0].mode in (FOLDER, SUBMODULE):
            return found[0]
        names = directory.split("/")
        way = ["/".join(names[:count]) for count in range(1, len(names) + 1)]
        above = [item for item in self._look_up(commit, *way) if item.path in way]
        for item in above:
            if item.mode == SUBMODULE:
                return item
        if not any(item.mode == LINK for item in above):
            raise self._no_directory(commit, directory, "is not a directory" if found else "does not exist")
        return None

    def _look_up(self, commit: str, *paths: str) -> list[Item]:
        # Git also lists what is beside paths that are above another.
        with_above = ["-t"] if len(paths) > 1 else []
        with self._listing(*with_above, commit, "--", *paths) as listing, self._reading(listing):
            return [item for item in read_listing(listing) if item.path in paths]

    def _no_directory(self, commit: str, directory: str, problem: str) -> BundleError:
        problem = f"{quote(directory)} {problem} in commit {quote(commit)}; correct it"
        return BundleError(Reason.DIRECTORY_NOT_FOUND, problem, place=f"{self._access.path}.directory")

    # reading

    def read(self, items: Sequence[Item], directory: str) -> Generator[Entry]:
        """Yield entries in the order of `items`, streamed by one git.

        Args:
            items: of `fetch_directory`.
            directory: of the items, for messages.

        Yields: Git LFS pointers with a `refusal`.
        Raises: BundleError (DigestMismatch for a missing object).
        """
        missing = self._missing()
        try:
            yield from read_items(self._local, items, directory, self._access, missing)
        except GitFailed:
            raise missing from None

    def _missing(self) -> BundleError:
        host = quote(self._place.host)
        problem = f"{host} did not send all objects of the commit; repair the repository"
        return BundleError(Reason.DIGEST_MISMATCH, problem, place=self._access.path)

    def read_modules(self, commit: str) -> bytes:
        """Return the settings in .gitmodules of a commit as `git config --list -z` does; nothing if it has none.

        Raises: BundleError (ContentRejected if they cannot be read; DigestMismatch, and those of the connection).
        """
        found = self._look_up(commit, _MODULES)
        if not found:
            return b""
        name = found[0].name
        problem = f"{_MODULES} exceeds the limit of {describe_bytes(_MODULES_BYTES)}; remove submodules"
        if self._size(name) > _MODULES_BYTES:
            raise Rejection(problem).at(self._access.path)
        try:
            with self._local.spool("config", "--no-includes", "--blob", name, "--list", "-z") as settings:
                if len(settings) > _SETTINGS_BYTES:  # each line repeats the name of its section
                    raise Rejection(problem).at(self._access.path)
                return settings[:]
        except GitFailed:
            problem = f'{_MODULES} has an error; correct it, "git config -f {_MODULES} --list" names its line'
            raise Rejection(problem).at(self._access.path) from None

    def _size(self, name: str) -> int:
        try:
            return int(self._local.run("cat-file", "-s", name))
        except GitFailed:
            try:
                self._want(_WITHOUT_FILES, "origin", name)
            except NotServedError:
                raise self._missing() from None
        return int(self._run(self._local, "cat-file", "-s", name))


def _parse_refs(child: Child) -> Generator[tuple[str, str]]:
    # Longer lines come in pieces, which are no refs.
    size = 0
    while line := child.read_line():
        size += len(line)
        if size > OUTPUT_BYTES:
            raise child.too_much()
        if len(line) > _LONGEST_REF:
            continue
        commit, _, name = line.rstrip(b"\n").decode(errors="surrogateescape").partition("\t")
        if FULL_COMMIT.fullmatch(commit) and _NAME.fullmatch(name):
            yield name, commit


# the files


def read_listing(listing: bytes | mmap) -> Iterator[Item]:
    """Parse the output of `ls-tree -z`; names that are not UTF-8 keep their bytes, which the writer refuses."""
    start = 0
    while start < len(listing):
        end = listing.find(b"\0", start)
        end = len(listing) if end < 0 else end
        if end > start:
            about, _, path = listing[start:end].partition(b"\t")
            mode, _, name = about.decode().split()
            yield Item(path=path.decode(errors="surrogateescape"), mode=mode, name=name)
        start = end + 1


def read_items(
    runner: GitRunner, items: Sequence[Item], directory: str, access: Access, missing: BundleError
) -> Iterator[Entry]:
    """Yield an entry for each item, in their order.

    Args:
        runner: of the folder with the objects.
        items: files and links.
        directory: of the items, for messages.
        access: of the call.
        missing: raised for a missing object, also by the body of an entry.

    Yields: Git LFS pointers with a `refusal`.
    Raises: GitFailed; BundleError (`missing`, Unreachable at the deadline).
    """
    if not items:
        return
    names = [item.name for item in items if not item.refusal]
    with runner.start("cat-file", "--batch", "--buffer", lines=names) as child:
        for item in items:
            if item.refusal:
                yield Entry(path=item.path, kind=EntryKind.SYMBOLIC_LINK, refusal=item.refusal)
                continue
            body = _Body(child, item, missing)
            if item.mode == LINK:
                # One byte over the limit is enough for the writer to refuse it.
                target = os.fsdecode(body.read(access.limits.path_bytes + 1))
                yield Entry(path=item.path, kind=EntryKind.SYMBOLIC_LINK, target=target)
            else:
                yield _make_file(item, body, directory)
            body.finish()


def _make_file(item: Item, body: _Body, directory: str) -> Entry:
    head, refusal = body.read(_LFS_BYTES) if body.size < _LFS_BYTES else b"", None
    body.put_back(head)
    if _LFS.match(head):
        problem = f"{quote(f'{directory}/{item.path}'.lstrip('/'))} is a Git LFS pointer, which is not supported"
        remedy = "store the file itself in the repository, or use a directory without it"
        refusal = Refusal(problem=f"{problem}; {remedy}", reason=Reason.UNSUPPORTED_CONTENT)
    return Entry(path=item.path, size=body.size, data=body, executable=item.mode == _EXECUTABLE, refusal=refusal)


class _Body:
    """One object in the output of `cat-file --batch`: a header line, the bytes, a line end.

    Attributes:
        size: bytes.
    """

    def __init__(self, child: Child, item: Item, missing: BundleError) -> None:
        self._child, self._missing = child, missing
        self._head = b""
        name, kind, size = (child.read_line().split() + [b""] * 3)[:3]
        if name != item.name.encode() or kind != b"blob" or not size.isdigit():
            raise child.stopped or missing
        self.size = self._left = int(size)

    def put_back(self, head: bytes) -> None:
        """Return bytes that were read, to be read again."""
        self._head = head

    def read(self, size: int, /) -> bytes:
        """Return at most `size` bytes; nothing at the end. Valid until the next entry is requested.

        Raises: BundleError if the output ends before the object does.
        """
        if self._head:
            found, self._head = self._head[:size], self._head[size:]
            return found
        found = self._take(min(size, self._left))
        self._left -= len(found)
        return found

    def finish(self) -> None:
        """Skip the rest, and the line end after it."""
        self._head = b""
        while self.read(_CHUNK):
            pass
        self._take(1)

    def _take(self, size: int) -> bytes:
        found = self._child.read(size)
        if len(found) < size:
            raise self._child.stopped or self._missing
        return found


def may_leave(targets: Iterable[str]) -> bool:
    """Return whether one of some links may lead out of their directory, by their targets."""
    return any(".." in target.split("/") for target in targets)


def take_directory(
    items: Iterable[Item], targets: Mapping[str, str], directory: str, limits: Limits
) -> list[Item] | None:
    """Return the files of a directory of a commit in path order, with links replaced by what they lead to.

    Args:
        items: all of the commit, with paths in it.
        targets: of the links among them, by path.
        directory: may be a link, or below one.
        limits: of paths, and of the number of files and folders in the result.

    Returns: paths in the directory, what must not be read with a refusal; None if there is no such directory.
        Submodules in the directory are among them; a link to one must not be read.
    Raises: Rejection over the limits, and if the directory is outside the repository.
    """
    root = Node()
    found = {_add(root, item, targets, limits): item for item in items}
    way = Node(name=directory, kind=EntryKind.SYMBOLIC_LINK, target=directory, origin=root)
    folder = resolve(way, tree=_TREE)
    if folder is not None and folder.refusal:
        raise Unusable.of(folder.refusal)
    if folder is None or folder.kind is not EntryKind.DIRECTORY:
        return None
    budget, result = Budget(limits), []
    for link in (node for node in found if node.kind is EntryKind.SYMBOLIC_LINK):
        resolve(link, tree=_TREE)
    for path, node in copies(folder, "", limits):
        budget.charge_node()
        if node.kind is not EntryKind.DIRECTORY:
            result.append(_at(path, node, found.get(node), f"{folder.path}/{path}".lstrip("/")))
    return sorted(result, key=lambda item: item.path)


def _at(path: str, node: Node, item: Item | None, own: str) -> Item:
    if item and item.mode == SUBMODULE and node.path == own:
        return replace(item, path=path, submodule=own)
    if item is None or node.refusal:
        return Item(path=path, mode=LINK, name="", refusal=node.refusal)
    return replace(item, path=path)


def _add(root: Node, item: Item, targets: Mapping[str, str], limits: Limits) -> Node:
    *folders, name = item.path.split("/")
    parent = root
    for folder in folders:
        parent = _attach(parent, Node(name=folder, kind=EntryKind.DIRECTORY))
    if item.mode not in (LINK, SUBMODULE):
        return _attach(parent, Node(name=name, kind=EntryKind.FILE))
    link = Node(name=name, kind=EntryKind.SYMBOLIC_LINK, target=targets.get(item.path, ""), origin=parent)
    link.refusal = _judge(item, link.target, limits)
    return _attach(parent, link)


def _judge(item: Item, target: str, limits: Limits) -> Refusal | None:
    try:
        check_target(item.path, len(target.encode(errors="surrogateescape")), limits)
    except Unusable as unusable:
        return unusable.refusal
    if target.startswith("/"):
        return leaving(item.path, target, _TREE).refusal
    if item.mode != SUBMODULE:
        return None
    problem = f"{quote(item.path)} is a submodule, to which links of a directory do not lead"
    remedy = "use the whole repository, add that of the submodule as another source, or remove the link"
    return Refusal(problem=f"{problem}; {remedy}", reason=Reason.UNSUPPORTED_CONTENT)


def _attach(parent: Node, node: Node) -> Node:
    node.parent = parent
    return parent.children.setdefault(node.name, node)
