"""One script on both clusters: our code sees the same of both, except for a list."""

import pytest

from standins.controlplane.plane import ControlPlane
from tests.differential.differential_comparison import Difference, compare
from tests.differential.differential_known import KNOWN
from tests.differential.differential_run import play_on_both

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def differences(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> list[Difference]:
    embedded, real = play_on_both(plane.kubeconfig, tmp_path_factory.mktemp("differential"))
    assert len(embedded.courses) > 100, "the script was not seen"
    return compare(embedded, real)


def test_every_difference_is_listed(differences: list[Difference]) -> None:
    unlisted = [found for found in differences if not any(known.covers(found) for known in KNOWN)]
    kinds = {(found.aspect, found.what, found.embedded, found.real): found for found in unlisted}
    assert not unlisted, f"{len(unlisted)} differences, among them:\n" + "\n".join(map(str, kinds.values()))


def test_every_listed_difference_still_occurs(differences: list[Difference]) -> None:
    idle = {known.what: known.idle_patterns(differences) for known in KNOWN}
    assert not any(idle.values()), f"these patterns match nothing: {idle}"
