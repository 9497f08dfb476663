"""What repairs a local stack, in place of the commands for Google Cloud."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cli.diagnosis.findings import Finding

_CLOUD = ("gcloud ", "kubectl apply -k", "kubectl --namespace", "kubectl kustomize", "tpu-provisioner status, or ")
_LOGS = (
    ("function ", ""),
    ("sweep", "ticker"),
    ("exporter", "exporter"),
    ("GKE", "fakegke"),
    ("creations", "fakegke"),
)
"""A word of the check, and the process that it is about; none: the last word of the check."""


def mend_locally(finding: Finding) -> Finding:
    """Return a finding of a local stack with a remedy that works there."""
    if not finding.mend.startswith(_CLOUD):
        return finding
    named = (log or finding.check.rpartition(" ")[2] for word, log in _LOGS if word in finding.check)
    log = next(named, "cluster")
    return replace(finding, mend=f"make status, then read .local/logs/{log}.log; for a new stack: make down up")
