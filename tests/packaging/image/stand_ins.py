"""Images under public names, of the same programs out of Debian."""

from __future__ import annotations

import json

from tests.packaging.debian_tree import tree
from tests.packaging.image.engine import buildah

_PACKAGES = ("busybox-static", "prometheus", "prometheus-pushgateway")
_PROGRAMS = {
    "prom/prometheus": (
        "prometheus",
        "--config.file=/etc/prometheus/prometheus.yml",
        "--storage.tsdb.path=/prometheus",
    ),
    "prom/pushgateway": ("prometheus-pushgateway",),
}


def stand_in(name: str) -> None:
    """Make the image of that name and version, once."""
    if buildah("images", "--quiet", "--filter", f"reference={name}"):
        return
    program, *arguments = _PROGRAMS[name.partition(":")[0]]
    container = buildah("from", "scratch").strip()
    buildah("copy", container, str(tree(_PACKAGES)), "/")
    # The public images have busybox's.
    wget = ("ln", "--symbolic", "/bin/busybox", "/usr/bin/wget")
    buildah("run", "--isolation=chroot", container, "--", *wget)
    entrypoint = json.dumps([f"/usr/bin/{program}"])
    buildah("config", "--entrypoint", entrypoint, container)
    buildah("config", "--cmd", json.dumps(arguments), container)
    buildah("commit", "--rm", container, name)
