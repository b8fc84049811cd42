"""What the replies of the API server to our requests mean: reasons, messages, and remedies.

The order of README.md, Replies: texts of policies before codes, since a webhook may deny with any code. A reply may
quote what was sent, including whole pod specs and Secrets: only fields and the text after a value get into a message.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from enum import Enum
from http import HTTPStatus
from typing import TypeAlias

from rukpak.api import names
from rukpak.api.errors import BundleError
from rukpak.api.v1alpha2.conditions import Reason
from rukpak.controller.apply.order import is_custom
from rukpak.controller.apply.ownership import DATA_KINDS
from rukpak.controller.apply.rights import (
    BINDINGS,
    MissingRightsError,
    RbacRight,
    describe_rights,
    parse_denial,
    parse_escalation,
)
from rukpak.controller.content.limits import shorten, some
from rukpak.controller.formats.objects import ObjectKey
from rukpak.controller.kube.errors import STATUS_CHARACTERS, ApiError, Cause, find_denial

MATCHED_CHARACTERS = 8 << 10
"""Characters of a message that are searched: some patterns take time in proportion to its square."""
DATABASE_FULL_SECONDS = 60.0
"""A full etcd is read-only until a person makes room: retrying sooner is useless."""
_NOT_TYPED = re.compile(r"failed to create typed patch object \(.*?Kind=\w+\): (.*)", re.DOTALL)
_NOT_CONVERTED = re.compile(r"failed to convert new object \(.*?Kind=\w+\) to proper version: (.*)", re.DOTALL)
_OLD_ENTRY = re.compile(r"request to convert CR (?:to|from) an invalid group/version")
_UNDECLARED = ": field not declared in schema"
_WEBHOOK_CALL = re.compile(r'failed calling webhook "([^"]*)"')
_CONVERSION = re.compile(r"conversion webhook for ([^,]*), Kind=(\S+)")
# The part of a failed call that is always the same: no addresses, no ports.
_CALL_FAILURE = re.compile(
    r'service "[^"]*" not found|no endpoints available for service "[^"]*"|connection refused|context deadline exceeded'
    r"|i/o timeout|no route to host|no such host|x509: [^:]*|connection reset by peer|EOF"
)
_NAMESPACE_MISSING = re.compile(r'namespaces "([^"]*)" not found')
_NOT_SERVED = re.compile(r"the server could not find the requested resource")
_REFERENCE_MISSING = re.compile(r'(\S+) "([^"]*)" not found')
_PLUGIN_REFUSAL = re.compile(r'\S+ "[^"]*" is forbidden: (.*)', re.DOTALL)
_NOT_ALLOWED = re.compile(r"cannot set (?:blockOwnerDeletion|an ownerRef)")
# etcd's own limit, 1.5 MiB; above 2 MiB the API server's client of etcd does not even send it.
_TOO_LARGE = re.compile(r"etcdserver: request is too large|trying to send message larger than max")
# Total sizes (ConfigMap, Secret; annotations), not those of a string that is too long for its schema.
_SIZE_LIMIT = re.compile(r"(?:may not be more than|must have at most) (?:1048576|262144) bytes")
# Matched in full: the text of a validation policy may resemble them.
_IMMUTABLE = re.compile(
    r"field is immutable|field is immutable when `immutable` is set"
    r"|updates to statefulset spec for fields other than .*|updates to parameters are forbidden"
    r"|pod updates may not change fields other than .*|pod updates may not add or remove containers"
    r"|spec is immutable after creation except .*|spec\.persistentvolumesource is immutable after creation"
    r"|cannot change roleRef|may not change once set|may not be changed in an update"
    # Fields that can be changed in one direction only.
    r"|must be less than or equal to previous value|must not update from a positive integer to nil value"
    r"|existing toleration can not be modified except its tolerationSeconds"
    r"|only deletion is allowed, but found new scheduling gate .*|can only be modified in tandem with spec\.parallelism"
    r"|field is immutable, except for updating from .*"
)
_CLAIM, _SIZE = ("", "PersistentVolumeClaim"), "spec.resources.requests.storage"
_ONLY_GROWS = re.compile(r"field can not be less than (?:status\.capacity|previous value)")
_GROWN = (
    "a claim cannot shrink: raise the size in the bundle, or leave it to others with the annotation "
    f"{names.IGNORE_FIELDS}: {_SIZE}"
)
_CANNOT_GROW = "only dynamically provisioned pvc can be resized"
# Of ports and addresses: that and nothing else is found before the object is validated.
_ALLOCATED = "is already allocated"
_HEALTH_CHECK_PORT = re.compile(r"failed to allocate requested HealthCheck NodePort \d+: .*is already allocated")
_JOB = ("batch", "Job")
# What the API server sets on a Job, with its UID.
_OF_JOB_CONTROLLER = ("spec.selector", "spec.template.metadata.labels")
_EXPORTED_JOB = (
    "if the manifest was exported from a cluster, remove spec.selector and the labels controller-uid and job-name"
)
_SECOND_CONTROLLER = re.compile(r"only one reference can have Controller set to true", re.IGNORECASE)
CONCEALED = "…"
Conceal: TypeAlias = Callable[[str], str]
"""Returns the path of a field without texts of the object."""
# The types of `field.Error` that are followed by a value, and the value: quoted as in Go, a number or word, or JSON.
# See field.Error.ErrorBody in apimachinery.
_VALUE = re.compile(
    r"(Invalid value|Unsupported value|Not found|Duplicate value|Too many): "
    r'(?:("(?:[^"\\]|\\.)*"|[-+\w.]+)|(?=[{\[]))'
)
_WITHOUT_VALUE = frozenset({"Required value", "Forbidden", "Too long", "Internal error"})
_UNKNOWN = "field not declared in schema"
_TYPED_ERRORS = (_UNKNOWN, "expected ", "duplicate entries for key")
# The keys of a list item, such as [name="web"]. In a set, [="web"], the key is the value.
_ITEM_KEYS = re.compile(r" \[\w+=[^\[\]]*\]")
_WORD = re.compile(r'"[A-Za-z]{1,30}"')
_GOT = re.compile(r"&(?:value\.valueUnstructured)?\{(?:Value:)?(true|false|[-+.0-9eE]+)\}$")
_BOOLEAN_FOR_TEXT = re.compile(r'must be of type string: "boolean"')
_BOOLEAN_HINT = "quote it: YAML reads y, n, yes, no, on, off, true and false as booleans"
_MAP = re.compile(
    r"(?:^|\.)(data|stringData|binaryData|labels|annotations|matchLabels|nodeSelector|limits|requests|parameters|hard|"
    r"capacity|volumeAttributes|overhead|selector(?!\.match(?:Labels|Expressions)\b))[.\[]"
)
_KEY = re.compile(r"\[(?!\d+\])[^\[\]]*\]")
_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"')
_CONVERSION_PREFIX = re.compile(r"unable to convert unstructured object to [^:]*: |error decoding from json: ")


class Recovery(Enum):
    """What can be tried immediately, before the retry class of the reason counts."""

    NONE = "none"
    JUDGE_AGAIN = "judge again"
    """The object has changed since it was judged: read it and decide again."""
    CREATE_NAMESPACE = "create namespace"
    """The install namespace does not exist: create it."""
    REFRESH_DISCOVERY = "refresh discovery"
    MIGRATE_ENTRIES = "migrate entries"
    """Set the apiVersion of all managedFields entries to ours."""
    TAKE_OVER_ITEMS = "take over items"
    """Others have list items with our names under other keys: take over their entries."""
    TAKE_OVER_FIELDS = "take over fields"
    """Fields that the bundle lacks may be in the way: take over those that nobody applies."""
    LEAVE_FIELDS = "leave fields"
    """Of an adopted object, leave what is refused of the fields that earlier managers have set."""
    RECREATE = "recreate"
    """A field is immutable: delete the object, if its annotation allows that, and create it again."""


class Contest(Enum):
    """Whether an object may be refused because of what another one has."""

    NONE = "none"
    VALUE = "value"
    ALLOCATED = "allocated"
    """A port or address, which only another Service can have."""
    QUOTA = "quota"
    """Too many objects are counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyFailure:
    """The meaning of a reply."""

    reason: Reason
    key: ObjectKey
    problem: str
    """What the server says about it, and what to do; without values."""
    retry_after: float | None = None
    """Seconds to wait, if the server requests that or an earlier retry is useless."""
    recovery: Recovery = Recovery.NONE
    contest: Contest = Contest.NONE
    is_overtaken: bool = False
    """Whether another client has written the object since it was read."""
    fields: tuple[str, ...] = ()
    """Paths of the fields that the server refuses."""
    account: str = ""
    """The account that lacks rights; empty if the failure is not about rights."""
    missing: tuple[RbacRight, ...] = ()
    """Rights that the account lacks, for a message that lists all of them."""

    @property
    def message(self) -> str:
        """The object and the problem."""
        return f"{self.key}: {self.problem}"

    def to_error(self) -> BundleError:
        """Return the failure as a user gets it."""
        if self.missing:
            return MissingRightsError(self.problem, self.account, self.missing, place=str(self.key))
        return BundleError(self.reason, self.problem, place=str(self.key), retry_after=self.retry_after)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reply:
    error: ApiError
    key: ObjectKey
    install_namespace: str
    conceals: bool = False
    characters: int = STATUS_CHARACTERS

    @property
    def message(self) -> str:
        """What is searched for known texts; only lists of rights are longer."""
        return self.error.message[:MATCHED_CHARACTERS]

    @property
    def conceal(self) -> Conceal | None:
        """How to conceal names in the path of a field; None if they may be shown."""
        return conceal_paths_of(self.key) if self.conceals else None

    def to_failure(self, reason: Reason, text: str, *, recovery: Recovery = Recovery.NONE) -> ApplyFailure:
        """Return a failure of the object."""
        problem = shorten(text, self.characters - len(f"{self.key}: "))
        after = self.error.retry_after
        return ApplyFailure(reason=reason, key=self.key, problem=problem, retry_after=after, recovery=recovery)

    def to_denial(self, account: str, text: str, missing: tuple[RbacRight, ...]) -> ApplyFailure:
        """Return a failure for lack of rights."""
        return replace(self.to_failure(Reason.FORBIDDEN, f'"{account}" {text}'), account=account, missing=missing)


def conceal_paths_of(key: ObjectKey) -> Conceal:
    """Return how to conceal names in the path of a field of an object."""
    return conceal_all if is_custom(key) else conceal_keys


def classify(
    error: ApiError,
    key: ObjectKey,
    *,
    install_namespace: str,
    conceals: bool = False,
    characters: int = STATUS_CHARACTERS,
) -> ApplyFailure:
    """Return what a failure reply to a write means for its object.

    Args:
        error: the reply, or the lack of one.
        key: of the object.
        install_namespace: of the BundleDeployment, which can be created if it is missing.
        conceals: whether no text of the object may be shown, since values of Secrets were rendered.
        characters: of the message at most; what is cut is its middle, never the remedy.
    """
    reply = _Reply(error=error, key=key, install_namespace=install_namespace, conceals=conceals, characters=characters)
    return _denied(reply) or _BY_STATUS.get(error.status, _other)(reply)


def _denied(reply: _Reply) -> ApplyFailure | None:
    # Its author is responsible for the text, but one about a Secret is not shown.
    denial = find_denial(reply.error.message)
    if denial is None:
        return None
    who, text_of_policy = denial
    is_silent = reply.conceals or (reply.key.group, reply.key.kind) == ("", "Secret")
    said = "" if is_silent else to_clause(text_of_policy)
    text = f"{who} denied the request: {said}" if said else f"{who} denied the request"
    return replace(reply.to_failure(Reason.REFUSED, text), contest=Contest.VALUE)


def _unauthorized(reply: _Reply) -> ApplyFailure:
    return reply.to_failure(Reason.API_UNAVAILABLE, "the API server rejected the credentials of the controller")


def _forbidden(reply: _Reply) -> ApplyFailure:
    message = reply.message
    if any(cause.reason == "NamespaceTerminating" for cause in reply.error.causes):
        return reply.to_failure(Reason.NAMESPACE_TERMINATING, f'namespace "{reply.key.namespace}" is being deleted')
    if "custom resource definition is terminating" in message:
        return reply.to_failure(Reason.WAITING_FOR_CRD, "the CustomResourceDefinition of its kind is being deleted")
    if "not yet ready to handle request" in message:
        return reply.to_failure(Reason.API_UNAVAILABLE, "the API server is not ready yet")
    return _lacking_rights(reply) or _refused_by_plugin(reply)


def _lacking_rights(reply: _Reply) -> ApplyFailure | None:
    user, missing = parse_denial(reply.message)
    if missing:
        return reply.to_denial(user, f"may not {describe_rights(missing)}; grant it this permission", missing)
    user, missing = parse_escalation(reply.error.message, reply.key.namespace)
    if user:
        remedy = "grant it bind on that role" if reply.key.kind in BINDINGS else "grant them to it first"
        text = f"may not grant permissions that it lacks: {describe_rights(missing)}; {remedy}"
        return reply.to_denial(user, text, missing)
    if _NOT_ALLOWED.search(reply.message):
        return reply.to_failure(
            Reason.FORBIDDEN, "the account may not set owner references; grant it update on finalizers"
        )
    return None


def _refused_by_plugin(reply: _Reply) -> ApplyFailure:
    # Its text names fields and quotes no values.
    match = _PLUGIN_REFUSAL.match(reply.message)
    if match is None:
        return reply.to_failure(Reason.FORBIDDEN, "the request is forbidden; check the permissions of the account")
    said, contest = to_clause(match[1]), Contest.VALUE
    if said.startswith("exceeded quota"):
        # The amounts in use change with every pod.
        said, contest = re.sub(r", used: .*?, limited: ", ", limited: ", said), Contest.QUOTA
        said = f"{said}; raise the quota, or delete what it counts"
    elif said.startswith(_CANNOT_GROW):
        said = f"{said}; revert the size in the bundle, or set allowVolumeExpansion on its StorageClass"
    return replace(reply.to_failure(Reason.REFUSED, conceal_quotes(said) if reply.conceals else said), contest=contest)


def _not_found(reply: _Reply) -> ApplyFailure:
    namespace = _NAMESPACE_MISSING.match(reply.message)
    if namespace:
        text = f'namespace "{namespace[1]}" does not exist; create it, or add it to the bundle'
        created = bool(namespace[1]) and namespace[1] == reply.install_namespace
        return reply.to_failure(
            Reason.NAMESPACE_NOT_FOUND, text, recovery=Recovery.CREATE_NAMESPACE if created else Recovery.NONE
        )
    # The reply for a path that is not served is plain text without a reason.
    if not reply.error.reason or _NOT_SERVED.match(reply.message):
        text = "the cluster does not serve its kind; install its API"
        return reply.to_failure(Reason.KIND_NOT_SERVED, text, recovery=Recovery.REFRESH_DISCOVERY)
    missing = _REFERENCE_MISSING.match(reply.message)
    what = f'{missing[1]} "{CONCEALED if reply.conceals else missing[2]}"' if missing else "an object"
    return reply.to_failure(Reason.REFUSED, f"refers to {what} that does not exist; create it")


def _conflict(reply: _Reply) -> ApplyFailure:
    fields = sorted({cause.field.lstrip(".") for cause in reply.error.causes if cause.reason == "FieldManagerConflict"})
    if fields and reply.conceal:
        fields = sorted(set(map(reply.conceal, fields)))
    if fields:
        text = f"already exists, and other field managers own {some(fields, ';')}; delete it"
        return reply.to_failure(Reason.COLLISION, text, recovery=Recovery.JUDGE_AGAIN)
    failure = reply.to_failure(
        Reason.API_UNAVAILABLE, "modified during the request; will be retried", recovery=Recovery.JUDGE_AGAIN
    )
    return replace(failure, is_overtaken=True)


def _too_large(reply: _Reply) -> ApplyFailure:
    return reply.to_failure(Reason.TOO_LARGE, "too large for the API server; split it")


def _invalid(reply: _Reply) -> ApplyFailure:
    # The field <nil> only means that rules were skipped because the object is invalid.
    causes = tuple(cause for cause in reply.error.causes if cause.field != "<nil>")
    texts = [text_of(cause) for cause in causes]
    said = describe(causes, reply.conceal) or "invalid"
    if any(_SECOND_CONTROLLER.match(text) for text in texts):
        return reply.to_failure(
            Reason.COLLISION, "controlled by another object; delete it", recovery=Recovery.JUDGE_AGAIN
        )
    if any(cause.reason == "FieldValueTooLong" and _SIZE_LIMIT.search(cause.message) for cause in causes):
        return reply.to_failure(Reason.TOO_LARGE, f"{said}; split it")
    # All causes: if anything else is wrong, the object could be deleted and not created again.
    if texts and not is_custom(reply.key) and all(_IMMUTABLE.fullmatch(text) for text in texts):
        return _immutable(reply, said)
    if reply.key[:2] == _CLAIM and all(_ONLY_GROWS.fullmatch(text) for text in texts):
        return reply.to_failure(Reason.REFUSED, f"{said}; {_GROWN}")
    if reply.key[:2] == _JOB and any(cause.field in _OF_JOB_CONTROLLER for cause in causes):
        said = f"{said}; {_EXPORTED_JOB}"
    if any(text.endswith(_ALLOCATED) for text in texts):
        return replace(reply.to_failure(Reason.REFUSED, said), contest=Contest.ALLOCATED)
    duplicate = any(cause.reason == "FieldValueDuplicate" for cause in causes)
    recovery = Recovery.TAKE_OVER_ITEMS if duplicate else Recovery.TAKE_OVER_FIELDS
    failure = reply.to_failure(Reason.REFUSED, said, recovery=recovery)
    return replace(failure, fields=tuple(dict.fromkeys(cause.field for cause in causes if cause.field)))


def _immutable(reply: _Reply, said: str) -> ApplyFailure:
    if reply.key[:2] in DATA_KINDS:
        return reply.to_failure(Reason.IMMUTABLE, f"{said}; revert the change, or delete the object")
    text = f'{said}; delete the object, or set the annotation {names.RECREATE} to "true" on it in the bundle'
    return reply.to_failure(Reason.IMMUTABLE, text, recovery=Recovery.RECREATE)


def _server_error(reply: _Reply) -> ApplyFailure:
    message = reply.message
    not_typed = _NOT_TYPED.match(message)
    if not_typed:
        return reply.to_failure(Reason.REFUSED, describe_typed_errors(not_typed[1], reply.conceal))
    not_converted = _NOT_CONVERTED.match(message)
    if not_converted:
        # No field is named, and a quote may be the value.
        said = _QUOTED.sub("(…)", to_clause(_CONVERSION_PREFIX.sub("", not_converted[1])))
        return reply.to_failure(Reason.REFUSED, f"a value cannot be decoded: {said}")
    if _OLD_ENTRY.search(message) or _names_undeclared_field(message):
        text = "a managedFields entry has an API version that lacks a field; have its manager write the object again"
        return reply.to_failure(Reason.REFUSED, text, recovery=Recovery.MIGRATE_ENTRIES)
    if _TOO_LARGE.search(message):
        return _too_large(reply)
    if _HEALTH_CHECK_PORT.search(message):
        text = "spec.healthCheckNodePort: provided port is already allocated"
        return replace(reply.to_failure(Reason.REFUSED, text), contest=Contest.ALLOCATED)
    return _webhook_not_called(reply) or _unavailable(reply)


def _names_undeclared_field(message: str) -> bool:
    before = message.split(_UNDECLARED)[:-1]
    words = (part.rsplit(maxsplit=1)[-1] for part in before if part and not part[-1].isspace())
    return any("." in word[:-1] for word in words)


def _webhook_not_called(reply: _Reply) -> ApplyFailure | None:
    message = reply.message
    call, conversion = _WEBHOOK_CALL.search(message), _CONVERSION.match(message)
    if conversion:
        who = f"the conversion webhook of {conversion[2]} ({conversion[1]})"
    elif call:
        who = f'admission webhook "{call[1]}"'
    else:
        return None
    why = _CALL_FAILURE.search(message)
    text = f"{who} could not be called" + (f": {why[0]}" if why else "")
    return reply.to_failure(Reason.WEBHOOK_UNAVAILABLE, f"{text}; check the workload that serves it")


def _unavailable(reply: _Reply) -> ApplyFailure:
    if "mvcc: database space exceeded" in reply.message:
        text = "the database of the API server is full; compact and defragment etcd, and disarm its alarm"
        retry_after = max(reply.error.retry_after or 0, DATABASE_FULL_SECONDS)
        return ApplyFailure(reason=Reason.API_UNAVAILABLE, key=reply.key, problem=text, retry_after=retry_after)
    if reply.error.status == 0:
        return reply.to_failure(Reason.API_UNAVAILABLE, "the API server did not answer")
    return reply.to_failure(Reason.API_UNAVAILABLE, f"the API server answered {_name(reply.error)}")


def _other(reply: _Reply) -> ApplyFailure:
    if reply.error.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return _server_error(reply)
    return reply.to_failure(Reason.REFUSED, f"the API server answered {_name(reply.error)}")


_BY_STATUS: dict[int, Callable[[_Reply], ApplyFailure]] = {
    0: _unavailable,
    HTTPStatus.UNAUTHORIZED: _unauthorized,
    HTTPStatus.FORBIDDEN: _forbidden,
    HTTPStatus.NOT_FOUND: _not_found,
    HTTPStatus.REQUEST_TIMEOUT: _unavailable,
    HTTPStatus.CONFLICT: _conflict,
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: _too_large,
    HTTPStatus.UNPROCESSABLE_ENTITY: _invalid,
    HTTPStatus.TOO_MANY_REQUESTS: _unavailable,
}


def _name(error: ApiError) -> str:
    return f"{error.status} {error.reason}".rstrip()


def text_of(cause: Cause, conceal: Conceal | None = None) -> str:
    """Return the text of a cause after the value, without a full stop; its form is `type: value: text`.

    Args:
        cause: of a reply.
        conceal: given if no text of the object may be shown.
    """
    # Further lines are a difference of two specs.
    line = cause.message.partition("\n")[0]
    match = _VALUE.match(line)
    if match:
        text = lower(_after_value(line, match).removeprefix(f"{cause.field} in body ") or match[1])
        text = text if conceal else f"{text}{_given(match)}"
        return f"{text}; {_BOOLEAN_HINT}" if _BOOLEAN_FOR_TEXT.fullmatch(text) else text
    kind, _, text = line.partition(": ")
    # Anything else might be a value.
    return lower(text.rstrip(".") or kind) if kind in _WITHOUT_VALUE else "rejected"


def describe(causes: Iterable[Cause], conceal: Conceal | None = None) -> str:
    """Return the rejected fields and why, equal for equal causes in any order; empty without any."""
    return some(sorted({_describe_one(cause, conceal) for cause in causes}), ";")


def conceal_keys(path: str) -> str:
    """Return the path of a field without what an object, and not its kind, calls something: keys of items and maps."""
    found = _MAP.search(path)
    shown = f"{path[: found.end(1)]}.{CONCEALED}" if found else path
    return _KEY.sub(f"[{CONCEALED}]", shown)


def conceal_quotes(text: str) -> str:
    """Return a text of the API server about an object without what it quotes, and without keys in paths."""
    return _KEY.sub(f"[{CONCEALED}]", _QUOTED.sub(f'"{CONCEALED}"', text))


def conceal_all(path: str) -> str:
    """Return the beginning of the path of a field: below it, any name may be one of the object's."""
    first, dot, _ = path.partition(".")
    return f"{first.partition('[')[0]}.{CONCEALED}" if dot else first


def describe_typed_errors(text: str, conceal: Conceal | None = None) -> str:
    """Return path and error of each field that does not match the schema of its kind, but not its value."""
    errors = (_typed_error(line.strip(), conceal) for line in text.splitlines())
    return some([*dict.fromkeys(filter(None, errors))], ";") or "does not match the schema of its kind"


def to_clause(text: str) -> str:
    """Return a sentence of the server in the form of our messages: one line, lower case, no full stop."""
    return lower(" ".join(text.split()).rstrip("."))


def lower(text: str) -> str:
    """Return a text in lower case at its start, unless that is an abbreviation."""
    return text if text[1:2].isupper() else text[:1].lower() + text[1:]


def _describe_one(cause: Cause, conceal: Conceal | None) -> str:
    # [] is the object as a whole.
    text = text_of(cause, conceal)
    return text if cause.field in ("", "[]") else f"{conceal(cause.field) if conceal else cause.field}: {text}"


def _after_value(line: str, match: re.Match[str]) -> str:
    end = match.end()
    if match[2] is None:
        try:
            _, end = json.JSONDecoder().raw_decode(line, end)
        except (ValueError, RecursionError):
            return ""
    return line[end + 2 :].rstrip(".") if line.startswith(": ", end) else ""


def _given(match: re.Match[str]) -> str:
    # Anything but a word may be a secret.
    is_word = match[1] == "Unsupported value" and _WORD.fullmatch(match[2] or "")
    return f", not {match[2]}" if is_word else ""


def _got(text: str) -> str:
    # The value is never told.
    found = _GOT.match(text)
    if found is None:
        return ""
    return f", got a boolean; {_BOOLEAN_HINT}" if found[1] in ("true", "false") else ", got a number; quote it"


def _typed_error(line: str, conceal: Conceal | None) -> str:
    for text in _TYPED_ERRORS:
        path, found, rest = line.partition(f": {text}")
        if not found or not path.startswith("."):
            continue
        where = path[1:]
        if conceal:
            # The name of an unknown field is one of the object's.
            where = conceal(where) if text != _UNKNOWN else f"{conceal(where.rpartition('.')[0])}.{CONCEALED}"
        if text == "expected ":
            expected, _, got = rest.partition(", got ")
            return f"{where}: {text}{expected}{_got(got) if expected == 'string' else ''}"
        keys = None if conceal else _ITEM_KEYS.match(rest)
        return f"{where}: {text}{keys[0] if keys else ''}"
    return ""
