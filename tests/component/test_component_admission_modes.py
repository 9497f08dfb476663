"""What Kueue is told while a mode forbids something, and what a refusal by a setting costs."""

import pytest

from shared.core.labels import MODE
from tests.builders import a_jobset, a_template
from tests.component.test_component_admission import Queued, reserved
from tests.component.world import Records

OWNERS = {
    "Ready": a_template(accelerator=None, topology=None, chips=0),
    "Retry": a_template(),
    "Rejected": a_template(topology="3x7"),
}


@pytest.mark.parametrize("namespace", ["default", "tpu-provisioner"])
@pytest.mark.parametrize("word", OWNERS)
def test_report_only_says_what_kueue_would_be_told_and_tells_it_nothing(
    records: Records, word: str, namespace: str
) -> None:
    jobset = a_jobset(replicas=2, suspended=True, template=OWNERS[word])
    world = Queued(records, jobset)
    world.cluster.namespace_labels[namespace] = {MODE: "report-only"}
    world.sweep()
    reserved(world)

    assert (world.state.state, world.state.message, world.queues.writes) == ("Pending", "", 0)
    assert world.queues.checks[0].active == (namespace == "default")
    assert world.says() == ("keep", "mode_report_only")
    assert f"not done: telling Kueue that check capacity is {word}" in list(world.cluster.notices)[-1].message


def test_no_create_still_tells_kueue(records: Records) -> None:
    world = Queued(records)
    world.sweep()
    world.cluster.namespace_labels["tpu-provisioner"] = {MODE: "no-create"}
    world.run_all()
    world.sweep()

    assert world.state.state == "Ready"


def test_a_refusal_by_a_setting_reads_the_owner_once(records: Records) -> None:
    world = Queued(records, allowed_namespaces=("team-*",))
    world.sweep()

    assert world.queues.views == 1
