"""The labels of a live cluster's namespaces, which may opt out of pools."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from cli.exit_codes import say
from shared.core.errors import ProvisionerError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from shared.core.ports import Cluster


@dataclass(slots=True)
class Namespaces:
    """The labels of namespaces, read once each."""

    cluster: Cluster | None = None
    """None: no cluster was asked."""
    unread: str = ""
    """Why a label could not be read."""
    known: dict[str, Mapping[str, str]] = field(default_factory=dict)

    def find_labels(self, name: str) -> Mapping[str, str]:
        """Return the labels of a namespace; none if they are not known."""
        if name not in self.known:
            self.known[name] = self._read(name)
        return self.known[name]

    def _read(self, name: str) -> Mapping[str, str]:
        if self.cluster is None or self.unread:
            return {}
        try:
            found = self.cluster.get_namespace(name)
        except ProvisionerError as error:
            self.unread = say(error)
            return {}
        return found.labels if found else {}

    @property
    def assumption(self) -> str:
        """Return what the plan assumes of namespaces; empty if it has read them."""
        why = "no cluster was asked; --cluster asks it" if self.cluster is None else self.unread
        return f"assumed: no label of a namespace opts out of pools ({why})" if why else ""
