"""What a pool may have to wait for: the disks of its pods."""

from __future__ import annotations

import contextlib

from tests.claimed_disks import CLASSES, DRIVER, VOLUMES, list_bound, name_claims
from tests.loop.bodies import Json, read_manifest
from tests.loop.cloud import wait_for
from tests.loop.workload import Workload

_AT_ONCE: Json = {"metadata": {"name": "standard"}, "provisioner": DRIVER, "volumeBindingMode": "Immediate"}


class Stored(Workload):
    """A workload with the verbs that are about its claims."""

    def claim(self, words: Json) -> None:
        """Create a claim of a file, which no controller here binds; its class binds at once."""
        with contextlib.suppress(AssertionError):  # another life has made it
            self.cloud.create(CLASSES, _AT_ONCE)
        self.cloud.create(name_claims(self.namespace), read_manifest(words))

    def disk(self, words: Json) -> None:
        """Bind a claim to a new volume in a zone, as a driver does; one that is missing is made."""
        volume = f"{self.namespace}-{words['claim']}"
        made = list_bound(self.namespace, words["claim"], volume, words["zone"])
        (_, body), (claims, claim) = made
        path = f"{claims}/{words['claim']}"
        there = self.cloud.get(path)
        if there:
            own = {key: there["spec"][key] for key in ("storageClassName", "accessModes")}
            refers = {"claimRef": {"namespace": self.namespace, "name": words["claim"]}}
            body["spec"] |= own | refers | {"capacity": there["spec"]["resources"]["requests"]}
        self.cloud.create(VOLUMES, body)
        if not there:
            self.cloud.create(claims, claim)
        elif not self.cloud.is_real:  # the embedded cluster has no controller that binds
            self.cloud.patch(path, {"spec": {"volumeName": volume}})
        wait_for(f"{path} is bound", lambda: (self.cloud.get(path) or {})["spec"].get("volumeName"))
