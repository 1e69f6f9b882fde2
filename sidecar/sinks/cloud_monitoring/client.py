"""The official client, made when it is first needed and made anew when it must be."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlsplit

import google.auth
import google.auth.transport.grpc
import google.auth.transport.requests
import grpc
import requests
from google.api_core.gapic_v1.client_info import ClientInfo
from google.auth import compute_engine
from google.auth.exceptions import DefaultCredentialsError, GoogleAuthError
from google.cloud.monitoring_v3 import MetricServiceClient
from google.cloud.monitoring_v3.services.metric_service.transports import (
    MetricServiceGrpcTransport,
)
from google.cloud.monitoring_v3.types import TimeSeries
from requests.adapters import HTTPAdapter

from sidecar import __version__
from sidecar.metadata import (
    ADDRESS_VARIABLE,
    HOST_VARIABLES,
    HOSTS,
    MetadataServer,
)
from sidecar.sink_settings import CloudMonitoringSettings
from sidecar.target import Target

# It logs what google.auth raises as well, past our own log and its format.
logging.getLogger("google").addHandler(logging.NullHandler())

UNIVERSE_VARIABLE, UNIVERSE = "GOOGLE_CLOUD_UNIVERSE_DOMAIN", "googleapis.com"
UNIVERSE_PATH = "universe/universe-domain"

_NO_RETRY: Any = None
_LONGEST_BACKOFF = 10_000
"""Milliseconds."""

_LARGEST_HEADERS = 1 << 20
"""Bytes: a refusal comes in them, and names every series."""

LIKELY = 2 * 86400.0
"""Seconds: who says that the clock is further off is not believed."""

CREDENTIALS = "GOOGLE_APPLICATION_CREDENTIALS"


class Client:
    """Writes series; connects and authenticates at the first call.

    Args:
        credentials: finds the credentials, and the project that comes with them.
    """

    def __init__(
        self,
        settings: CloudMonitoringSettings,
        environ: Mapping[str, str],
        credentials: Callable[..., tuple[Any, str | None]] = google.auth.default,
    ) -> None:
        self._settings = settings
        self._environ = environ
        self._find_credentials = credentials
        self._channel: grpc.Channel | None = None
        self._service: MetricServiceClient | None = None
        self._credentials: Any = None
        self.project: str | None = None
        self.time = ServerTime()

    @property
    def account(self) -> str | None:
        """Whose credentials are used, where they tell."""
        return getattr(self._credentials, "service_account_email", None)

    def write(self, project: str, series: Sequence[TimeSeries], timeout: float) -> None:
        """One CreateTimeSeries, without the library's own retries.

        Args:
            timeout: seconds.
        """
        self.connected().create_time_series(
            name=f"projects/{project}",
            time_series=list(series),
            timeout=timeout,
            retry=_NO_RETRY,
        )

    def labels(self, project: str, resource_type: str, timeout: float) -> list[str]:
        """Ask the service for the labels of a resource type; it changes nothing."""
        found = self.connected().get_monitored_resource_descriptor(
            name=f"projects/{project}/monitoredResourceDescriptors/{resource_type}",
            timeout=timeout,
            retry=_NO_RETRY,
        )
        return [label.key for label in found.labels]

    def connected(self) -> MetricServiceClient:
        """The service, with credentials."""
        if self._service is None:
            self._channel = self._open()
            self._service = MetricServiceClient(
                transport=MetricServiceGrpcTransport(
                    channel=self._channel, client_info=_WHO
                )
            )
        return self._service

    def close(self) -> None:
        """Forget connection and credentials; the next call begins anew."""
        if self._channel is not None:
            self._channel.close()
        self._channel = self._service = None

    def _open(self) -> grpc.Channel:
        endpoint = self._settings.endpoint
        if endpoint and self._settings.insecure:
            return grpc.insecure_channel(endpoint, _options(endpoint))
        tokens = session(self._environ)
        tokens.hooks["response"].append(self.time.note)
        request = google.auth.transport.requests.Request(tokens)
        try:
            self._credentials, self.project = self._find_credentials(
                scopes=MetricServiceGrpcTransport.AUTH_SCOPES, request=request
            )
        except GoogleAuthError:
            raise
        except Exception as error:
            # What a file of credentials may hold, the library finds out by accident.
            raise DefaultCredentialsError(repr(error)) from None  # type: ignore[no-untyped-call]
        target = endpoint or f"monitoring.{self._universe()}:443"
        open_channel: Any = google.auth.transport.grpc.secure_authorized_channel
        channel: grpc.Channel = open_channel(
            self._credentials, request, target, options=_options(target)
        )
        return channel

    def _universe(self) -> str:
        if told := self._environ.get(UNIVERSE_VARIABLE):
            return told
        if isinstance(self._credentials, compute_engine.Credentials):
            # The library would ask for it through a proxy.
            return MetadataServer(self._environ).read(UNIVERSE_PATH) or UNIVERSE
        return getattr(self._credentials, "universe_domain", None) or UNIVERSE


class ServerTime:
    """How late this machine's clock is, by the servers that give the tokens.

    The service takes points of a clock that is behind, and shows them as old: nothing
    else tells.

    Args:
        clock, wall: monotonic and Unix time.
    """

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._clock = clock
        self._wall = wall
        self._began: float | None = None

    def note(self, answer: requests.Response, **_: Any) -> None:
        """Learn from an answer; the same where it has no time."""
        with contextlib.suppress(TypeError, ValueError, OverflowError):
            told = parsedate_to_datetime(answer.headers.get("Date", "")).timestamp()
            if abs(told - self._wall()) < LIKELY:
                self._began = told - self._clock()

    @property
    def behind(self) -> float:
        """Seconds; 0 where it is not known."""
        if self._began is None:
            return 0.0
        return self._began + self._clock() - self._wall()


class _Direct(HTTPAdapter):
    """Never through a proxy, whatever the environment says."""

    def send(self, *args: Any, **options: Any) -> requests.Response:
        return super().send(*args, **{**options, "proxies": {}})


def session(environ: Mapping[str, str]) -> requests.Session:
    """For tokens: the metadata server is asked directly, others as the environment
    says."""
    session = requests.Session()
    variables = (*HOST_VARIABLES, ADDRESS_VARIABLE)
    others = [environ[name] for name in variables if environ.get(name)]
    for host in (*HOSTS, *others):
        session.mount(f"http://{host}/", _Direct())
    return session


def _options(address: str) -> list[tuple[str, int]]:
    host = urlsplit(f"//{address}").hostname or ""
    # A proxy's loopback is another machine's.
    proxies = int(not Target("", host, 0).is_loopback)
    # By default it waits two minutes before it tries a service that was away again.
    return [
        ("grpc.enable_http_proxy", proxies),
        ("grpc.max_reconnect_backoff_ms", _LONGEST_BACKOFF),
        ("grpc.max_metadata_size", _LARGEST_HEADERS),
        ("grpc.absolute_max_metadata_size", _LARGEST_HEADERS),
    ]


_WHO = ClientInfo(user_agent=f"capacity-sidecar/{__version__}")  # type: ignore[no-untyped-call]
