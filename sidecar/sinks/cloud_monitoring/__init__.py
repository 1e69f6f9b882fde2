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

from sidecar.errors import SettingsError
from sidecar.settings import Settings
from sidecar.sinks.base import Sink

_LIBRARY = "google-cloud-monitoring"


def build(settings: Settings) -> Sink:
    """The sink as configured; nothing is connected yet.

    Raises:
        SettingsError: the client library is not installed.
    """
    # Its core logs to standard error, beside our own log.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    try:
        with warnings.catch_warnings():
            # It warns of versions of Python that it will not support for ever.
            warnings.simplefilter("ignore", FutureWarning)
            module = importlib.import_module(f"{__name__}.sink")
    except ImportError as error:
        msg = f"the sink cloud_monitoring needs {_LIBRARY} ({error})"
        msg += "; pip install 'capacity-sidecar[gcp]'"
        raise SettingsError(msg) from None
    sink: Sink = module.CloudMonitoringSink(
        settings.cloud_monitoring, os.environ, socket.gethostname()
    )
    return sink
