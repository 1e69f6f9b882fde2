"""HTTP as the tests need it: no proxies, no waiting without end."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from http import HTTPStatus
from typing import Any, NamedTuple
from urllib.parse import urlencode

from prometheus_client.parser import text_string_to_metric_families

_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))
SLOWEST = 5.0


class Sample(NamedTuple):
    """One line of a metrics page."""

    name: str
    labels: dict[str, str]
    value: float


def fetch(url: str, method: str = "GET", body: bytes | None = None) -> str:
    """Return the body of an answer of status 2xx.

    Raises:
        OSError: there is no such answer.
    """
    request = urllib.request.Request(url, body, method=method)
    with _OPENER.open(request, timeout=SLOWEST) as answer:
        text: bytes = answer.read()
    return text.decode()


def answers(url: str) -> bool:
    """Whether the URL gives an answer of status 2xx, or asks for a password."""
    try:
        fetch(url)
    except urllib.error.HTTPError as error:
        error.close()
        return error.code == HTTPStatus.UNAUTHORIZED
    except OSError:
        return False
    return True


def fetch_json(url: str, **query: str) -> Any:
    """Return the JSON document at the URL."""
    return json.loads(fetch(f"{url}?{urlencode(query)}" if query else url))


def samples(page: str) -> Iterator[Sample]:
    """Every sample of a page in the text format."""
    for family in text_string_to_metric_families(page):
        for sample in family.samples:
            yield Sample(sample.name, dict(sample.labels), float(sample.value))
