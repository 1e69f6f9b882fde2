"""A machine for all tests of the service, with a worker and a Pushgateway."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.packaging.deb import built
from tests.packaging.machine import Machine
from tests.packaging.systemd.service import Service, copied, start_beside
from tests.process.debian import binary

HERE = Path(__file__).parent
PACKAGES = ["dbus", "python3", "systemd", "systemd-sysv"]
GATEWAY_PORT = 9091

VLLM = """\
#!/usr/bin/python3
# A simulated worker with a command line as vLLM's in the process table.
import sys
sys.path.insert(0, "/usr/lib/capacity-sidecar")
from sidecar.__main__ import main
sys.argv[1:] = ["simulate", "--port", sys.argv[sys.argv.index("--port") + 1]]
sys.exit(main())
"""
SERVE = "/usr/local/bin/vllm serve demo/llama-tiny --port 8000 --max-num-seqs 32"


@pytest.fixture(scope="session")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """With the package, and a worker, a Pushgateway and a guarded page beside it."""
    gateway = binary("prometheus-pushgateway", "prometheus-pushgateway")
    machine = Machine(tmp_path_factory.mktemp("machine"), PACKAGES)
    machine.boot()
    try:
        machine.install(built.package())
        machine.write("/usr/local/bin/vllm", VLLM, 0o755)
        start_beside(machine, "vllm", SERVE, user="daemon")
        listen = f"--web.listen-address=127.0.0.1:{GATEWAY_PORT}"
        start_beside(machine, "pushgateway", f"{copied(machine, gateway)} {listen}")
        machine.write("/usr/local/lib/guarded.py", (HERE / "guarded.py").read_text())
        start_beside(machine, "guarded", "/usr/bin/python3 /usr/local/lib/guarded.py")
        add_estimator(machine)
        yield machine
    finally:
        machine.off()


def add_estimator(machine: Machine) -> None:
    """Put the one that hangs where an operator's own packages go."""
    tree = "/usr/local/lib/capacity-sidecar"
    machine.write(f"{tree}/hanging.py", (HERE / "hanging.py").read_text("utf-8"))
    info = f"{tree}/hanging-1.dist-info"
    named = "Metadata-Version: 2.1\nName: hanging\nVersion: 1\n"
    machine.write(f"{info}/METADATA", named)
    points = "[sidecar.estimators]\nhanging = hanging:build\n"
    machine.write(f"{info}/entry_points.txt", points)


@pytest.fixture
def service(machine: Machine) -> Service:
    """The unit as it is; a test restarts it with the settings that it wants."""
    return Service(machine)
