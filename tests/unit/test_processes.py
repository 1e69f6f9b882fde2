from __future__ import annotations

from pathlib import Path

from sidecar import processes


class TestProc:
    def test_the_real_table_has_this_process(self) -> None:
        own = next(
            p for p in processes.processes() if "pytest" in " ".join(p.arguments)
        )

        assert own.environment
        assert not own.elsewhere

    def test_a_table_of_files(self, tmp_path: Path) -> None:
        (tmp_path / "self/ns").mkdir(parents=True)
        (tmp_path / "self/ns/net").symlink_to("net:[1]")
        for pid, net in ((7, 1), (8, 2)):
            (tmp_path / f"{pid}/ns").mkdir(parents=True)
            (tmp_path / f"{pid}/ns/net").symlink_to(f"net:[{net}]")
            (tmp_path / f"{pid}/cmdline").write_bytes(b"vllm\0serve\0m\0\0\0")
            (tmp_path / f"{pid}/environ").write_bytes(b"A=b=c\0\0D\0")
        (tmp_path / "9").mkdir()

        found = list(processes.processes(tmp_path))

        assert [(p.pid, p.elsewhere) for p in found] == [(7, False), (8, True)]
        assert found[0].arguments == ["vllm", "serve", "m"]
        assert (found[0].environment or {})["A"] == "b=c"

    def test_listening_ports(self, tmp_path: Path) -> None:
        (tmp_path / "net").mkdir()
        row = "   0: {} 00000000:0000 {} 00000000:00000000\n"
        (tmp_path / "net/tcp").write_text(
            "header\n"
            + row.format("0100007F:1F40", "0A")
            + row.format("00000000:1F41", "0A")
            + row.format("0100007F:1F42", "01")
            + row.format("0500000A:1F43", "0A")
        )
        loopback = "00000000000000000000000001000000"
        (tmp_path / "net/tcp6").write_text(
            "header\n" + row.format(f"{loopback}:1F44", "0A")
        )

        assert processes.listening_ports(tmp_path) == [8000, 8001, 8004]

    def test_no_proc(self, tmp_path: Path) -> None:
        assert list(processes.processes(tmp_path)) == []
        assert processes.listening_ports(tmp_path) == []
