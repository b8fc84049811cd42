"""What a failure reply of the API server means for one object: reason, message, what can be done at once.

The tables of README.md, Replies, in the order in which they are asked: texts of policies before codes, since a
webhook may say no with any of them. A reply quotes what was sent, whole pod specs and Secrets included, so of what it
says only fields, and what stands after a value, get into a message.

Not here: sending, trying again, and what `Action` asks for. Which rights an account lacks is read in missing_rights.py.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum
from http import HTTPStatus

from api import names
from api.v1alpha2.conditions import Reason
from controller.apply.failures.causes import (
    describe,
    describe_conversion_error,
    describe_typed_errors,
    enumerate_some,
    one_line,
    text_of,
)
from controller.apply.failures.missing_rights import RbacRight, describe_rights, parse_denial, parse_escalation
from controller.apply.order import is_custom
from controller.apply.ownership import DATA_KINDS
from controller.kube.errors import ApiError
from controller.observe.records import ObjectKey

MESSAGE_CHARACTERS = 1000
DATABASE_FULL_SECONDS = 60.0
"""A full etcd stays read-only until somebody has made room: no use in asking sooner."""

_WEBHOOK_DENIAL = re.compile(
    r'admission webhook "([^"]*)" denied the request(?:: (.*)| without explanation)', re.DOTALL
)
_POLICY_DENIAL = re.compile(
    r"(?:\S+ \"[^\"]*\" is forbidden: )?"
    r"(?:ValidatingAdmissionPolicy|MutatingAdmissionPolicy|policy) '([^']*)' with binding '[^']*' denied request: (.*)",
    re.DOTALL,
)

_NOT_TYPED = re.compile(r"failed to create typed patch object \(.*?Kind=\w+\): (.*)", re.DOTALL)
_NOT_CONVERTED = re.compile(r"failed to convert new object \(.*?Kind=\w+\) to proper version: (.*)", re.DOTALL)
_OLD_ENTRY = re.compile(
    r"\.\S+: field not declared in schema|request to convert CR (?:to|from) an invalid group/version"
)

_WEBHOOK_CALL = re.compile(r'failed calling webhook "([^"]*)"')
_CONVERSION = re.compile(r"conversion webhook for ([^,]*), Kind=(\S+)")
# What is said about a call that failed, as far as it is the same each time: no addresses, no ports.
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
# Total sizes (ConfigMap, Secret; annotations); a string that is too long for its schema is another matter.
_SIZE_LIMIT = re.compile(r"(?:may not be more than|must have at most) (?:1048576|262144) bytes")
# Compared as a whole: words of a validation policy may resemble them.
_IMMUTABLE = re.compile(
    r"field is immutable|field is immutable when `immutable` is set"
    r"|updates to statefulset spec for fields other than .*|updates to parameters are forbidden"
    r"|pod updates may not change fields other than .*|pod updates may not add or remove containers"
    r"|spec is immutable after creation except .*|spec\.persistentvolumesource is immutable after creation"
    r"|cannot change roleRef|may not change once set|may not be changed in an update"
)
_SECOND_CONTROLLER = re.compile(r"only one reference can have Controller set to true", re.IGNORECASE)


class Recovery(Enum):
    """What can be done about a failure at once, before its reason's retry class counts."""

    NONE = "none"
    JUDGE_AGAIN = "judge again"
    """The object is not what it was when it was judged: read it and decide again."""
    CREATE_NAMESPACE = "create namespace"
    """The install namespace is missing, which the controller creates."""
    REFRESH_DISCOVERY = "refresh discovery"
    MIGRATE_ENTRIES = "migrate entries"
    """Set the apiVersion of all managedFields entries to ours, once per repair."""
    TAKE_OVER_ITEMS = "take over items"
    """Others left list items with our names under other keys: take their entries over, in a repair."""
    RECREATE = "recreate"
    """A field is immutable: delete the object, where its annotation allows that, and create it again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyFailure:
    """What a reply means."""

    reason: Reason
    message: str
    """The object, what the server said about it, what to do; without values."""
    retry_after: float | None = None
    """Seconds that the server asked for, or that are the least that makes sense."""
    recovery: Recovery = Recovery.NONE
    account: str = ""
    """Who lacks rights; empty if it is not about rights."""
    missing: tuple[RbacRight, ...] = ()
    """Rights that the account lacks, for a message about all of them at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reply:
    error: ApiError
    key: ObjectKey
    install_namespace: str

    def fail(self, reason: Reason, text: str, *, recovery: Recovery = Recovery.NONE) -> ApplyFailure:
        message = _shorten(f"{self.key}: {text}")
        return ApplyFailure(reason=reason, message=message, retry_after=self.error.retry_after, recovery=recovery)

    def lack(self, account: str, text: str, missing: tuple[RbacRight, ...]) -> ApplyFailure:
        return replace(self.fail(Reason.FORBIDDEN, f'"{account}" {text}'), account=account, missing=missing)


def classify(error: ApiError, key: ObjectKey, *, install_namespace: str) -> ApplyFailure:
    """Say what a failure reply means for the object that a write was about.

    Args:
        error: the reply, or that there was none.
        key: of the object.
        install_namespace: of the BundleDeployment; if it is missing, it can be created.
    """
    reply = _Reply(error=error, key=key, install_namespace=install_namespace)
    return _denied(reply) or _BY_STATUS.get(error.status, _other)(reply)


def _denied(reply: _Reply) -> ApplyFailure | None:
    """Recognise a policy's no. Its text is its author's to answer for, but what it says of a Secret is not shown."""
    webhook = _WEBHOOK_DENIAL.match(reply.error.message)
    policy = None if webhook else _POLICY_DENIAL.match(reply.error.message)
    match = webhook or policy
    if match is None:
        return None
    who = f'{"admission webhook" if webhook else "admission policy"} "{match[1]}"'
    said = "" if (reply.key.group, reply.key.kind) == ("", "Secret") else one_line(match[2] or "")
    return reply.fail(Reason.REFUSED, f"{who} denied it: {said}" if said else f"{who} denied it")


def _unauthorized(reply: _Reply) -> ApplyFailure:
    return reply.fail(Reason.API_UNAVAILABLE, "the API server does not accept the credentials of the controller")


def _forbidden(reply: _Reply) -> ApplyFailure:
    message = reply.error.message
    if any(cause.reason == "NamespaceTerminating" for cause in reply.error.causes):
        return reply.fail(Reason.NAMESPACE_TERMINATING, f'namespace "{reply.key.namespace}" is being deleted')
    if "custom resource definition is terminating" in message:
        return reply.fail(Reason.WAITING_FOR_CRD, "the CustomResourceDefinition of its kind is being deleted")
    if "not yet ready to handle request" in message:
        return reply.fail(Reason.API_UNAVAILABLE, "the API server is not ready yet")
    return _lacking_rights(reply) or _refused_by_plugin(reply)


def _lacking_rights(reply: _Reply) -> ApplyFailure | None:
    user, missing = parse_denial(reply.error.message)
    if missing:
        return reply.lack(user, f"may not {describe_rights(missing)}; grant it that", missing)
    user, missing = parse_escalation(reply.error.message, reply.key.namespace)
    if user:
        text = f"may not grant rights that it lacks: {describe_rights(missing)}; grant it these"
        return reply.lack(user, text, missing)
    if _NOT_ALLOWED.search(reply.error.message):
        return reply.fail(Reason.FORBIDDEN, "the account may not set owner references; grant it update on finalizers")
    return None


def _refused_by_plugin(reply: _Reply) -> ApplyFailure:
    """Quota, PodSecurity and other admission of the server's own: they count and name fields, and quote nothing."""
    match = _PLUGIN_REFUSAL.match(reply.error.message)
    if match is None:
        return reply.fail(Reason.FORBIDDEN, "the request is forbidden")
    said = one_line(match[1])
    if said.startswith("exceeded quota"):
        # The amounts in use change with every pod that comes or goes.
        said = re.sub(r", used: .*?, limited: ", ", limited: ", said)
    return reply.fail(Reason.REFUSED, said)


def _not_found(reply: _Reply) -> ApplyFailure:
    namespace = _NAMESPACE_MISSING.match(reply.error.message)
    if namespace:
        text = f'namespace "{namespace[1]}" does not exist; create it, or add it to the bundle'
        created = bool(namespace[1]) and namespace[1] == reply.install_namespace
        return reply.fail(
            Reason.NAMESPACE_NOT_FOUND, text, recovery=Recovery.CREATE_NAMESPACE if created else Recovery.NONE
        )
    # The reply about a path that is not served is plain text, so that no reason is known.
    if not reply.error.reason or _NOT_SERVED.match(reply.error.message):
        text = "the cluster does not serve its kind; install what serves it"
        return reply.fail(Reason.KIND_NOT_SERVED, text, recovery=Recovery.REFRESH_DISCOVERY)
    missing = _REFERENCE_MISSING.match(reply.error.message)
    what = f'"{missing[2]}"' if missing else "what"
    return reply.fail(Reason.REFUSED, f"{what} that it refers to does not exist; create it")


def _conflict(reply: _Reply) -> ApplyFailure:
    fields = sorted({cause.field.lstrip(".") for cause in reply.error.causes if cause.reason == "FieldManagerConflict"})
    if fields:
        text = f"exists already, and others hold {enumerate_some(fields)}"
        return reply.fail(Reason.COLLISION, text, recovery=Recovery.JUDGE_AGAIN)
    return reply.fail(Reason.API_UNAVAILABLE, "was changed meanwhile; it is tried again", recovery=Recovery.JUDGE_AGAIN)


def _too_large(reply: _Reply) -> ApplyFailure:
    return reply.fail(Reason.TOO_LARGE, "is larger than the API server takes; split it")


def _invalid(reply: _Reply) -> ApplyFailure:
    # That rules were skipped since the object is invalid is said of the field <nil>, and says nothing by itself.
    causes = tuple(cause for cause in reply.error.causes if cause.field != "<nil>")
    texts = [text_of(cause) for cause in causes]
    said = describe(causes) or "is invalid"
    if any(_SECOND_CONTROLLER.match(text) for text in texts):
        return reply.fail(Reason.COLLISION, "is controlled by another object", recovery=Recovery.JUDGE_AGAIN)
    if any(cause.reason == "FieldValueTooLong" and _SIZE_LIMIT.search(cause.message) for cause in causes):
        return reply.fail(Reason.TOO_LARGE, f"{said}; split it")
    # All of them: to recreate an object would lose it if something else were wrong with it, too.
    if texts and not is_custom(reply.key) and all(_IMMUTABLE.fullmatch(text) for text in texts):
        return _immutable(reply, said)
    duplicate = any(cause.reason == "FieldValueDuplicate" for cause in causes)
    return reply.fail(Reason.REFUSED, said, recovery=Recovery.TAKE_OVER_ITEMS if duplicate else Recovery.NONE)


def _immutable(reply: _Reply, said: str) -> ApplyFailure:
    if reply.key[:2] in DATA_KINDS:
        return reply.fail(Reason.IMMUTABLE, f"{said}; revert the change, or delete the object")
    text = f'{said}; delete the object, or set the annotation {names.RECREATE} to "true" on it in the bundle'
    return reply.fail(Reason.IMMUTABLE, text, recovery=Recovery.RECREATE)


def _server_error(reply: _Reply) -> ApplyFailure:
    message = reply.error.message
    not_typed = _NOT_TYPED.match(message)
    if not_typed:
        return reply.fail(Reason.REFUSED, describe_typed_errors(not_typed[1]))
    not_converted = _NOT_CONVERTED.match(message)
    if not_converted:
        return reply.fail(Reason.REFUSED, describe_conversion_error(not_converted[1]))
    if _OLD_ENTRY.search(message):
        text = "a field manager's entry is of a version that lacks a field; let that manager write the object again"
        return reply.fail(Reason.REFUSED, text, recovery=Recovery.MIGRATE_ENTRIES)
    if _TOO_LARGE.search(message):
        return _too_large(reply)
    return _webhook_not_called(reply) or _unavailable(reply)


def _webhook_not_called(reply: _Reply) -> ApplyFailure | None:
    message = reply.error.message
    call, conversion = _WEBHOOK_CALL.search(message), _CONVERSION.match(message)
    if conversion:
        who = f"the conversion webhook of {conversion[2]} ({conversion[1]})"
    elif call:
        who = f'admission webhook "{call[1]}"'
    else:
        return None
    why = _CALL_FAILURE.search(message)
    text = f"{who} could not be called" + (f": {why[0]}" if why else "")
    return reply.fail(Reason.WEBHOOK_UNAVAILABLE, f"{text}; see the workload that serves it")


def _unavailable(reply: _Reply) -> ApplyFailure:
    if "mvcc: database space exceeded" in reply.error.message:
        text = "the database of the API server is full; compact, defragment and disarm etcd"
        retry_after = max(reply.error.retry_after or 0, DATABASE_FULL_SECONDS)
        return ApplyFailure(reason=Reason.API_UNAVAILABLE, message=f"{reply.key}: {text}", retry_after=retry_after)
    if reply.error.status == 0:
        return reply.fail(Reason.API_UNAVAILABLE, "the API server did not answer")
    return reply.fail(Reason.API_UNAVAILABLE, f"the API server answered {_name(reply.error)}")


def _other(reply: _Reply) -> ApplyFailure:
    if reply.error.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return _server_error(reply)
    return reply.fail(Reason.REFUSED, f"the API server answered {_name(reply.error)}")


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


def _shorten(text: str) -> str:
    return text if len(text) <= MESSAGE_CHARACTERS else f"{text[: MESSAGE_CHARACTERS - 1]}…"
