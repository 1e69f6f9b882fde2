"""TensorRT-LLM, at ``/prometheus/metrics``; early releases print no prefix."""

from __future__ import annotations

from sidecar.engines.base import Engine

ENGINE = Engine(
    name="trtllm",
    prefixes=("trtllm_", ""),
    finished=("request_success_total",),
    running=("num_requests_running",),
    waiting=("num_requests_waiting",),
)
