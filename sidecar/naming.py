"""Who is who: the labels of the workers that one process watches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from sidecar import tag
from sidecar.reading import Identity
from sidecar.settings import Settings
from sidecar.target import Target


def identities(
    workers: Sequence[tuple[Target, str]], settings: Settings, hostname: str
) -> list[Identity]:
    """An identity for each (target, model name), in their order, no two alike."""
    names = _worker_names([target for target, _ in workers], settings, hostname)
    models = list(dict.fromkeys(model for _, model in workers))
    explicit = settings.tag or settings.model_identifier
    tags = tag.distinct(models)
    labels = tuple(settings.labels.items())
    return [
        Identity(explicit or tags[model], model, name, labels)
        for (_, model), name in zip(workers, names, strict=True)
    ]


def _worker_names(
    targets: Sequence[Target], settings: Settings, hostname: str
) -> list[str]:
    """The setting, else host name and port: the same after a restart."""
    if settings.worker and len(targets) == 1:
        return [settings.worker]
    names = []
    for target in targets:
        host = settings.worker or (hostname if target.is_loopback else target.host)
        names.append(f"{host}:{target.port}")
    counts = Counter(names)
    with_path = [
        f"{name}{target.path or ''}" if counts[name] > 1 else name
        for name, target in zip(names, targets, strict=True)
    ]
    # Several loopback addresses are several workers on one host.
    counts = Counter(with_path)
    return [
        f"{target.host}/{name}" if counts[name] > 1 else name
        for name, target in zip(with_path, targets, strict=True)
    ]
