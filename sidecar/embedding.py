"""The sidecar on a thread of the process that runs the worker."""

from __future__ import annotations

import atexit
import threading
import weakref
from typing import Any

from sidecar import environment, log
from sidecar.errors import SettingsError
from sidecar.service import Service

ON_DEMAND = "off"
"""No page of its own unless asked for: a second one would not find its port free."""


class Attachment:
    """A running sidecar in this process; nothing when the sidecar is disabled.

    Holds no reference to the server: it goes when the server goes.
    """

    def __init__(self, service: Service | None) -> None:
        self._ended = threading.Event()
        self._asked = threading.Event()
        self._service = service
        self._thread: threading.Thread | None = None
        if service is None:
            self._ended.set()
            return
        self._thread = threading.Thread(
            target=self._run, args=[service], name="sidecar", daemon=True
        )
        self._thread.start()
        atexit.register(self.stop)

    @property
    def is_running(self) -> bool:
        """Whether it still polls."""
        return not self._ended.is_set()

    @property
    def url(self) -> str | None:
        """Its own page, where ``listen`` was set."""
        server = self._service.server if self._service else None
        return server.url if server else None

    def detach(self) -> None:
        """Retire the series and end, without waiting for it."""
        self._asked.set()

    def stop(self, timeout: float = 5.0) -> None:
        """Retire the series and end; safe twice."""
        self.detach()
        self._ended.wait(timeout)

    def _run(self, service: Service) -> None:
        service.start()
        self._asked.wait()
        service.stop()
        self._ended.set()
        atexit.unregister(self.stop)


def attach(server: object, *, url: str, **settings: Any) -> Attachment:
    """See ``sidecar.attach``."""
    if "targets" in settings:
        msg = "attach(targets=…): the worker is given by url"
        raise SettingsError(msg)
    loaded = environment.load(targets=(url,), **{"listen": ON_DEMAND, **settings})
    if not loaded.settings.enabled:
        return Attachment(None)
    try:
        weakref.ref(server)
    except TypeError:
        kind = type(server).__name__
        msg = f"attach(server=…): a {kind} cannot be referenced weakly; pass the object"
        raise SettingsError(f"{msg} that owns the server process") from None
    attachment = Attachment(Service(loaded.settings, log.logger(loaded.settings)))
    weakref.finalize(server, attachment.detach).atexit = False
    return attachment
