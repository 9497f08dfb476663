"""The remaining differences between the two clusters, and why each stays."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from tests.differential.differential_comparison import Difference


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownDifference:
    """One difference that stays; every pattern must occur and matches a whole `Difference.line`."""

    what: str
    reason: str
    patterns: tuple[str, ...]

    def covers(self, found: Difference) -> bool:
        """Return whether a difference is this one."""
        return any(_matches(pattern, found) for pattern in self.patterns)

    def idle_patterns(self, differences: Iterable[Difference]) -> list[str]:
        """Return the patterns that no difference matches."""
        found = list(differences)
        return [pattern for pattern in self.patterns if not any(_matches(pattern, each) for each in found)]


def _matches(pattern: str, found: Difference) -> bool:
    return re.fullmatch(pattern, found.line, re.DOTALL) is not None


_TOKEN = r"spec\.(volumes\[kube-api-access-<random>\]\..+|containers\[\w+\]\.volumeMounts)"
_UNCOUNTED = r"status\.uncountedTerminatedPods\.failed"
_OF_PODS = "pods|leaders|running pods|tagged pods"
_UNREAD_OF_CONTAINERS = r"imagePullPolicy|terminationMessage\w+|env\[JOB_COMPLETION_INDEX\]\.valueFrom\..*"
_UNREAD = (
    "dnsPolicy|enableServiceLinks|preemptionPolicy|serviceAccount(Name)?|"
    rf"containers\[\w+\]\.({_UNREAD_OF_CONTAINERS})"
)
_UNREAD_OF_NODES = r"metadata\.(annotations\.node\.alpha\..*|labels\.beta\..*)"

KNOWN: tuple[KnownDifference, ...] = (
    KnownDifference(
        what="The token of a pod's service account",
        reason="No container runs here, and of volumes the product only reads the claims of disks.",
        patterns=(rf"final \| ({_OF_PODS}) .* \| {_TOKEN} \| \(absent\) \| .*",),
    ),
    KnownDifference(
        what="Defaults that nothing here reads",
        reason="No container runs here, and the product does not read them.",
        patterns=(
            rf"final \| ({_OF_PODS}) .* \| (spec\.({_UNREAD})|status\.qosClass) \| \(absent\) \| .*",
            rf"final \| jobs .* \| spec\.template\.spec\.({_UNREAD}) \| \(absent\) \| .*",
            rf"final \| nodes .* \| {_UNREAD_OF_NODES} \| \(absent\) \| .*",
            r"(final|course) \| nodes .* \| status\.(nodeInfo|daemonEndpoints)\..*",
            r"course \| nodes .* \| status \| \{\} → \(absent\) \| \(absent\)",
        ),
    ),
    KnownDifference(
        what="How a Job counts a failed pod",
        reason="The first write protects the controller against its own crash; the numbers are the same.",
        patterns=(rf"course \| jobs .* \| {_UNCOUNTED} \| \(absent\) \| \(absent\) → .* → \(absent\)",),
    ),
)
