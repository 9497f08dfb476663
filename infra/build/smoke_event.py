#!/usr/bin/env python3
"""Prints an event about a pod that does not exist, in the words of `shared.model.messages`.

Three lines: its id, its attributes as gcloud takes them, its data. The function looks, and logs
that nothing is to be done. The image of this step has no packages, so nothing of the product is
imported; tests/infra/test_build_programs.py reads the event with the product's own code.
"""

from __future__ import annotations

import json
import sys
import uuid


def list_lines(cluster: str, uid: str) -> list[str]:
    """Return the three lines for a cluster's full name, and the UID of a pod that it never had."""
    subject = {"kind": "Pod", "namespace": "tpu-provisioner", "name": "deployment-smoke-test", "uid": uid}
    attributes = {
        "ce-specversion": "1.0",
        "ce-id": uid,
        "ce-type": "tpuprovisioner.demand.v1",
        "ce-source": f"//container.googleapis.com/{cluster}",
        "ce-subject": f"namespaces/{subject['namespace']}/pods/{subject['name']}",
        "content-type": "application/json",
    }
    words = ",".join(f"{name}={value}" for name, value in attributes.items())
    return [uid, words, json.dumps({"version": 1, **subject, "cause": ""})]


if __name__ == "__main__":
    sys.stdout.writelines(f"{line}\n" for line in list_lines(sys.argv[1], str(uuid.uuid4())))
