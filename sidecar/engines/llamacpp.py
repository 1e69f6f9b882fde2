"""llama.cpp's server: recognised, but it counts no finished requests."""

from __future__ import annotations

from sidecar.engines.base import Engine

ENGINE = Engine(
    name="llamacpp",
    prefixes=("llamacpp:", "llamacpp_"),
    finished=(),
    running=("requests_processing",),
    waiting=("requests_deferred",),
)
