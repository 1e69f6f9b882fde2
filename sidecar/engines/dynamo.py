"""A Dynamo worker: vLLM's families on the system port, beside Dynamo's own.

Dynamo's families (``dynamo_component_*``) count the same requests again and are never
read. Its mocker has no counter of finished requests; the count of its latency
histogram stands in. The ``worker_id`` is new at every start, so it must not tell
series apart: the restart would look like new series instead of a reset.
"""

from __future__ import annotations

from dataclasses import replace

from sidecar.engines.vllm import ENGINE as VLLM

ENGINE = replace(
    VLLM,
    name="dynamo",
    prefixes=("vllm:",),
    finished=(*VLLM.finished, "e2e_request_latency_seconds_count"),
    markers=("dynamo_component_",),
    copies=frozenset({"pid", "worker_id"}),
)
