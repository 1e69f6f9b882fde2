"""What was learned, in a file: it survives a restart, and starts a new replica.

One entry for each estimator, engine, model and KV cache: what is learned of one holds
for another of the same. A file that cannot be used is set aside with one warning, one
of a newer release is left alone, and one that cannot be written costs a warning: the
file is a help, never a need.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from math import isfinite
from pathlib import Path
from stat import S_ISREG
from tempfile import NamedTemporaryFile
from typing import Any

from sidecar.estimators.base import Lasting, Learning
from sidecar.log import Changes
from sidecar.sample import Sample

VERSION = 1
"""Of the file; a state goes there by the order of its fields, and another order is
another version. What such wrote says nothing here; a later one is left alone, for in a
rolling upgrade its release runs beside this one."""

WRITE_EVERY = 60.0
"""Seconds."""

MOST_ENTRIES = 64
"""The oldest are dropped."""

LARGEST = 10_000_000
"""Bytes; what is larger is not ours."""


class Memory:
    """The file of what was learned.

    Args:
        clock, wall: monotonic and Unix time.
    """

    def __init__(
        self,
        path: Path,
        name: str,
        changes: Changes,
        *,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        # Where a link points to is what lasts, not the link.
        self.path = Path(os.path.realpath(path))
        self._given = path
        self._is_ours = True
        self._name = name
        self._changes = changes
        self._clock = clock
        self._wall = wall
        self._write_at = clock() + WRITE_EVERY
        self._entries = self._read()
        if reason := obstacle(path):
            self._warn(reason)

    def recall(self, estimator: Any, sample: Sample) -> Learning[Any] | None:
        """What was learned of such a worker; None where nothing was."""
        entry = self._entries.get(self._key(sample))
        if entry is None or not isinstance(estimator, Lasting):
            return None
        try:
            state = estimator.from_json(entry["state"])
            return Learning(estimator, state, estimator.estimate(state))
        except _UNUSABLE as error:
            reason = str(error).partition("\n")[0]
            self._warn(f"what it says of {sample.model_name} is not usable: {reason}")
            return None

    def keep(
        self, learned: Iterable[tuple[Sample, Learning[Any]]], *, now: bool = False
    ) -> None:
        """Write what was learned, if that is due.

        Of several workers alike, that with the most evidence is kept.
        """
        if not self._is_ours or (not now and self._clock() < self._write_at):
            return
        self._write_at = self._clock() + WRITE_EVERY
        entries: dict[str, dict[str, Any]] = {}
        for sample, each in learned:
            if each.estimate is None or not isinstance(each.estimator, Lasting):
                continue
            key, evidence = self._key(sample), each.estimate.evidence
            if key not in entries or entries[key]["evidence"] < evidence:
                entries[key] = {
                    "saved_at": round(self._wall(), 3),
                    "evidence": evidence,
                    "state": each.estimator.to_json(each.state),
                }
        if not entries:
            return
        # Others may write to the same file; what they learned is theirs to change.
        others = self._read()
        if not self._is_ours:
            return
        self._entries = {**others, **entries}
        newest = sorted(self._entries, key=self._saved_at)[-MOST_ENTRIES:]
        self._entries = {key: self._entries[key] for key in newest}
        self._write()

    def _saved_at(self, key: str) -> float:
        at = self._entries[key].get("saved_at")
        return at if isinstance(at, float) else 0.0

    def _key(self, sample: Sample) -> str:
        cache = (
            f"{sample.kv_tokens:.0f} KV tokens" if sample.kv_tokens else "KV unknown"
        )
        return f"{self._name} | {sample.engine} | {sample.model_name} | {cache}"

    def _read(self) -> dict[str, dict[str, Any]]:
        try:
            about = self.path.stat()
            if not S_ISREG(about.st_mode):
                self._is_ours = False
                self._warn("it is no regular file; nothing is kept")
                return {}
            if about.st_size > LARGEST:
                return self._set_aside(f"it is larger than {LARGEST} bytes")
            text = self.path.read_text("utf-8")
        except FileNotFoundError:
            return {}
        except UnicodeDecodeError:
            return self._set_aside("it is not text")
        except OSError as error:
            self._warn(f"it cannot be read: {error.strerror}")
            return {}
        try:
            data = json.loads(text, parse_constant=_refuse, parse_float=_finite)
            version, learned = data["version"], data["learned"]
            if isinstance(version, int) and version > VERSION:
                self._is_ours = False
                self._warn(
                    "a newer release wrote it; it is left alone, nothing is kept"
                )
                return {}
            if version != VERSION:
                return self._set_aside(f"it has version {version!r}, not {VERSION}")
            return {str(key): dict(entry) for key, entry in learned.items()}
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return self._set_aside("it is no file of what was learned")

    def _write(self) -> None:
        text = json.dumps({"version": VERSION, "learned": self._entries})
        beside = None
        try:
            # Another process, in another container, may have the same number as this.
            with NamedTemporaryFile(
                "w",
                encoding="utf-8",
                dir=self.path.parent,
                prefix=f".{self.path.name}.",
                delete=False,
            ) as file:
                beside = Path(file.name)
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            beside.replace(self.path)
        except OSError as error:
            if beside:
                with suppress(OSError):
                    beside.unlink()
            self._warn(f"it cannot be written: {error.strerror}")
        else:
            self._changes.forget(str(self.path))

    def _set_aside(self, reason: str) -> dict[str, dict[str, Any]]:
        aside = self.path.with_name(self.path.name + ".unusable")
        try:
            self.path.replace(aside)
        except OSError as error:
            self._warn(f"{reason}, and it cannot be set aside: {error.strerror}")
        else:
            self._warn(f"{reason}; it is now {aside.name}, and learning begins anew")
        return {}

    def _warn(self, reason: str) -> None:
        text = f"SIDECAR_STATE_FILE={self._given}: {reason}"
        self._changes.say(str(self.path), reason, "warning", text)


def obstacle(path: Path) -> str | None:
    """Why nothing can be kept there, as far as can be told before it is tried."""
    folder = os.path.dirname(os.path.realpath(path))
    if os.access(folder, os.W_OK | os.X_OK):
        return None
    return f"{folder} cannot be written to: what is learned is lost at the end"


_UNUSABLE = (ValueError, LookupError, TypeError, ArithmeticError, RecursionError)
"""What a damaged entry may raise, wherever the damage shows."""


def _refuse(constant: str) -> float:
    raise ValueError(constant)


def _finite(text: str) -> float:
    number = float(text)
    if not isfinite(number):
        raise ValueError(text)
    return number
