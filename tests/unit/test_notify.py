"""What systemd is told, read from a socket like its own."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from sidecar.errors import SettingsError
from sidecar.notify import LONGEST_STATUS, ServiceManager

PID = 42
WATCHED = {"WATCHDOG_USEC": "60000000", "WATCHDOG_PID": str(PID)}


class Listener:
    """A datagram socket, as systemd has one."""

    def __init__(self, address: str) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(address)
        self._socket.setblocking(False)

    def heard(self) -> list[list[str]]:
        """The lines of every message since the last call."""
        messages = []
        while True:
            try:
                messages.append(self._socket.recv(4096).decode().splitlines())
            except BlockingIOError:
                return messages

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "notify")


@pytest.fixture
def listener(path: str) -> Iterator[Listener]:
    listener = Listener(path)
    yield listener
    listener.close()


def manager(path: str, **environ: str) -> ServiceManager:
    return ServiceManager({"NOTIFY_SOCKET": path, **environ}, PID)


class TestBeat:
    def test_the_first_is_readiness(self, path: str, listener: Listener) -> None:
        one = manager(path)

        one.beat("no worker found yet")
        one.beat("serving")

        assert listener.heard() == [
            ["READY=1", "STATUS=no worker found yet"],
            ["STATUS=serving"],
        ]

    def test_the_same_again_is_not_told(self, path: str, listener: Listener) -> None:
        one = manager(path)

        one.beat("serving")
        one.beat("serving")

        assert len(listener.heard()) == 1

    def test_each_feeds_the_watchdog(self, path: str, listener: Listener) -> None:
        one = manager(path, **WATCHED)

        one.beat("serving")
        one.beat("serving")

        assert [message[-1] for message in listener.heard()] == ["WATCHDOG=1"] * 2
        assert one.watchdog == 60
        assert one.beat_interval == 30

    @pytest.mark.parametrize(
        "environ",
        [
            {},
            {"WATCHDOG_USEC": "60000000", "WATCHDOG_PID": "43"},
            {"WATCHDOG_USEC": "0"},
            {"WATCHDOG_USEC": "soon"},
        ],
    )
    def test_no_watchdog_of_ours(
        self, path: str, listener: Listener, environ: dict[str, str]
    ) -> None:
        one = manager(path, **environ)

        one.beat("serving")

        assert listener.heard() == [["READY=1", "STATUS=serving"]]
        assert one.beat_interval is None


class TestAddress:
    def test_an_abstract_socket(self) -> None:
        listener = Listener("\0capacity-sidecar-test")

        manager("@capacity-sidecar-test").stopping()

        assert listener.heard() == [["STOPPING=1", "STATUS=stopping"]]
        listener.close()

    @pytest.mark.parametrize("address", ["", "vsock:2:1234", "/nonexistent/notify"])
    def test_nobody_listens(self, address: str) -> None:
        one = manager(address, **WATCHED)

        one.beat("serving")
        one.stopping()

    def test_a_manager_that_does_not_read_delays_nothing(
        self, path: str, listener: Listener
    ) -> None:
        one = manager(path, **WATCHED)

        for _ in range(5000):
            one.beat("serving")

        assert 0 < len(listener.heard()) < 5000

    def test_what_a_busy_manager_did_not_take_is_told_again(
        self, path: str, listener: Listener
    ) -> None:
        busy = manager(path, **WATCHED)
        for _ in range(5000):
            busy.beat("serving")
        one = manager(path)
        one.beat("serving")
        listener.heard()

        one.beat("serving")

        assert listener.heard() == [["READY=1", "STATUS=serving"]]


class TestStatus:
    @pytest.mark.parametrize("text", ["é" * 5000, "x" * 5000])
    def test_a_long_one_is_cut(self, path: str, listener: Listener, text: str) -> None:
        """systemd drops what is over 4096 bytes, with the readiness in it."""
        manager(path, **WATCHED).beat(text)

        (message,) = listener.heard()
        assert message[0] == "READY=1"
        assert message[1].startswith(f"STATUS={text[:400]}")
        assert message[1].endswith("…")
        assert len(message[1].encode()) < LONGEST_STATUS + 20
        assert message[2] == "WATCHDOG=1"

    def test_what_is_no_text_is_no_fault(self, path: str, listener: Listener) -> None:
        manager(path).beat("a \udc80 b")

        assert listener.heard() == [["READY=1", "STATUS=a ? b"]]

    def test_the_last_is_that_it_stops(self, path: str, listener: Listener) -> None:
        one = manager(path)

        one.stopping()
        one.beat("unreachable: the read was stopped")

        assert listener.heard() == [["STOPPING=1", "STATUS=stopping"]]


class TestAWrongSetting:
    def test_is_the_status_that_is_left(self, path: str, listener: Listener) -> None:
        one = manager(path)

        with pytest.raises(SettingsError), one.told_what_is_wrong():
            raise SettingsError("SIDECAR_TAG is wrong", "SIDECAR_LISTEN is wrong")

        assert listener.heard() == [
            ["STATUS=SIDECAR_TAG is wrong; SIDECAR_LISTEN is wrong"]
        ]
