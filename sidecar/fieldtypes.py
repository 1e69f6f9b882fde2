"""Types of settings: what an operator may write, and what is said when it is wrong."""

from __future__ import annotations

import math
import re
import ssl
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, SecretStr

_DURATION = re.compile(r"(\d+\.?\d*(?:e\d+)?|\.\d+)\s*(ms|s|m|h|)", re.IGNORECASE)
_UNITS = {"ms": 0.001, "": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}
_LABEL_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
LONGEST = 30 * 86400.0
HIGHEST = 1e9
_HEADER_TEXT = re.compile(r"[ -~]*")


def seconds(value: object) -> float:
    """Seconds from ``5``, ``5s``, ``500ms``, ``1m`` or a number.

    Raises:
        ValueError: it is none of these, or not above zero.
    """
    match = _DURATION.fullmatch(str(value).strip())
    number = float(match[1]) * _UNITS[match[2].lower()] if match else math.nan
    if not 0 < number <= LONGEST:
        msg = "is not a duration above zero, at most 30 days; write 5, 5s, 500ms or 1m"
        raise ValueError(msg)
    return number


def _positive(value: object) -> float:
    try:
        number = float(str(value))
    except ValueError:
        number = math.nan
    if not 0 < number <= HIGHEST:
        msg = "is not a number above zero (at most a billion)"
        raise ValueError(msg)
    return number


def port(value: object) -> int:
    """A port from 1 to 65535.

    Raises:
        ValueError: it is none.
    """
    text = str(value).strip()
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= 65535:
        msg = "is not a port from 1 to 65535"
        raise ValueError(msg)
    return int(text)


def _names(value: object) -> Any:
    if not isinstance(value, str):
        return value
    return tuple(part.strip() for part in value.split(",") if part.strip())


def _labels(value: object) -> Any:
    pairs = _pairs(value)
    labels: dict[str, str] = {}
    for name, text in pairs:
        if not text or not _LABEL_NAME.fullmatch(name) or name.startswith("__"):
            msg = f"{name}={text} is not name=value with a name of letters, digits, _"
            raise ValueError(msg)
        if name in labels:
            msg = f"has {name} twice"
            raise ValueError(msg)
        labels[name] = text
    return labels


def _pairs(value: object) -> list[tuple[str, str]]:
    if isinstance(value, dict):
        return [(str(name), str(text)) for name, text in value.items()]
    parts = (part.partition("=") for part in _names(str(value)))
    return [(name.strip(), text.strip()) for name, _, text in parts]


def _http_url(value: str) -> str:
    url = urlsplit(value)
    try:
        usable = url.scheme in {"http", "https"} and bool(url.hostname)
        url.port  # noqa: B018 - raises for a port that is no number
    except ValueError:
        usable = False
    if not usable or url.query or url.fragment or re.search(r"\s", value):
        msg = "is not a plain http:// or https:// URL"
        raise ValueError(msg)
    if url.username is not None or url.password is not None:
        msg = "has a user or password in it; give those by their own settings"
        raise ValueError(msg)
    return value.rstrip("/")


def _token(value: SecretStr | None) -> SecretStr | None:
    if value is not None and not _HEADER_TEXT.fullmatch(value.get_secret_value()):
        msg = "holds a line break or another character that no HTTP header takes"
        raise ValueError(msg)
    return value


def _certificates(value: Path) -> Path:
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(value)
    except ssl.SSLError:
        msg = "holds no certificates in PEM"
        raise ValueError(msg) from None
    except OSError as error:
        msg = f"cannot be read: {error.strerror or error}"
        raise ValueError(msg) from None
    return value


def _own_file(value: Path) -> Path:
    if not value.is_absolute():
        msg = "is not an absolute path"
        raise ValueError(msg)
    try:
        fits = value.parent.is_dir() and (value.is_file() or not value.exists())
    except PermissionError:
        msg = "is where this user may not look"
        raise ValueError(msg) from None
    except OSError:
        fits = False
    if not fits:
        msg = "is not a regular file in a directory that exists"
        raise ValueError(msg)
    return value


Seconds = Annotated[float, BeforeValidator(seconds)]
Positive = Annotated[float, BeforeValidator(_positive)]
Port = Annotated[int, BeforeValidator(port)]
Names = Annotated[tuple[str, ...], BeforeValidator(_names)]
LabelMap = Annotated[dict[str, str], BeforeValidator(_labels)]
HttpUrl = Annotated[str, AfterValidator(_http_url)]
Token = Annotated[SecretStr | None, AfterValidator(_token)]
OwnFile = Annotated[Path, AfterValidator(_own_file)]
CertificateFile = Annotated[Path, AfterValidator(_certificates)]
