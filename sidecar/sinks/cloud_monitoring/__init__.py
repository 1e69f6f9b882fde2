"""Google Cloud Monitoring: one write for all workers, at its own pace.

A series is a metric type, the resource and the worker's labels, the same after a
restart. A point that was not taken is dropped: the next one is newer, and a backlog is
what quotas are used up by.
"""

from __future__ import annotations

import importlib
import os
import socket
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from sidecar.errors import SettingsError
from sidecar.settings import Settings
from sidecar.sinks.base import Sink

_LIBRARY = "google-cloud-monitoring"
_VERBOSITY = "GRPC_VERBOSITY"


def build(settings: Settings) -> Sink:
    """The sink as configured; nothing is connected yet.

    Raises:
        SettingsError: the client library is not installed, or does not take the labels.
    """
    try:
        with _quiet():
            sink = importlib.import_module(f"{__name__}.sink")
            series = importlib.import_module(f"{__name__}.series")
    except ImportError as error:
        msg = f"the sink cloud_monitoring needs {_LIBRARY} ({error})"
        msg += "; pip install 'capacity-sidecar[gcp]'"
        raise SettingsError(msg) from None
    series.refuse_labels(settings.labels)
    made: Sink = sink.CloudMonitoringSink(
        settings.cloud_monitoring, os.environ, socket.gethostname()
    )
    return made


@contextmanager
def _quiet() -> Iterator[None]:
    """While the library is imported: its core reads there how much to say on standard
    error, beside our log, and it warns of versions of Python that are not young."""
    told = os.environ.get(_VERBOSITY)
    os.environ[_VERBOSITY] = told or "NONE"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)
            yield
    finally:
        if told is None:
            del os.environ[_VERBOSITY]
        else:
            os.environ[_VERBOSITY] = told
