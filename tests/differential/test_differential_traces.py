"""What a course keeps of the events of one watch."""

from tests.differential.differential_traces import Course

_REASON = "status.conditions[PodScheduled].reason"


def test_an_attempt_of_the_scheduler_is_no_event_of_its_own() -> None:
    hasty, patient = Course(), Course()
    hasty.take("ADDED", {"status.phase": "Pending"})
    hasty.take("MODIFIED", {"status.phase": "Pending", _REASON: "Unschedulable"})
    hasty.take("DELETED", {"status.phase": "Pending", "spec.nodeName": "a"})
    patient.take("ADDED", {"status.phase": "Pending"})
    patient.take("DELETED", {"status.phase": "Pending", "spec.nodeName": "a"})
    assert hasty.types == patient.types == ["ADDED", "DELETED"]
    assert hasty.states[1][_REASON] == "Unschedulable", "the state itself is kept, for when nothing moves"


def test_another_change_is_an_event() -> None:
    course = Course()
    course.take("ADDED", {"status.phase": "Pending"})
    course.take("MODIFIED", {"status.phase": "Running", _REASON: "Unschedulable"})
    assert course.types == ["ADDED", "MODIFIED"]
