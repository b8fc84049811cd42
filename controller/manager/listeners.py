"""The listeners for metrics and probes, at the addresses of the settings."""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus

from controller.kube.client import Client
from controller.manager.certificate import Certificate
from controller.manager.metrics import CONTENT_TYPE, Metrics
from controller.manager.probes import Probes
from controller.manager.reviews import Reviewer
from controller.manager.serving import METRICS, PROBES, ListenError, Protection, Reply, Server
from controller.settings import Settings, parse_address

Address = tuple[str, int]


def listen(settings: Settings, metrics: Metrics, probes: Probes, client: Client) -> tuple[Server, ...]:
    """Listen at the addresses of the settings, unless `off`; the client is for reviews and must not be fenced.

    Raises: ListenError if an address cannot be listened on; OSError if a certificate cannot be loaded.
    """

    def _serve_metrics(address: Address) -> Server:
        protection = Protection()
        if settings.serves_securely(address[0]):
            protection = Protection(
                context=Certificate(settings.certificate_files()).context, review=Reviewer(client).review
            )
        return Server(
            "--metrics-address",
            address,
            {"/metrics": lambda: Reply(HTTPStatus.OK, metrics.scrape(), CONTENT_TYPE)},
            limits=METRICS,
            supervisor=client.supervisor,
            protection=protection,
        )

    def _serve_probes(address: Address) -> Server:
        return Server("--probe-address", address, probes.routes(), limits=PROBES, supervisor=client.supervisor)

    servers = (_listen(settings, "metrics_address", _serve_metrics), _listen(settings, "probe_address", _serve_probes))
    return tuple(server for server in servers if server)


def _listen(settings: Settings, option: str, make: Callable[[Address], Server]) -> Server | None:
    """Return a server at the address of an option, or at a free port if the default one is in use; None: off."""
    address = parse_address(option, getattr(settings, option))
    if address is None:
        return None
    try:
        return make(address)
    except ListenError:
        if not settings.is_default(option):
            raise
        return make((address[0], 0))
