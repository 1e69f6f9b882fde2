"""The dialects, and which one a page speaks."""

from __future__ import annotations

from collections.abc import Iterable

from sidecar.engines.base import Engine
from sidecar.errors import NoSamples, NotExposition, PageError, WrongEndpoint
from sidecar.exposition import Page
from sidecar.registry import ENGINES

# What a Python server or a Dynamo worker has, also before its engine is up.
_NEUTRAL = ("python_", "process_", "http_", "dynamo_", "tokio_")


def load(name: str) -> tuple[Engine, ...]:
    """The engines to try: the named one, or all of them for ``auto``."""
    chosen = ENGINES.names() if name == "auto" else [name]
    return tuple(ENGINES.load(each) for each in chosen)


def identify(page: Page, engines: Iterable[Engine]) -> tuple[Engine, str]:
    """The engine whose dialect the page speaks, and the prefix it uses.

    Raises:
        NoSamples: a worker that is still starting, or an empty page.
        WrongEndpoint: the metrics of something else.
        NotExposition: no line of the body is metrics text.
    """
    for engine in engines:
        prefix = engine.prefix_on(page)
        if prefix is not None:
            return engine, prefix
    raise _refusal(page)


def _refusal(page: Page) -> PageError:
    found = page.names()
    if any(name.startswith("dynamo_frontend_") for name in found):
        return WrongEndpoint(
            "this is a Dynamo frontend: its numbers cover all workers of the model, so "
            "every worker beside it would count them again. Set DYN_SYSTEM_PORT on the "
            "worker (8081, say) and SIDECAR_METRICS_PORT to the same port"
        )
    if not found and not page.is_blank and not page.has_comments:
        return NotExposition("the body has no line of Prometheus text")
    if not found:
        return NoSamples("the page is empty: the worker has not exported anything yet")
    if any(name.startswith("dynamo_component_") for name in found):
        return NoSamples(
            "a Dynamo worker whose engine has exported nothing yet: it is still "
            "starting, or a mocker before its first request"
        )
    if all(name.startswith(_NEUTRAL) for name in found):
        return NoSamples(
            "a Python server's page without an engine's metrics: the engine is still "
            "starting, or vLLM runs with --disable-log-stats (remove that flag)"
        )
    kinds = list(dict.fromkeys(name for name in found if not name.startswith(_NEUTRAL)))
    listed = ", ".join(kinds[:4]) + (", …" if len(kinds) > 4 else "")
    return WrongEndpoint(
        f"not a supported worker: the page has {listed}. Point SIDECAR_METRICS_PORT or "
        "SIDECAR_TARGETS at the vLLM API port or the Dynamo worker's system port"
    )
