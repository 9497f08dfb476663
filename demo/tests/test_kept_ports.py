"""A stack listens where the last one of its folder did, as far as these ports are free."""

import socket
from pathlib import Path

import pytest

from demo.stack.kept_ports import choose_ports, list_servers, listen_on, read_kept_ports, write_ports
from standins.processes.child import Command
from standins.processes.free_ports import HOST, draw_ports


def test_ports_that_are_free_are_kept_and_others_are_new(tmp_path: Path) -> None:
    path = tmp_path / "ports.json"
    first = choose_ports(["a", "b", "c"], {})
    write_ports(path, first)
    with socket.socket() as taken:
        taken.bind((HOST, first["b"]))
        taken.listen()
        kept = read_kept_ports(path)
        second = choose_ports(["a", "b", "c", "d"], kept)

    assert kept == {"a": first["a"], "c": first["c"]}
    assert (second["a"], second["c"]) == (first["a"], first["c"])
    assert second["b"] != first["b"]
    assert len(set(second.values())) == 4


@pytest.mark.parametrize("text", [None, "", "{", "[1]", '{"a": "1"}', '{"a": 0}', '{"a": 70000}', '{"a": null}'])
def test_a_file_that_says_no_ports_keeps_none(tmp_path: Path, text: str | None) -> None:
    path = tmp_path / "ports.json"
    if text is not None:
        path.write_text(text)

    assert read_kept_ports(path) == {}


def test_a_stand_in_is_told_its_own_ports_and_no_others(tmp_path: Path) -> None:
    ports = dict(zip(list_servers(), draw_ports(len(list_servers())), strict=True))
    command = Command(name="logging", arguments=("serve",), folder=tmp_path)

    assert listen_on(command, ports).arguments == ("serve", f"--rest-port={ports['logging --rest-port']}")
    assert listen_on(command, {}) == command
    assert not [name for name in list_servers(without="cluster") if name.startswith("cluster")]
