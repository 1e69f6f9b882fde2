"""The series that the sidecars wrote, as the autoscalers' readers group them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import takewhile

from tests.gcp.series import Accepted

Series = Sequence[tuple[float, float]]
"""End time (Unix seconds) and value of each point, oldest first."""

UTILIZATION = "custom.googleapis.com/llm_worker_utilization"


def by_resource(
    accepted: Accepted,
    metric_type: str,
    resource_type: str,
    label: str,
    since: float,
) -> dict[str, list[Series]]:
    """The points of a metric after a time, by one label of the resource it is about."""
    found: dict[str, list[Series]] = defaultdict(list)
    for key, points in accepted.items():
        if (key.metric_type, key.resource_type) == (metric_type, resource_type):
            newest = takewhile(lambda point: point.end_time > since, reversed(points))
            recent = [(point.end_time, point.value) for point in newest]
            found[dict(key.resource_labels)[label]].append(recent[::-1])
    return found
