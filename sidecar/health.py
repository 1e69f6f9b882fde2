"""What the sidecar's own server answers: health, metrics, status, and a page."""

from __future__ import annotations

import json
import time
from http import HTTPStatus

from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4, generate_latest

from sidecar import status_page
from sidecar.agent import Agent
from sidecar.server import TEXT, Answer, Routes
from sidecar.status import status
from sidecar.telemetry import Telemetry

HTML = "text/html; charset=utf-8"


def routes(agent: Agent, telemetry: Telemetry) -> Routes:
    """The paths of one agent.

    ``/healthz`` is for restarting a sidecar whose loop stands still; a worker that is
    away does not fail it. ``/readyz`` waits for the first reading of a worker.
    """

    def healthz() -> Answer:
        if agent.is_alive:
            return _text(HTTPStatus.OK, "ok")
        return _text(HTTPStatus.SERVICE_UNAVAILABLE, "the loop has not turned lately")

    def readyz() -> Answer:
        if agent.ready:
            return _text(HTTPStatus.OK, "ready")
        return _text(HTTPStatus.SERVICE_UNAVAILABLE, "no worker has been read yet")

    def metrics() -> Answer:
        body = generate_latest(telemetry.registry)
        return HTTPStatus.OK, CONTENT_TYPE_PLAIN_0_0_4, body

    def document() -> Answer:
        body = json.dumps(status(agent, time.monotonic()), indent=1)
        return HTTPStatus.OK, "application/json", f"{body}\n".encode()

    def page() -> Answer:
        body = status_page.render(status(agent, time.monotonic()))
        return HTTPStatus.OK, HTML, body.encode()

    return {
        "/": page,
        "/healthz": healthz,
        "/readyz": readyz,
        "/metrics": metrics,
        "/status": document,
    }


def _text(code: HTTPStatus, body: str) -> Answer:
    return code, TEXT, f"{body}\n".encode()
