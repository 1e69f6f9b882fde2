"""capacity-sidecar: how many requests per second an LLM worker can sustain."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sidecar.embedding import Attachment

__version__ = "0.1.0"
__all__ = ["__version__", "attach"]


def attach(server: object, *, url: str, **settings: Any) -> Attachment:
    """Run the sidecar on a thread of this process, for as long as ``server`` lives.

    Args:
        server: the object whose life the sidecar follows. Only a weak reference is
            kept: when it is collected, the series are retired and the thread ends.
        url: the worker's metrics page, as in ``SIDECAR_TARGETS``.
        settings: settings by their lower-case names (``poll_interval="2s"``); they
            win over the environment.

    Raises:
        SettingsError: a setting cannot be used.
    """
    # Imported here: the command must install its signal handlers first.
    from sidecar.embedding import attach as _attach

    return _attach(server, url=url, **settings)
