"""Checks our labels and annotations, so that no pool is created if one of them is misspelt."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

from shared.model import labels
from shared.model.errors import NotAllowed

if TYPE_CHECKING:
    from shared.model.workloads import PodTemplate, WorkloadView

_VALUES = {
    labels.DISABLE_AUTOPROVISIONING: ("true", "false"),
    labels.PARTIAL_SLICE: ("true", "false"),
}
"""The keys with few values. The module that reads another key checks its values."""


def check_own_keys(template: PodTemplate, workload: WorkloadView) -> None:
    """Accept our keys if they are known, have a valid value, and are on the right object.

    Raises:
        NotAllowed: one is unknown, has an unknown value, or is on the workload although it is read
            from the pod template. The message names the most similar key.
    """
    of_pods = {**template.labels, **template.annotations}
    for key, value in ({**workload.marks, **of_pods} if workload.marks else of_pods).items():
        if key not in labels.OWN_KEYS and labels.resembles_own_key(key):
            near = difflib.get_close_matches(key, labels.OWN_KEYS, n=1, cutoff=0)
            listed = sorted(labels.OWN_KEYS - labels.WRITTEN_KEYS)
            raise NotAllowed(
                "is an unknown key, so no node pool is created",
                field=f"annotation or label {key}",
                value=value,
                valid=f"{near[0]}, or remove the key; all keys: {', '.join(listed)}",
            )
        if key in _VALUES and value not in ("", *_VALUES[key]):
            raise NotAllowed(
                "is an unknown value, so no node pool is created",
                field=f"annotation or label {key}",
                value=value,
                valid=", ".join(_VALUES[key]),
            )
    for key in sorted(labels.POD_KEYS & workload.marks.keys() - of_pods.keys()):
        raise NotAllowed(
            f"this annotation is read from the pod template, and {workload.kind} {workload.name} has it on itself",
            field=f"metadata.annotations {key}",
            value=workload.marks[key],
            valid="the same annotation in the metadata of the pod template",
        )
