"""The floor of a warm event: a CloudEvent function that does nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import functions_framework

if TYPE_CHECKING:
    from cloudevents.http import CloudEvent


@functions_framework.cloud_event
def noop(_event: CloudEvent) -> None:
    """Do nothing."""
