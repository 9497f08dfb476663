#!/usr/bin/env python3
"""Lists grants that a plan deletes at one address of Terraform's state and creates at another.

Terraform does both in any order, so the grant can be gone in the end: a namespace that moves from
NAMESPACE to MORE_NAMESPACES would lose its bucket. Prints both addresses, separated by a tab, for
`terraform state mv`. A block `moved` cannot do it, because the first address gets another grant.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_NAMES = ("project", "bucket", "service_account_id", "role", "member", "condition")


def list_moves(plan: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the address that has a grant, and the free one that gets it."""
    grants = [each for each in plan.get("resource_changes", ()) if each["type"].endswith("_iam_member")]
    gone = {_describe(each, "before"): each["address"] for each in grants if "delete" in each["change"]["actions"]}
    for each in grants:
        if each["change"]["actions"] == ["create"] and (source := gone.pop(_describe(each, "after"), None)):
            yield source, each["address"]


def _describe(each: Mapping[str, Any], when: str) -> str:
    values = each["change"][when] or {}
    # The provider's state has b/ in front of a bucket's name.
    named = {name: str(values.get(name) or "").removeprefix("b/") for name in _NAMES}
    return json.dumps([each["type"], named])


def main() -> int:
    """Print the moves."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plan", type=Path, required=True, help="the plan, from `terraform show -json`")
    plan = json.loads(parser.parse_args().plan.read_text(encoding="utf-8"))
    sys.stdout.writelines(f"{source}\t{target}\n" for source, target in list_moves(plan))
    return 0


if __name__ == "__main__":
    sys.exit(main())
