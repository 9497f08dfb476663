#!/usr/bin/env python3
"""Lifts, in Terraform's state, the protection that keeps Terraform from deleting a resource.

`deletion_protection` of a cluster and `force_destroy` of a bucket are fields of the state only, so
they are changed there. A plan could change them too, but it has everything that the cluster depends
on, and it cannot be applied if it also deletes one of these. Reads `terraform state pull` from
standard input, and writes the state for `terraform state push` to standard output.
"""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

_LIFTED = {
    "google_container_cluster": {"deletion_protection": False},
    "google_storage_bucket": {"force_destroy": True},
}
"""What each type must have in the state, so that Terraform deletes it."""


def unprotect(state: dict[str, Any], address: str) -> bool:
    """Change one resource so that Terraform can delete it; return whether the state has it."""
    for each in state.get("resources", ()):
        if f"{each.get('module')}.{each['type']}.{each['name']}" == address and each["mode"] == "managed":
            for instance in each["instances"]:
                instance["attributes"].update(_LIFTED[each["type"]])
            return True
    return False


def main() -> int | str:
    """Write the changed state."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("addresses", nargs="+", help="resources without an index, such as module.m.TYPE.NAME")
    arguments = parser.parse_args()
    state = json.load(sys.stdin)
    for address in arguments.addresses:
        if not unprotect(state, address):
            return f"error: {address} is not in the state, so its protection cannot be lifted"
    state["serial"] += 1  # Terraform takes only a newer state
    json.dump(state, sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main())
