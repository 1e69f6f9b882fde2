"""The Prometheus Pushgateway: one group a worker, replaced by every push.

The group is ``job`` / ``tag`` / ``worker``, so that no two workers overwrite each other
and a restart finds its own group again. The gateway never forgets a group by itself:
it is deleted when the worker is retired. Protocol: the README of
github.com/prometheus/pushgateway.
"""

from __future__ import annotations

import time
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from http import HTTPStatus
from typing import TypeVar
from urllib.parse import quote, urlsplit

import requests
from requests.auth import HTTPBasicAuth

from sidecar.errors import SettingsError, SinkError
from sidecar.reading import Gauge, Identity, Reading, gauges
from sidecar.settings import Settings
from sidecar.sink_settings import PushgatewaySettings
from sidecar.sinks.families import text
from sidecar.target import Target

T = TypeVar("T")

_TAKEN = frozenset({HTTPStatus.OK, HTTPStatus.ACCEPTED})
_CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_EXCERPT = 1000


class PushgatewaySink:
    """Pushes over one kept connection, a PUT for each worker."""

    name = "pushgateway"

    def __init__(self, url: str, settings: PushgatewaySettings) -> None:
        self.interval = settings.interval
        self._url = url
        self._job = settings.job
        self._timeout = settings.timeout
        self._session = requests.Session()
        self._secrets: tuple[str, ...] = ()
        if settings.username and settings.password:
            user, password = settings.username, settings.password.get_secret_value()
            # requests itself would encode them in Latin-1, and fail for the rest.
            self._session.auth = HTTPBasicAuth(user.encode(), password.encode())
            pair = b64encode(f"{user}:{password}".encode()).decode()
            self._secrets = (pair, password)
        if settings.bearer_token:
            token = settings.bearer_token.get_secret_value()
            self._session.headers["Authorization"] = f"Bearer {token}"
            self._secrets = (token,)
        host = urlsplit(url).hostname or ""
        # Proxies of the environment are for hosts elsewhere.
        if Target("http", host, 0).is_loopback:
            self._session.trust_env = False

    def check(self) -> str:
        """Ask the gateway whether it is ready."""
        self._send("GET", f"{self._url}/-/ready")
        return f"{self._url} is ready"

    def publish(self, readings: Sequence[Reading]) -> None:
        """Replace the group of each worker.

        Raises:
            SinkError: one or more groups were refused, or the gateway is away.
        """
        _each(readings, self._push)

    def retire(self, identities: Sequence[Identity]) -> None:
        """Delete the groups; the gateway takes that for unknown ones too.

        Raises:
            SinkError: one or more were not deleted, or the gateway is away.
        """
        _each(identities, self._delete)

    def close(self) -> None:
        """End the kept connection."""
        self._session.close()

    def _push(self, reading: Reading) -> None:
        group = self._group(reading.identity)
        body = text(_without(group, gauge) for gauge in gauges(reading))
        self._send("PUT", self._url + path(group), body)

    def _delete(self, identity: Identity) -> None:
        self._send("DELETE", self._url + path(self._group(identity)))

    def _group(self, identity: Identity) -> dict[str, str]:
        return {"job": self._job, "tag": identity.tag, "worker": identity.worker}

    def _send(self, method: str, url: str, body: bytes | None = None) -> None:
        try:
            answer = self._session.request(
                method,
                url,
                data=body,
                headers={"Content-Type": _CONTENT_TYPE} if body is not None else None,
                timeout=self._timeout,
                # A redirected PUT would turn into a GET.
                allow_redirects=False,
                stream=True,
            )
        except requests.RequestException as error:
            msg = f"{self._url} does not answer: {_root(error)}"
            raise SinkError(msg, reason="unreachable") from None
        with answer:
            said = self._body(answer)
        if answer.status_code in _TAKEN:
            return
        for secret in self._secrets:
            said = said.replace(secret, "***")
        excerpt = " ".join(said.split())
        msg = f"{self._url} answers {answer.status_code} to {method}: {excerpt}"
        if answer.status_code in {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}:
            msg += " (set SIDECAR_PUSHGATEWAY_USERNAME and _PASSWORD, or _BEARER_TOKEN)"
        raise SinkError(msg, reason=f"http_{answer.status_code}")

    def _body(self, answer: requests.Response) -> str:
        """The beginning of the body, read for no longer than the time limit.

        ``requests`` limits the wait for each byte, and keeps a body of any size.
        """
        body, until = b"", time.monotonic() + self._timeout
        try:
            for byte in answer.iter_content(1):
                body += byte
                if len(body) >= _EXCERPT or time.monotonic() > until:
                    break
        except requests.RequestException:
            pass  # what came so far is enough to be shown
        return body.decode("utf-8", "replace")


def _each(items: Iterable[T], send: Callable[[T], None]) -> None:
    """Send all, though one is refused; none after the gateway does not answer."""
    problems: list[SinkError] = []
    for item in items:
        try:
            send(item)
        except SinkError as error:
            problems.append(error)
            if error.reason == "unreachable":
                break
    if problems:
        raise problems[0]


def path(group: Mapping[str, str]) -> str:
    """The group's path: ``/metrics/job/…`` and a pair of segments for each label."""
    return "/metrics/" + "/".join(_segments(*pair) for pair in group.items())


def _segments(label: str, value: str) -> str:
    # A slash cannot be escaped there, an empty or dotted segment would be tidied away.
    if value in {"", ".", ".."} or "/" in value:
        encoded = urlsafe_b64encode(value.encode()).decode() or "="
        return f"{label}@base64/{encoded}"
    return f"{label}/{quote(value, safe='')}"


def _without(group: Mapping[str, str], gauge: Gauge) -> Gauge:
    """The gauge without the group's labels, which the gateway adds itself.

    Raises:
        SinkError: it has another value of such a label, which would be lost silently.
    """
    for name, value in gauge.labels:
        if group.get(name, value) != value:
            msg = f"{gauge.name} has the label {name}={value!r}, but the group has"
            msg = f"{msg} {name}={group[name]!r}; choose another name in SIDECAR_LABELS"
            raise SinkError(msg, reason="label_clash")
    kept = tuple(pair for pair in gauge.labels if pair[0] not in group)
    return replace(gauge, labels=kept)


def _root(error: BaseException) -> BaseException:
    """What really happened, below the layers that wrap it."""
    inner = error.__cause__ or error.__context__
    reason = getattr(error, "reason", None)
    if isinstance(reason, BaseException):
        return _root(reason)
    return _root(inner) if inner is not None else error


def build(settings: Settings) -> PushgatewaySink:
    """The sink as configured.

    Raises:
        SettingsError: no URL is set.
    """
    if settings.pushgateway.url is None:
        msg = "SIDECAR_SINKS names pushgateway, but SIDECAR_PUSHGATEWAY_URL is not set"
        raise SettingsError(f"{msg}; for example http://pushgateway:9091")
    return PushgatewaySink(settings.pushgateway.url, settings.pushgateway)
