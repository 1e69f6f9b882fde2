"""Settings from environment variables: where each came from, and what is wrong."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel, SecretStr, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from sidecar.errors import SettingsError
from sidecar.settings import PREFIX, Settings

_SERVICE_LINK = re.compile(
    rf"{PREFIX}(?:\w+_)?(?:SERVICE_(?:HOST|PORT(?:_\w+)?)"
    r"|PORT_\d+_(?:TCP|UDP|SCTP)(?:_(?:PROTO|PORT|ADDR))?)"
)
_SERVICE_URL = re.compile(r"(?:tcp|udp|sctp)://")
_ALIKE = 0.35
_USERINFO = re.compile(r"//[^\n\"]*@")
_BEFORE_AT = re.compile(r"(?<!\S)\S+@")


@dataclass(frozen=True)
class Variable:
    """One environment variable and the field it sets."""

    name: str
    path: tuple[str, ...]
    field: FieldInfo

    @property
    def is_secret(self) -> bool:
        """Whether the value must never be shown, and may come from a file."""
        return SecretStr in (self.field.annotation, *get_args(self.field.annotation))


@dataclass(frozen=True)
class Loaded:
    """Valid settings, and the origin of each one that is not its default."""

    settings: Settings
    origins: Mapping[str, str]


def variables(model: type[BaseModel] = Settings, *path: str) -> Iterator[Variable]:
    """All variables, in the order of the fields."""
    for name, field in model.model_fields.items():
        here = (*path, name)
        if isinstance(field.annotation, type) and issubclass(
            field.annotation, BaseModel
        ):
            yield from variables(field.annotation, *here)
        else:
            yield Variable(PREFIX + "_".join(here).upper(), here, field)


def load(environ: Mapping[str, str] | None = None, **arguments: Any) -> Loaded:
    """The settings from the environment; arguments (by field name) win over it.

    Surrounding blanks and quotes are dropped, an empty value counts as unset, and what
    Kubernetes injects for a Service called ``sidecar…`` is ignored. A secret may come
    from a file: ``SIDECAR_BEARER_TOKEN_FILE``; or from a credential of systemd's that
    has the variable's name.

    Raises:
        SettingsError: with a sentence for every problem, not just the first.
    """
    environ = os.environ if environ is None else environ
    known = {variable.name: variable for variable in variables()}
    environ = {**dict(_credentials(environ, known.values())), **environ}
    problems: list[str] = []
    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    for name in sorted(environ):
        if not name.startswith(PREFIX) or _is_service_link(name, environ[name]):
            continue
        variable = known.get(name) or known.get(name.removesuffix("_FILE"))
        if variable is None or (name not in known and not variable.is_secret):
            problems.append(_unknown(name, list(known)))
            continue
        try:
            value = _value(name, environ[name], variable)
        except SettingsError as error:
            problems += error.problems
            continue
        if value is None:
            continue
        if variable.name in origins:
            problems.append(f"{variable.name} and {variable.name}_FILE are both set")
        origins[variable.name] = name
        _put(values, variable.path, value)
    for argument, value in arguments.items():
        # pushgateway_url="…" is a variable's name, pushgateway={"url": "…"} a model's.
        variable = known.get(PREFIX + argument.upper())
        _put(values, variable.path if variable else (argument,), value)
        origins[PREFIX + argument.upper()] = "argument"
    try:
        settings = Settings(**values)
    except ValidationError as error:
        problems += [_sentence(detail) for detail in error.errors()]
    if problems:
        raise SettingsError(*problems)
    return Loaded(settings, origins)


def _credentials(
    environ: Mapping[str, str], known: Iterable[Variable]
) -> Iterator[tuple[str, str]]:
    """``NAME_FILE`` for each secret that systemd.exec(5), CREDENTIALS, brings.

    A blank one is what the unit falls back to where the operator gave none.
    """
    folder = environ.get("CREDENTIALS_DIRECTORY")
    if not folder:
        return
    for variable in known:
        path = os.path.join(folder, variable.name)
        if variable.is_secret and os.path.isfile(path) and not _is_blank(path):
            yield f"{variable.name}_FILE", path


def _is_blank(path: str) -> bool:
    try:
        return not Path(path).read_bytes().strip()
    except OSError:
        # It is read once more for its value, and the error told then.
        return False


def _is_service_link(name: str, value: str) -> bool:
    if _SERVICE_LINK.fullmatch(name):
        return True
    return name.endswith("_PORT") and bool(_SERVICE_URL.match(value.strip()))


def _value(name: str, raw: str, variable: Variable) -> str | None:
    try:
        raw.encode()
    except UnicodeEncodeError:
        raise SettingsError(f"{name}: the value is not UTF-8 text") from None
    if name != variable.name:
        try:
            secret = Path(raw.strip()).read_text(encoding="utf-8").rstrip("\r\n")
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "not text"
            msg = f"{name}={raw!r}: the file cannot be read: {reason}"
            raise SettingsError(msg) from None
        if not secret:
            raise SettingsError(f"{name}={raw!r}: the file is empty")
        return secret
    if variable.is_secret:
        return raw.rstrip("\r\n") or None
    text = raw.strip()
    # Env files of container engines keep the quotes.
    if len(text) >= 2 and text[0] == text[-1] and text[0] in "\"'":
        text = text[1:-1].strip()
    return text or None


def _put(values: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    for key in path[:-1]:
        values = values.setdefault(key, {})
    before = values.get(path[-1])
    if isinstance(before, dict) and isinstance(value, dict):
        value = {**before, **value}
    values[path[-1]] = value


def _unknown(name: str, known: list[str]) -> str:
    endings = [each.removeprefix(PREFIX) for each in known]
    near = difflib.get_close_matches(
        name.removeprefix(PREFIX), endings, n=1, cutoff=_ALIKE
    )
    hint = f"did you mean {PREFIX}{near[0]}?" if near else "see capacity-sidecar config"
    return f"{name} is not a setting; {hint}"


def _sentence(detail: ErrorDetails) -> str:
    """One problem as a sentence that names the variable, its value and a good one."""
    path = tuple(str(part) for part in detail["loc"] if isinstance(part, str))
    reason = detail["msg"].removeprefix("Value error, ")
    reason = reason.replace("Input should be", "is not").replace(
        "valid boolean, unable to interpret input", "true or false"
    )
    variable = next((v for v in variables() if v.path == path), None)
    if variable is None:
        where = PREFIX + "_".join(path).upper() if path else ""
        if detail["type"] == "extra_forbidden":
            return f"{'.'.join(path)} is not a setting"
        return f"{where} {reason}".strip()
    shown = "***" if variable.is_secret else repr(masked(str(detail["input"])))
    example = _example(variable)
    hint = f"; for example {variable.name}={example}" if example else ""
    return f"{variable.name}={shown} {reason}{hint}"


def _example(variable: Variable) -> str | None:
    if variable.field.examples:
        return str(variable.field.examples[0])
    default = variable.field.default
    return str(default).lower() if isinstance(default, bool) else None


def masked(text: str) -> str:
    """The text with users and passwords hidden, in URLs and in what lacks a scheme."""
    # A password may hold blanks, slashes and signs: hide too much rather than little.
    return _BEFORE_AT.sub(_without_user, _USERINFO.sub("//***@", text))


def _without_user(match: re.Match[str]) -> str:
    return "***@" if ":" in match[0] and "//" not in match[0] else match[0]
