"""The server of the page: a thin edge around the values of model.py, the watches of watching.py and the verbs of views.

    GET  /                                       the document; with ?token=… first a cookie
    GET  /static/NAME                            its parts
    GET  /api/stream                             server-sent events: `contact`, and `rows`, or with ?name=… `detail`
                                                 or `unchanged`
    GET  /api/deployments/NAME/yaml              with ?uid=… of one of its objects
    GET  /api/deployments/NAME/object            what the panel of its object with ?uid=… shows
    GET  /api/deployments/NAME/log               of ?container=… of its Pod with ?uid=…, as lines of JSON; also with
                                                 ?previous=true or ?follow=true
    GET  /api/deployments/NAME/diff              of ?revision=… with the cluster, or with ?before=…
    POST /api/deployments/NAME/acts/VERB         what a verb of the command line does

A stream is a loop that looks ten times a second whether there is something new: what changes more often is sent once.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import logging
import secrets
import threading
import time
from collections.abc import AsyncIterator, Callable, Mapping
from datetime import UTC, datetime
from functools import partial
from http import HTTPStatus
from importlib.resources import files
from typing import Any, TypeVar

import uvicorn
from anyio import CapacityLimiter, to_thread
from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import (
    HTMLResponse,
    JSONResponse,
    PlainTextResponse,
    RedirectResponse,
    Response,
    StreamingResponse,
)
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rukpak.api import names
from rukpak.api.errors import BundleError
from rukpak.controller.apply.execute import REVIEWS
from rukpak.controller.building.revision import Revision
from rukpak.controller.content.limits import one_line
from rukpak.controller.kube.client import Client, LineStream
from rukpak.controller.kube.errors import QUOTING, ApiError, attempt
from rukpak.controller.observe.records import key_of
from rukpak.controller.status.report import short
from rukpak.controller.ui.guard import HEADERS, Guard
from rukpak.controller.ui.logs import make_query, read_lines
from rukpak.controller.ui.model import seal, write_yaml
from rukpak.controller.ui.watching import Board, View
from rukpak.controller.untrusted import field, is_object_name, text
from rukpak.controller.views import FailedError, MisuseError
from rukpak.controller.views.access import (
    PAUSE,
    PODS,
    RESUME,
    Choice,
    Deployments,
    Manifest,
    decide,
    find_kept,
    make_request,
    open_store,
    pin,
)
from rukpak.controller.views.comparison import write
from rukpak.controller.views.dry_run import Reviewed, compare, compare_two

log = logging.getLogger(__name__)
Found = TypeVar("Found")
PACKAGE = "rukpak.controller.ui"
TICK_SECONDS = 0.1
DETAIL_SECONDS = 0.3
"""Between two versions of a detail, at least: it may have thousands of objects."""
BEAT_SECONDS = 2.0
"""After how long a silent stream says that it lives; the page shows a silence of several."""
BODY_BYTES = 64 << 10
MOST_COMPARED = 500
"""Objects of a revision that is compared with the cluster: each takes a request."""
MOST_LOGS = 8
"""Logs that are read at the same time: each takes a thread and a connection. A browser opens six at most."""
LOG_SILENCE_SECONDS = 3600.0
GRACE_SECONDS = 1
"""For what is being answered when the server ends; streams would never."""
RIGHT_SECONDS = 30.0
"""How long an answer about rights is kept."""
_GONE = "this object does not exist any more"
_LOG_THREADS = CapacityLimiter(MOST_LOGS)
_PAGES = Environment(loader=PackageLoader(PACKAGE), autoescape=True, undefined=StrictUndefined)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """What the pages of one run have in common."""

    board: Board
    guard: Guard
    rights: Rights
    version: str
    is_read_only: bool
    key: bytes = dataclasses.field(default_factory=secrets.token_bytes)
    """Key of the hashes that stand for values of Secrets."""


def make_server(site: Site, certificate: str = "") -> uvicorn.Server:
    """Return the server of a site; with the file of a certificate and its key, it serves https."""
    config = uvicorn.Config(
        make_app(site),
        log_level="error",
        access_log=False,
        lifespan="off",
        ws="none",
        server_header=False,
        proxy_headers=False,  # nothing that a client says changes who it is
        timeout_graceful_shutdown=GRACE_SECONDS,
        ssl_certfile=certificate or None,
    )
    return uvicorn.Server(config)


def make_app(site: Site) -> ASGIApp:
    """Return the application."""
    routes = [
        Route("/", partial(_show_page, site)),
        Route("/api/stream", partial(_stream, site)),
        Route("/api/deployments/{name}/yaml", partial(_show_yaml, site)),
        Route("/api/deployments/{name}/object", partial(_show_object, site)),
        Route("/api/deployments/{name}/log", partial(_show_log, site)),
        Route("/api/deployments/{name}/diff", partial(_show_diff, site)),
        Route("/api/deployments/{name}/acts/{verb}", partial(_act, site), methods=["POST"]),
        Mount("/static", StaticFiles(directory=str(files(PACKAGE).joinpath("static")))),
    ]
    explained = dict.fromkeys((_UnknownError, FailedError, MisuseError, BundleError, ApiError), _explain)
    return _guarded(Starlette(routes=routes, exception_handlers=explained), site.guard)


class _UnknownError(HTTPException):
    """What is asked for does not exist any more, or is not known yet."""


async def _explain(_request: Request, error: Exception) -> Response:
    if isinstance(error, ApiError):
        is_forbidden = error.status == HTTPStatus.FORBIDDEN
        return _fail(HTTPStatus.FORBIDDEN if is_forbidden else HTTPStatus.BAD_GATEWAY, error.tell_user())
    if isinstance(error, _UnknownError):
        return _fail(error.status_code, error.detail)
    return _fail(HTTPStatus.CONFLICT, str(error))


def _fail(status: int, message: str) -> JSONResponse:
    return JSONResponse({"message": message}, status)


def _guarded(app: ASGIApp, guard: Guard) -> ASGIApp:
    async def _call(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await app(scope, receive, send)

        async def _send(message: Message) -> None:
            if message["type"] == "http.response.start":
                own = [(name.lower().encode(), value.encode()) for name, value in HEADERS.items()]
                message = {**message, "headers": [*message["headers"], *own]}
            await send(message)

        request = Request(scope)
        is_entry = scope["path"] == "/" and guard.admits(request.query_params.get("token", ""))
        refused = guard.refuse(scope["method"], dict(request.headers), is_entry=is_entry)
        if refused is None:
            return await app(scope, receive, _send)
        status, message = refused
        wants_page = scope["path"] == "/" and scope["method"] == "GET"
        text = _PAGES.get_template("refused.html").render(message=message)
        return await (HTMLResponse(text, status) if wants_page else _fail(status, message))(scope, receive, _send)

    return _call


async def _show_page(site: Site, request: Request) -> Response:
    if "token" in request.query_params:
        if not site.guard.admits(request.query_params["token"]):
            return RedirectResponse("/", HTTPStatus.SEE_OTHER)
        # A redirect would still come from where the address was opened, and then a browser does not send the cookie.
        return HTMLResponse(headers={"refresh": "0; url=/", "set-cookie": site.guard.set_cookie()})
    return HTMLResponse(_PAGES.get_template("page.html").render(site=site))


# what changes


async def _stream(site: Site, request: Request) -> Response:
    name = request.query_params.get("name", "")
    if name and not is_object_name(name):
        return _fail(HTTPStatus.NOT_FOUND, "no BundleDeployment can have this name")
    body = _detail_events(site, name) if name else _row_events(site)
    return StreamingResponse(_beating(body), media_type="text/event-stream")


async def _beating(events: AsyncIterator[tuple[str, str]]) -> AsyncIterator[str]:
    silent = 0.0
    async for kind, data in events:
        silent = 0.0 if kind else silent + TICK_SECONDS
        if kind:
            yield f"event: {kind}\ndata: {data}\n\n"
        elif silent >= BEAT_SECONDS:
            silent = 0.0
            yield "event: beat\ndata: {}\n\n"


async def _row_events(site: Site) -> AsyncIterator[tuple[str, str]]:
    contact, known, seen = "", dict[str, int](), -1
    while True:
        if (now := json.dumps(site.board.contact())) != contact:
            contact = now
            yield "contact", contact
        version = site.board.version
        if version != seen and site.board.is_listed:
            rows, is_first, seen = site.board.rows(), seen < 0, version
            changed = [text for name, (at, text) in rows.items() if known.get(name) != at]
            gone = [name for name in known if name not in rows]
            known = {name: at for name, (at, _) in rows.items()}
            yield "rows", f'{{"first":{json.dumps(is_first)},"rows":[{",".join(changed)}],"gone":{json.dumps(gone)}}}'
        yield "", ""
        await asyncio.sleep(TICK_SECONDS)


async def _detail_events(site: Site, name: str) -> AsyncIterator[tuple[str, str]]:
    contact, sent, seen, waited = "", "", 0, DETAIL_SECONDS
    with site.board.viewing(name) as view:
        while True:
            if (now := json.dumps(site.board.contact(name))) != contact:
                contact = now
                yield "contact", contact
            if view.version != seen and site.board.is_listed and waited >= DETAIL_SECONDS:
                seen, waited = view.version, 0.0
                may_change = not site.is_read_only and await run_in_threadpool(site.rights.may_change, name)
                offers = json.dumps(may_change)
                dependents = json.dumps(site.board.find_dependents(name))
                text = f'{{"detail":{await run_in_threadpool(view.read)},"offers":{offers},"dependents":{dependents}}}'
                if text != sent:
                    sent = text
                    yield "detail", text
                else:  # an object may have come and gone in between
                    yield "unchanged", "{}"
            yield "", ""
            await asyncio.sleep(TICK_SECONDS)
            waited += TICK_SECONDS


# what is asked for


async def _show_yaml(site: Site, request: Request) -> Response:
    name, uid = request.path_params["name"], request.query_params.get("uid", "")
    value = await run_in_threadpool(_find, site.board, name, uid)
    return PlainTextResponse(await run_in_threadpool(write_yaml, value, site.key))


def _find(board: Board, name: str, uid: str) -> Manifest:
    if uid:
        return _look_up(board, name, lambda view: view.find(uid))
    is_listed = board.is_listed  # before looking: what is listed in between would be reported as gone
    return _known(board.find(name), is_complete=is_listed)


def _look_up(board: Board, name: str, look: Callable[[View], Found | None]) -> Found:
    view = board.view(name)  # once, for both questions: a page that is opened in between has another view
    is_complete = view is not None and view.is_complete()
    return _known(look(view) if view else None, is_complete=is_complete)


def _known(found: Found | None, *, is_complete: bool) -> Found:
    if found is not None:
        return found
    if is_complete:
        raise _UnknownError(HTTPStatus.NOT_FOUND, _GONE)
    raise _UnknownError(HTTPStatus.SERVICE_UNAVAILABLE, "this object is not known yet")


async def _show_object(site: Site, request: Request) -> Response:
    name, uid = request.path_params["name"], request.query_params.get("uid", "")
    if not uid:
        return _fail(HTTPStatus.NOT_FOUND, _GONE)
    text = await run_in_threadpool(_look_up, site.board, name, lambda view: view.make_panel(uid, site.key))
    return Response(text, media_type="application/json")


async def _show_log(site: Site, request: Request) -> Response:
    query, view = request.query_params, site.board.view(request.path_params["name"])
    pod = await run_in_threadpool(view.find, query.get("uid", "")) if view else None
    if pod is None or key_of(pod)[:2] != ("", "Pod"):
        return _fail(HTTPStatus.NOT_FOUND, "this Pod does not exist any more")
    if _LOG_THREADS.borrowed_tokens == MOST_LOGS:
        message = f"{MOST_LOGS} logs are being read; close one of the pages that show them"
        return _fail(HTTPStatus.TOO_MANY_REQUESTS, message)
    parameters = make_query(
        query.get("container", ""), previous=query.get("previous") == "true", follow=query.get("follow") == "true"
    )
    stream = await run_in_threadpool(_open_log, site, pod, parameters)
    return LogResponse(stream)


def _open_log(site: Site, pod: Manifest, query: list[tuple[str, Any]]) -> LineStream:
    path = PODS.path(text(pod, "metadata", "namespace"), text(pod, "metadata", "name"))
    try:
        return site.board.client.stream(
            f"{path}/log", query=query, accept="application/json, */*", silence=LOG_SILENCE_SECONDS
        )
    except ApiError as error:
        if error.status not in QUOTING:
            raise
        # The request has no body that the message could quote: it says that a container waits, or has not ended yet.
        raise FailedError(one_line(f"{error.status} {error.reason}: {error.message}")) from None


class LogResponse(StreamingResponse):
    """The lines of a log. When the page closes, so does the connection to the API server."""

    def __init__(self, stream: LineStream) -> None:
        super().__init__(self._write_lines(), media_type="application/x-ndjson")
        self._stream = stream
        self._lines = read_lines(stream.segments())
        self._reading = threading.Lock()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer as ASGI says, and close the connection, also if nobody has asked for the first line."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._stream.close()  # a thread that waits for a silent container ends
            self._release()

    async def _write_lines(self) -> AsyncIterator[str]:
        try:
            while lines := await to_thread.run_sync(self._read, abandon_on_cancel=True, limiter=_LOG_THREADS):
                yield "".join(f"{json.dumps(line)}\n" for line in lines)
        except ApiError as error:
            yield f"{json.dumps(f'[the log ends here: {error.tell_user()}]')}\n"

    def _read(self) -> list[str]:
        try:
            with self._reading:
                return next(self._lines, [])
        finally:
            if self._stream.is_closed:
                self._release()

    def _release(self) -> None:
        if self._reading.acquire(blocking=False):  # else the thread that reads does it afterwards
            try:
                self._stream.release()
            finally:
                self._reading.release()


async def _show_diff(site: Site, request: Request) -> Response:
    query = request.query_params
    lines = await run_in_threadpool(
        _compare, site, request.path_params["name"], query.get("revision", ""), query.get("before", "")
    )
    return JSONResponse({"lines": lines})


def _compare(site: Site, name: str, revision: str, before: str) -> list[str]:
    client = site.board.client
    _, deployment = Deployments(client).read(name)
    store = open_store(client, site.board.namespace)
    digests = [digest for digest in (revision, before) if digest]
    stored = attempt(lambda: {digest: store.read(name, digest) for digest in digests}, HTTPStatus.FORBIDDEN)
    if stored is None:
        raise FailedError(
            f'you may not read stored revisions (Secrets in namespace "{site.board.namespace}"), so it cannot be shown '
            "what would change"
        )
    after, earlier = stored.get(revision), stored.get(before)
    if after is None or None in stored.values():
        raise FailedError("this revision is not kept any more")
    if not earlier and len(after.objects) > MOST_COMPARED:
        raise FailedError(
            f"this revision has {len(after.objects)} objects, and comparing one with the cluster takes a request; run "
            f'"rukpak diff {name} --to {short(revision)}" to compare them all'
        )
    reviewed = Reviewed(deployment=deployment, revision=after, client=client)

    def _read_installed(digest: str) -> Revision | None:
        return attempt(lambda: store.read(name, digest), HTTPStatus.FORBIDDEN)

    comparison = compare_two(reviewed, earlier) if earlier else compare(reviewed, _read_installed, name)
    return list(write(comparison, site.key, colors=False))


# acts


async def _act(site: Site, request: Request) -> Response:
    name, verb = request.path_params["name"], request.path_params["verb"]
    if site.is_read_only:
        return _fail(HTTPStatus.FORBIDDEN, "this page was opened with --read-only")
    if verb not in ACTS:
        return _fail(HTTPStatus.NOT_FOUND, f'there is no act "{verb}"')
    given = await _read_body(request)
    await run_in_threadpool(ACTS[verb], Deployments(site.board.client), name, given)
    log.info("act", extra={"verb": verb, "BundleDeployment": name})
    return JSONResponse({})


async def _read_body(request: Request) -> Mapping[str, Any]:
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > BODY_BYTES:
            raise MisuseError("the request is too large")
    with contextlib.suppress(ValueError):
        value = json.loads(body or b"{}")
        if isinstance(value, dict):
            return value
    raise MisuseError("the request is not a JSON object")


def _merge(
    make: Callable[[], Mapping[str, Any]], deployments: Deployments, name: str, _given: Mapping[str, Any]
) -> None:
    if deployments.change(name, make()) is None:
        raise FailedError(f'BundleDeployment "{name}" not found')


def _decide(verb: str, deployments: Deployments, name: str, given: Mapping[str, Any]) -> None:
    deployment = deployments.read(name)[1]
    pending = deployment.status.pending
    if pending is None or text(given, "revision") != pending.revision or text(given, "shown") != seal(deployment):
        raise FailedError("what waits for approval has changed meanwhile; look at it again")
    decide(verb, deployments, Choice(deployment, pending.revision), lambda: _choose(deployments, name))


def _choose(deployments: Deployments, name: str) -> Choice:
    deployment = deployments.read(name)[1]
    if deployment.status.pending is None:
        raise FailedError(f"{name}: no revision waits for approval")
    return Choice(deployment, deployment.status.pending.revision)


def _roll_back(deployments: Deployments, name: str, given: Mapping[str, Any]) -> None:
    deployment, revision = deployments.read(name)[1], text(given, "revision")
    found = find_kept(deployment.status, revision) if revision else ""
    if not found:
        raise FailedError(f"{name}: this revision is not kept any more")
    pin(deployments, deployment, found)


def _undo(deployments: Deployments, name: str, _given: Mapping[str, Any]) -> None:
    pin(deployments, deployments.read(name)[1], None)


ACTS: Mapping[str, Callable[[Deployments, str, Mapping[str, Any]], None]] = {
    "pause": partial(_merge, lambda: PAUSE),
    "resume": partial(_merge, lambda: RESUME),
    "reconcile": partial(_merge, lambda: make_request(datetime.now(UTC).isoformat(timespec="microseconds"))),
    "approve": partial(_decide, "approve"),
    "deny": partial(_decide, "deny"),
    "rollback": _roll_back,
    "undo": _undo,
}
"""By name; `undo` is `rollback --undo`."""


class Rights:
    """Whether the user may change a BundleDeployment, as the API server says. Thread-safe.

    Args:
        client: with the rights of the user.
        clock: in seconds.
    """

    def __init__(self, client: Client, clock: Callable[[], float] = time.monotonic) -> None:
        self._client, self._clock = client, clock
        self._lock = threading.Lock()
        self._known: dict[str, tuple[float, bool]] = {}

    def may_change(self, name: str) -> bool:
        """Return whether an act may be offered; not if that cannot be found out."""
        with self._lock:
            at, answer = self._known.get(name, (0.0, False))
            if name not in self._known or self._clock() - at > RIGHT_SECONDS:
                answer = self._ask(name)
                self._known[name] = (self._clock(), answer)
            return answer

    def _ask(self, name: str) -> bool:
        about = {"group": names.GROUP, "resource": names.PLURAL, "verb": "patch", "name": name}
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": about},
        }
        try:
            return field(self._client.create(REVIEWS, review).value, "status", "allowed") is True
        except ApiError:
            return False
