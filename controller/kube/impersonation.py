"""Whom a request acts as. Fails closed: an empty `Impersonate-User` means *nobody* to the API server, not an error."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from urllib.parse import quote


@dataclass(frozen=True, slots=True)
class User:
    """A user to act as. A service account needs no groups: the server adds them.

    Raises: ValueError for a name or group that is empty, or that no header can hold.
    """

    name: str
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        for text in (self.name, *self.groups, *(value for values in self.extra.values() for value in values)):
            if not text.strip() or not text.isascii() or not text.isprintable():
                raise ValueError(f"impersonation: {text!r} cannot be a user, group or extra")

    @classmethod
    def service_account(cls, namespace: str, name: str) -> User:
        """Return the user that a ServiceAccount is.

        Raises: ValueError if either is empty, or holds a colon.
        """
        if not namespace or not name or ":" in namespace + name:
            raise ValueError(f'impersonation: no service account "{name}" in namespace "{namespace}"')
        return cls(f"system:serviceaccount:{namespace}:{name}")

    def headers(self) -> Iterator[tuple[str, str]]:
        """Yield the headers; groups are repeated ones, since `a,b` would be one group."""
        yield "Impersonate-User", self.name
        yield from (("Impersonate-Group", group) for group in self.groups)
        for key, values in self.extra.items():
            yield from ((f"Impersonate-Extra-{quote(key, safe='')}", value) for value in values)
