"""The differences between the two clusters that remain: each with its reason and what it could hide.

`docs/differences.md` is made from this list (`differential_page`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from differential_comparison import Difference


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownDifference:
    """One difference that stays; every pattern must occur and matches a whole `Difference.line`."""

    what: str
    embedded: str
    real: str
    reason: str
    hides: str
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


def _words_of(*questions: str) -> tuple[str, ...]:
    """The pattern of an answer that differs in its message only: code and reason are the same."""
    return tuple(rf"answer \| {re.escape(question)} \| message \| .*" for question in questions)


_TOKEN = r"spec\.(volumes\[kube-api-access-<random>\]\..+|containers\[\w+\]\.volumeMounts)"
_UNCOUNTED = r"status\.uncountedTerminatedPods\.failed"

KNOWN: tuple[KnownDifference, ...] = (
    KnownDifference(
        what="The token of a pod's service account",
        embedded="No volume and no mount",
        real="A volume `kube-api-access-…` in every pod, mounted in every container",
        reason="Nothing runs in a pod here, and neither the exporter nor the functions look at volumes.",
        hides="A decision that would depend on a pod's volumes.",
        patterns=(rf"final \| (pods|leaders|running pods|tagged pods) .* \| {_TOKEN} \| \(absent\) \| .*",),
    ),
    KnownDifference(
        what="How a Job counts a failed pod",
        embedded="In one write of its status",
        real="In two: first its UID in `uncountedTerminatedPods`, then the number",
        reason="The first write is the controller's own book-keeping against its crash; the numbers are the same.",
        hides="A reader of `uncountedTerminatedPods`; there is none.",
        patterns=(rf"course \| jobs .* \| {_UNCOUNTED} \| \(absent\) \| \(absent\) → .* → \(absent\)",),
    ),
    KnownDifference(
        what="Server-side apply of a field that another manager owns",
        embedded="200, the field is changed",
        real="409 Conflict, naming the manager",
        reason="The embedded cluster keeps no `managedFields`, and nothing of this project applies.",
        hides="A conflict between two who apply, `kubectl apply --server-side` among them.",
        patterns=(r"answer \| lease: apply against another \| verdict \| 200 \| 409 Conflict: .*",),
    ),
    KnownDifference(
        what="A JobSet whose body says another kind",
        embedded="400 BadRequest",
        real="201: only the group and version of a custom resource's body are checked",
        reason="Whoever writes `kind: Job` for a JobSet made a mistake, and is told so.",
        hides="Nothing: what is refused here is only accepted there.",
        patterns=(r"answer \| jobset: another kind \| verdict \| 400 BadRequest: .* \| 201",),
    ),
    KnownDifference(
        what="A replicated job without a name",
        embedded="422 Invalid",
        real="201: JobSet's webhook fills in an empty name before the schema is checked",
        reason="It follows JobSet's definition, in which the name is required.",
        hides="Pods whose labels name an empty replicated job.",
        patterns=(r"answer \| jobset: replicated job without name \| verdict \| 422 Invalid: .* \| 201",),
    ),
    KnownDifference(
        what="The value that a refused change of a JobSet echoes",
        embedded="The replicated jobs as they were sent",
        real="The same, written by Go: in its order of fields, with empty metadata",
        reason="Code and reason are the same, and the text is for people.",
        hides="A program that reads the text; none does.",
        patterns=_words_of(
            "jobset: replicas changed",
            "jobset: replicated job renamed",
            "jobset: image changed while suspended",
            "jobset: selector changed while it runs",
        ),
    ),
    KnownDifference(
        what="What else a refusal says",
        embedded="The first wrong field, and what would be valid",
        real="Every rule that is broken, parse errors of Go, a diff of Go structs, or nothing at all",
        reason="Code and reason are the same, and the text is for people.",
        hides='A program that reads the text. Ours reads one, `"NAME" not found`, and that is the same.',
        patterns=_words_of(
            "job: selector changed",
            "jobset: replicated job without template",
            "jobset: not an object",
            "pod: selector changed",
            "pod: node name changed",
            "lease: unknown patch type",
            "lease: failed json test",
            "read: wrong continue token",
            "read: wrong field selector",
            "read: wrong label selector",
        ),
    ),
)
