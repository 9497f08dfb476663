"""The part of the fake cluster that knows in which zones the disks of claims are."""

from shared.core.workloads import Disk
from tests.component.plans import Plans


class FakeDisks(Plans):
    """The disks of one cluster."""

    def __init__(self) -> None:
        super().__init__()
        self.disks: dict[tuple[str, str], Disk] = {}
        """By namespace and claim."""

    def find_disk(self, namespace: str, claim: str) -> Disk | None:
        self.begin("find_disk")
        return self.disks.get((namespace, claim))
