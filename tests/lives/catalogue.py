"""The lives, as data: what happens to a JobSet, and the expected end of it and of its pools.

One definition each, for every cluster.
"""

from collections.abc import Callable
from dataclasses import dataclass

from tests.lives import scripts
from tests.lives.scene import Scene


@dataclass(frozen=True, slots=True)
class Count:
    """How many of something there may be."""

    least: int
    most: int

    def __contains__(self, number: int) -> bool:
        return self.least <= number <= self.most


def exactly(number: int) -> Count:
    return Count(number, number)


ONE, TWO = exactly(1), exactly(2)


@dataclass(frozen=True, slots=True)
class Life:
    """One life of a JobSet."""

    name: str
    """Of the life and of its JobSet; no life's name begins with another's."""
    sentence: str
    script: Callable[[Scene], None]
    end: str = "Completed"
    """``Completed``, ``Failed`` or ``gone``."""
    pools: Count = ONE
    """Names that were ever created. None of them is left, whatever the life."""
    calls_most: int = 10
    """All calls that name one of its pools, refused ones included. A pool that is made, looked at
    and given back costs three; every try that GKE refuses because it is busy with another operation
    costs two more, and twenty lives at once keep it busy."""
    remade: int = 0
    """How many pools are made a second time under their names."""
    remark: str = ""
    """What else the script proves."""

    @property
    def creates(self) -> Count:
        """Accepted by GKE, as are as many deletes."""
        return Count(self.pools.least + self.remade, self.pools.most + self.remade)


LIVES = (
    Life(
        "completed",
        "two slices run and succeed",
        scripts.complete,
        pools=TWO,
        calls_most=16,
        remark="each slice runs on one pool, not always on the one that was made for it",
    ),
    Life(
        "restarted",
        "the first attempt fails, the second succeeds",
        scripts.restart,
        remark="all pods are new, the pool is the same",
    ),
    Life(
        "blocked",
        "the same with two slices and BlockingRecreate",
        scripts.restart_together,
        pools=TWO,
        calls_most=16,
    ),
    Life("failed", "both attempts that it has fail", scripts.fail, end="Failed"),
    Life(
        "unserved",
        "deleted while GKE answers 503 to every create",
        scripts.delete_pending,
        end="gone",
        pools=exactly(0),
        calls_most=12,
        remark="once GKE would accept a create, none is sent",
    ),
    Life(
        "abandoned",
        "deleted while its pool is being created",
        scripts.delete_creating,
        end="gone",
        remark="the pool goes once GKE lets it be deleted",
    ),
    Life(
        "stopped",
        "deleted while its pods run",
        scripts.delete_running,
        end="gone",
        remark="the pool goes after the pods' grace",
    ),
    Life(
        "again",
        "deleted, and made again under the same name while the old pool is being deleted",
        scripts.recreate_over_stopping,
        pools=TWO,
        calls_most=16,
        remark="the second one has a pool of its own, under another name",
    ),
    Life(
        "hasty",
        "deleted, and made again under the same name at once",
        scripts.recreate_at_once,
        pools=Count(1, 2),
        calls_most=16,
        remark="its pods may find the old pool idle and take it; then it stays for them",
    ),
    Life(
        "reshaped",
        "deleted, and made again under the same name with another topology",
        scripts.recreate_in_another_shape,
        pools=TWO,
        calls_most=16,
    ),
    Life(
        "paused",
        "suspended, and resumed within the grace",
        scripts.suspend_briefly,
        remark="the same pool serves before and after",
    ),
    Life(
        "shelved",
        "suspended for longer than the grace, then resumed",
        scripts.suspend_past_the_grace,
        pools=Count(1, 2),
        remade=1,
        calls_most=16,
        remark="given back, then made again in the same slot, in whichever attempt",
    ),
    Life(
        "caught",
        "resumed while its pool is being deleted",
        scripts.resume_over_stopping,
        pools=TWO,
        calls_most=20,
        remark="a new pool is made beside the old one, under another name",
    ),
    Life(
        "queued",
        "made suspended and without selectors; told its place in the write that resumes it, as by Kueue",
        scripts.admit_from_a_queue,
        remark="nothing is asked of GKE before it is resumed",
    ),
    Life("expired", "succeeds, and is deleted by its TTL", scripts.expire, end="gone", calls_most=12),
    Life(
        "led",
        "has a coordinator without chips, whose end completes it while its workers still run",
        scripts.follow_the_coordinator,
        remark="the pool goes after the workers have ended",
    ),
    Life(
        "ordered",
        "two slices with startupPolicy InOrder",
        scripts.start_in_order,
        pools=TWO,
        calls_most=16,
        remark="the second slice is not asked for before the first one runs",
    ),
)
