"""The user that a request acts as. Fails closed: the API server accepts an empty `Impersonate-User` as no user."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from urllib.parse import quote


@dataclass(frozen=True, slots=True)
class User:
    """A user to act as. A ServiceAccount needs no groups: the API server adds them.

    Raises: ValueError for a name or group that is empty, or not allowed in a header.
    """

    name: str
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        for text in (self.name, *self.groups, *(value for values in self.extra.values() for value in values)):
            if not text.strip() or not text.isascii() or not text.isprintable():
                raise ValueError(f"impersonation: {text!r} cannot be a user, group or extra value")

    @classmethod
    def service_account(cls, namespace: str, name: str) -> User:
        """Return the user of a ServiceAccount.

        Raises: ValueError if either is empty, or contains a colon.
        """
        if not namespace or not name or ":" in namespace + name:
            raise ValueError(f'impersonation: "{namespace}/{name}" cannot be a ServiceAccount')
        return cls(f"system:serviceaccount:{namespace}:{name}")

    def headers(self) -> Iterator[tuple[str, str]]:
        """Yield the headers; one for each group, since `a,b` would be a single group."""
        yield "Impersonate-User", self.name
        yield from (("Impersonate-Group", group) for group in self.groups)
        for key, values in self.extra.items():
            yield from ((f"Impersonate-Extra-{quote(key, safe='')}", value) for value in values)
