"""`status` on known situations: what it prints, at which width, and how it ends."""

import dataclasses

import pytest
from msgspec import structs

from cli.access.log_search import Record
from cli.fleet.status import add_refusals, print_status, read_status
from cli.printing import format_age
from shared.model.errors import Unavailable
from tests.builders import CLUSTER, NOW
from tests.cli.cli_world import a_deployment, list_printed, put_in_place, read_json, run
from tests.engine.world import World


def test_looking_changes_nothing(half_served: World) -> None:
    half_served.take_calls()
    before = list(half_served.cluster.notices)

    shown = read_json("status")

    assert [(row["state"], row["chips"]) for row in shown["pools"]] == [("RUNNING", 16), ("ERROR", 16)]
    assert [(row["reason"], row["next_try"]) for row in shown["waiting"]] == [("paused", "2027-01-15T08:01:00Z")]
    assert not [
        call for call in half_served.take_calls() if call.startswith(("create", "delete", "mark", "raise"))
    ]
    assert half_served.cluster.notices == before


def test_a_cluster_that_cannot_be_asked_hides_no_other(
    half_served: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    down, answer = f"{CLUSTER}-down", half_served.gke.list

    def list_pools(cluster: str) -> list[object]:
        if cluster == down:
            raise Unavailable("no answer")
        return list(answer(cluster))

    monkeypatch.setattr(half_served.gke, "list", list_pools)
    deployment, live = a_deployment(half_served), half_served.cluster
    books = dict.fromkeys((down, CLUSTER), deployment.ports.books[CLUSTER])
    ports = structs.replace(deployment.ports, clusters={down: live, CLUSTER: live}, books=books)
    put_in_place(monkeypatch, dataclasses.replace(deployment, ports=ports))

    result = run("status")

    assert result.exit_code == 3
    assert "2 pools with 32 chips" in result.stdout
    assert f"error: {down}: no answer" in result.stderr


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("width", [80, 120])
def test_a_terminal_shows_everything_within_its_width(half_served: World, width: int, wide: bool) -> None:
    status = read_status(a_deployment(half_served).ports)

    lines = list_printed(lambda console: print_status(console, status, wide=wide), width=width, terminal=True)

    assert max(len(line) for line in lines) <= width
    assert lines[-1].startswith("2 pools with 32 chips, 1 slice waiting")


def test_an_exporter_that_never_ran_has_no_lease(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    put_in_place(monkeypatch, a_deployment(world, lease_name="tpu-provisioner-exporter"))

    findings = {each["check"]: each for each in read_json("doctor")}

    assert findings["p/us-east5/c exporter"] == {
        "result": "bad",
        "check": "p/us-east5/c exporter",
        "text": "Lease tpu-provisioner/tpu-provisioner-exporter does not exist: no exporter has run",
        "fix": "helm upgrade tpu-provisioner-exporter infra/helm --namespace default --reuse-values",
    }


def test_no_color_is_heard(half_served: World) -> None:
    assert half_served.gke.pools
    plain = run("status", environ={"FORCE_COLOR": "1", "NO_COLOR": "1", "COLUMNS": "120"}).stdout
    coloured = run("status", environ={"FORCE_COLOR": "1", "COLUMNS": "120", "TERM": "xterm-256color"}).stdout

    assert "\x1b[3" not in plain
    assert "\x1b[3" in coloured


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0s"), (119, "119s"), (120, "2m"), (3599, "59m"), (3600, "1h0m"), (90_000, "1d1h"), (None, "?")],
)
def test_ages_are_written_as_kubectl_does(seconds: float | None, text: str) -> None:
    assert format_age(seconds) == text


def an_answer(ago: float, decision: str, reason: str, **claim: str) -> Record:
    home = {"cluster": CLUSTER, "namespace": "default", "name": "train"}
    facts = {"decision": decision, "reason": reason, "message": f"GKE: {reason}"}
    return Record(NOW - ago, {"claim": home | claim, **facts})


def test_what_gke_refused_at_once_is_told_by_the_records_of_the_functions(world: World) -> None:
    world.wait(0)
    refused = [an_answer(ago, "refuse", "quota_exceeded") for ago in (60, 10)]
    of_another = an_answer(5, "refuse", "permission_denied", name="another")

    def tell(*answers: Record) -> tuple[str, str, int, bool]:
        status = read_status(a_deployment(world).ports)
        add_refusals(status, answers)
        (row,) = status.waiting
        return row.decision, row.reason, row.failures, row.stuck

    earlier = an_answer(90, "create", "pool_absent")
    assert tell(of_another, *refused, earlier) == ("refuse", "quota_exceeded", 2, True)
    assert tell(earlier, an_answer(5, "refuse", "limit_reached")) == ("create", "pool_absent", 0, False)
    assert tell(*refused, an_answer(5, "create", "pool_absent")) == ("create", "pool_absent", 0, False)
    assert tell() == ("create", "pool_absent", 0, False)
    # Of another workload of this kind a create was refused, and this one pauses with it.
    assert tell(earlier, an_answer(5, "wait", "paused")) == ("wait", "paused", 0, False)


def test_a_deletion_that_gke_refuses_needs_a_person(world: World) -> None:
    (name,) = world.run_all(slices=1)
    world.finish(replicas=1)
    status = read_status(a_deployment(world).ports)
    record = an_answer(5, "refuse", "permission_denied")

    add_refusals(status, [Record(record.at, record.fields | {"pool": name})])

    (trouble,) = status.troubles
    assert (trouble.about, trouble.reason) == ("default/train", "permission_denied")
