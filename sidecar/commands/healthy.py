"""``healthy``: ask the running sidecar's own /healthz, for probes without a shell."""

from __future__ import annotations

import argparse
import os
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException

from sidecar import target
from sidecar.errors import ProbeError, SettingsError
from sidecar.signals import StopRequest

VARIABLE = "SIDECAR_LISTEN"
LIMIT = 2.0
_EVERYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1"}


def configure(parser: argparse.ArgumentParser) -> None:
    """No arguments: the address is the daemon's own setting."""
    del parser


def run(options: argparse.Namespace, stop: StopRequest) -> int:
    """Print the answer; 0 when the loop turns."""
    del options
    stop.uninstall()
    # Not by way of the settings: a probe that loads them takes five times as long.
    listen = os.environ.get(VARIABLE, "").strip().strip("\"'") or target.OWN_PAGE
    if listen == "off":
        print(f"{VARIABLE} is off: there is no page to ask")
        return 0
    try:
        host, port = target.listen_address(listen)
    except ValueError as error:
        raise SettingsError(f"{VARIABLE}={listen!r} {error}") from None
    print(_healthz(_EVERYWHERE.get(host, host), port))
    return 0


def _healthz(host: str, port: int) -> str:
    url = f"http://{target.bracketed(host)}:{port}/healthz"
    # No proxy: HTTPConnection knows of none.
    connection = HTTPConnection(host, port, timeout=LIMIT)
    try:
        connection.request("GET", "/healthz")
        answer = connection.getresponse()
        text = answer.read(1000).decode("utf-8", "replace").strip()
    except (OSError, HTTPException) as error:
        raise ProbeError(f"{url}: {error or type(error).__name__}") from None
    finally:
        connection.close()
    if answer.status != HTTPStatus.OK:
        raise ProbeError(f"{url}: {answer.status}: {text}")
    return f"{url}: {text}"
