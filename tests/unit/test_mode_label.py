"""The label that stops a cluster: no-create stops every create, whatever its reason."""

import pytest
from shared.core.decide.cluster_stops import Mode, Stop, decide_stop

from shared.model.decisions import Decision, Reason, Verdict
from tests.builders import expect_decision

NO_CREATE = Stop(mode=Mode.NO_CREATE, reason=Reason.MODE_NO_CREATE, cause="the label")


@pytest.mark.parametrize("reason", list(Reason))
def test_no_create_stops_every_create(reason: Reason) -> None:
    stopped = expect_decision(decide_stop(Decision(Verdict.CREATE, reason, "create it"), NO_CREATE))

    assert (stopped.verdict, stopped.reason) == (Verdict.REFUSE, Reason.MODE_NO_CREATE)
