"""The fake GKE as a process: start, log, faults from a file, clean end."""

import json
from pathlib import Path

import httpx
from google.cloud import container_v1

from standins.fakegke.tests.fakegke_processes import fake_process, run_cli
from standins.fakegke.tests.fakegke_worlds import open_transport, slice_pool

PARENT = "projects/demo/locations/us-east5/clusters/alpha"


def test_a_process_takes_faults_from_a_file_serves_logs_and_ends_quickly(tmp_path: Path) -> None:
    path = tmp_path / "faults.yaml"
    path.write_text("faults:\n- {switch: fail_sync, pool: bad-*, code: INTERNAL}\nreservations: []\n")
    with fake_process(tmp_path, "--speed", "3000", "--faults", str(path)) as fake:
        with container_v1.ClusterManagerClient(transport=open_transport(fake.rest)) as client:
            client.create_node_pool(parent=PARENT, node_pool=slice_pool("good-1"))
        answer = httpx.delete(f"{fake.rest}/v1/{PARENT}/nodePools/bad-1")
        assert answer.status_code == 500
        # A second or two on a machine that does nothing else.
        assert fake.child.end(15)
    assert fake.child.exit_code == 0
    records = [json.loads(line) for line in fake.log.read_text().splitlines()]
    messages = [record["message"] for record in records]
    assert (messages[0], messages[-1]) == ("listening", "stopped")
    calls = [record for record in records if record["message"] == "call"]
    assert [(call["method"], call["pool"], call["code"], call["skin"]) for call in calls] == [
        ("CreateNodePool", "good-1", "OK", "rest"),
        ("DeleteNodePool", "bad-1", "INTERNAL", "rest"),
    ]
    state = records[messages.index("pool state")]
    assert (state["pool"], state["status"]) == ("good-1", "PROVISIONING")
    assert all({"severity", "message", "time"} <= record.keys() for record in records)


def test_a_process_has_the_machines_of_its_file_and_no_more(tmp_path: Path) -> None:
    path = tmp_path / "faults.yaml"
    path.write_text("capacity:\n- {tier: spot, nodes: 7}\n")
    with fake_process(tmp_path, "--manual-clock", "--faults", str(path)) as fake:
        with container_v1.ClusterManagerClient(transport=open_transport(fake.rest)) as client:
            for name in ("slice-1", "slice-2"):
                client.create_node_pool(parent=PARENT, node_pool=slice_pool(name))
        httpx.post(f"{fake.rest}/admin/clock", json={"advance_seconds": 5000}).raise_for_status()
        rows = httpx.get(f"{fake.rest}/admin/pools").json()["pools"]
    assert sorted((row["status"], row["nodes"]) for row in rows) == [("ERROR", 0), ("RUNNING", 4)]


def test_a_wrong_capacity_in_the_file_stops_the_start(tmp_path: Path) -> None:
    path = tmp_path / "faults.yaml"
    path.write_text("capacity:\n- {tier: spot, nodes: many}\n")
    ended = run_cli("serve", "--project=p", "--location=us-east5", "--cluster=c", "--faults", str(path))
    assert ended.returncode == 2
    text = "capacity[0].nodes: is no amount (got 'many'); valid: a whole number from 0, or null for no bound"
    assert text in ended.stderr


def test_a_wrong_switch_in_the_file_stops_the_start_with_the_valid_ones(tmp_path: Path) -> None:
    path = tmp_path / "faults.yaml"
    path.write_text("- switch: read_lga\n")
    place = ["--project", "p", "--location", "us-east5", "--cluster", "c"]
    ended = run_cli("serve", *place, "--faults", str(path))
    assert ended.returncode == 2
    assert "read_lga" in ended.stderr
    assert "read_lag," in ended.stderr
