"""What the sidecar knows, as one JSON document."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from sidecar import __version__
from sidecar.agent import Agent
from sidecar.sinks.publisher import Publisher
from sidecar.worker import Worker


def status(agent: Agent, now: float) -> dict[str, Any]:
    """The state of the loop, the workers and the sinks.

    Args:
        now: monotonic time, seconds; ages are counted from it.
    """
    return {
        "version": __version__,
        "enabled": agent.settings.enabled,
        "alive": agent.is_alive,
        "ready": agent.ready,
        "multiplier": agent.settings.multiplier,
        "workers": [_worker(worker, now) for worker in list(agent.workers)],
        "sinks": [_sink(publisher, now) for publisher in agent.publishers],
        "discovery": [asdict(verdict) for verdict in agent.discovered.verdicts],
    }


def summary(agent: Agent) -> str:
    """The state of it all in a line, as ``systemctl status`` shows it."""
    if not agent.settings.enabled:
        return "SIDECAR_ENABLED is false: nothing is polled or published"
    if agent.fault:
        return f"a fault in the loop: {type(agent.fault).__name__}, see the log"
    if not agent.workers:
        return "no worker found yet" if agent.discovered.verdicts else "looking"
    parts = [_summary_of(worker) for worker in agent.workers]
    parts += [
        f"cannot publish to {publisher.sink.name}"
        for publisher in agent.publishers
        if publisher.last_error
    ]
    return "; ".join(parts)


def _summary_of(worker: Worker) -> str:
    values = worker.values
    text = f"{worker.target.address} is {worker.state}"
    if worker.error is not None:
        return f"{text}: {worker.error}"
    if values.capacity is not None:
        text += f", capacity {values.capacity:.3g}/s"
    if values.utilization is not None:
        text += f", utilization {values.utilization:.2f}"
    return text


def _worker(worker: Worker, now: float) -> dict[str, Any]:
    identity, estimate = worker.identity, worker.pipeline.estimate
    return {
        "target": worker.target.url,
        "found": worker.target.origin,
        "worker": identity and identity.worker,
        "tag": identity and identity.tag,
        "model_name": worker.sample and worker.sample.model_name,
        "engine": worker.sample and worker.sample.engine,
        **asdict(worker.values),
        "state": str(worker.state),
        "limited_by": estimate and estimate.limited_by,
        "method": estimate and estimate.method,
        "evidence": estimate and estimate.evidence,
        "error": worker.error and str(worker.error),
        "last_success_age": _age(worker.last_success, now),
    }


def _sink(publisher: Publisher, now: float) -> dict[str, Any]:
    return {
        "sink": publisher.sink.name,
        "error": publisher.last_error,
        "last_success_age": _age(publisher.last_success, now),
    }


def _age(then: float | None, now: float) -> float | None:
    return None if then is None else round(now - then, 3)
