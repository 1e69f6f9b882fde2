"""The metadata server of Google's machines and clusters: what a worker is part of.

Paths and header: cloud.google.com/compute/docs/metadata.
"""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus

import requests

from sidecar.errors import SinkError

HOST = "metadata.google.internal"
HOSTS = (HOST, "169.254.169.254", "[fd20:ce::254]")
"""All names of the server; a proxy must see none of them."""

HOST_VARIABLES = ("GCE_METADATA_HOST", "GCE_METADATA_ROOT")
"""Google's own variables for another host, as its client libraries know them."""

ADDRESS_VARIABLE = "GCE_METADATA_IP"
"""Which those use to see whether it is there."""

_HEADERS = {"Metadata-Flavor": "Google"}
_WITHIN = (2.0, 5.0)
"""Seconds to connect, and to wait for a byte: as OpenTelemetry's detector."""


class MetadataServer:
    """Reads single values; never through a proxy.

    Args:
        environ: where another host may be set, as for Google's own libraries.
    """

    def __init__(self, environ: Mapping[str, str]) -> None:
        named = [environ[name] for name in HOST_VARIABLES if environ.get(name)]
        self.is_set = bool(named)
        self.host = named[0] if named else HOST
        self._session = requests.Session()
        self._session.trust_env = False
        self._session.headers.update(_HEADERS)

    def read(self, path: str) -> str | None:
        """The value at ``path`` below ``computeMetadata/v1/``; None: it has none.

        Raises:
            SinkError: the server does not answer, or it is another server.
        """
        url = f"http://{self.host}/computeMetadata/v1/{path}"
        try:
            answer = self._session.get(url, timeout=_WITHIN, allow_redirects=False)
        except requests.Timeout:
            raise _away(self.host, "too slow") from None
        except (requests.RequestException, ValueError):
            # A host that is none is a ValueError of a library below.
            raise _away(self.host, "no connection") from None
        # Forbidden: of a cluster that hides its nodes' values from its pods.
        if answer.status_code in {HTTPStatus.NOT_FOUND, HTTPStatus.FORBIDDEN}:
            return None
        if answer.status_code != HTTPStatus.OK:
            raise _away(self.host, f"status {answer.status_code}")
        if answer.headers.get("Metadata-Flavor") != "Google":
            raise _away(self.host, "it is another server")
        return answer.text.strip() or None


def _away(host: str, why: str) -> SinkError:
    msg = f"the metadata server {host} does not answer ({why}); asked again"
    return SinkError(msg, reason="metadata")
