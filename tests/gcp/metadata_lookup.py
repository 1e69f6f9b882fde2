"""What a path of the metadata server gives, service accounts' tokens aside."""

from __future__ import annotations

import json
from collections.abc import Mapping
from http import HTTPStatus
from typing import NamedTuple

from tests.gcp import metadata_tree as tree

ROOT = "/computeMetadata/v1/"

TEXT = "application/text"
JSON = "application/json"
_HTML = "text/html; charset=UTF-8"


class Answer(NamedTuple):
    """What a client gets.

    Attributes:
        kind: its content type.
        location: where it is sent instead.
    """

    status: int
    kind: str
    text: str
    location: str | None = None


def page(status: HTTPStatus) -> Answer:
    """An error page."""
    title = f"Error {status.value} ({status.phrase})!!1"
    return Answer(status, _HTML, f"<!DOCTYPE html>\n<title>{title}</title>\n")


def look_up(
    values: Mapping[str, str], path: str, query: Mapping[str, list[str]], host: str
) -> Answer:
    """A value as text or, with ``alt=json``, as JSON; a directory's entries or, with
    ``recursive=true``, all below it as JSON; a redirect to it if its slash is missing.

    Args:
        path: under ``ROOT``.
        query: the parameters, each with its values.
        host: the server's, with port.
    """
    if path in values:
        if query.get("alt") != ["json"]:
            return Answer(200, TEXT, values[path])
        name = path.rpartition("/")[2]
        return Answer(200, JSON, json.dumps(tree.leaf(name, values[path])))
    directory = f"{path.rstrip('/')}/" if path else ""
    inside = tree.below(values, directory)
    if not inside:
        return page(HTTPStatus.NOT_FOUND)
    if path != directory:
        moved = f"http://{host}{ROOT}{directory}"
        return Answer(HTTPStatus.MOVED_PERMANENTLY, _HTML, "", moved)
    if query.get("recursive") == ["true"]:
        return Answer(200, JSON, json.dumps(tree.as_json(inside, directory)))
    return Answer(200, TEXT, tree.listing(inside))
