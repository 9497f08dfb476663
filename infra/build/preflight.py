#!/usr/bin/env python3
"""Checks before anything is made whether a deployment can succeed, and changes nothing.

It compares the variables with those that Terraform's root declares, the settings with the parser of
the functions, the inputs with the state, and what an environment takes with the quotas of its
region. All refusals are printed at once. What may not be read, or is not enabled yet, is only
mentioned. Reads the inputs (check-inputs.sh) from the environment.
"""

from __future__ import annotations

import argparse
import difflib
import json
import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

if __name__ == "__main__":  # as a script, only this folder is on the import path
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from infra.build.check_state import find_difference
from infra.build.region_quotas import (
    GLOBAL_CPUS,
    count_pools,
    find_machine,
    find_shortages,
    list_needs,
    list_slice,
)
from infra.build.render_variables import read_more, render_variables
from shared.edges.google import GoogleAccount, GoogleSession
from shared.model.errors import Misconfigured, NotFound, ProvisionerError
from shared.settings import Credentials, Settings, name_variable, read_settings

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

CREDENTIALS_VARIABLE = "TPU_PROVISIONER_CREDENTIALS"
"""As the functions read it."""
_SHOWN_MAX = 4
_NO_CLUSTER: dict[str, dict[str, str]] = {"projects/p/locations/l/clusters/c": {}}
"""Terraform sets the clusters; the parser wants one."""


def read_declared(root: Path) -> dict[str, Any]:
    """Return the variables of a root with their defaults; None where that is no plain value."""
    found: dict[str, Any] = {}
    for path in sorted(root.glob("*.tf")):
        for name, body in re.findall(
            r'^variable "(\w+)" \{\n(.*?)^\}', path.read_text(), re.MULTILINE | re.DOTALL
        ):
            default = re.search(r"^  default\s+= (.+)$", body, re.MULTILINE)
            try:
                found[name] = json.loads(default[1]) if default else None
            except ValueError:
                found[name] = None
    return found


def list_undeclared(more: Mapping[str, Any], declared: Mapping[str, Any]) -> Iterator[str]:
    """Yield a refusal for each name that no variable has: Terraform itself only warns."""
    for name in more.keys() - declared.keys():
        near = difflib.get_close_matches(name, declared, n=1)
        valid = f"did you mean {near[0]}?" if near else f"valid: {', '.join(sorted(declared))}"
        yield f"TERRAFORM_VARIABLES: {name} is not a variable of this root; {valid}"


def read_free(root: Path) -> set[str]:
    """Return the settings that a root leaves free. No variable and no resource gives them."""
    text = (root.parent / "modules/provisioner/main.tf").read_text()
    found = re.search(r"settings_free = \[(.*?)\]", text, re.DOTALL)
    return set(re.findall(r'"(\w+)"', found[1] if found else "")) - read_declared(root).keys()


def list_wrong_settings(settings: Mapping[str, str], free: Collection[str]) -> Iterator[str]:
    """Yield a refusal for each setting that Terraform or the functions would refuse."""
    for each in Settings.__struct_fields__:
        if each in settings and each not in free:
            got = f"Terraform sets it (got {settings[each]!r})"
            yield f"settings: {each}: {got}; valid: a variable of this name, or none"
    given = {name_variable(name): text for name, text in settings.items()}
    try:
        read_settings({name_variable("clusters"): json.dumps(_NO_CLUSTER)} | given)
    except Misconfigured as error:
        yield from (f"settings: {each}" for each in error.problems)


class Preflight:
    """The checks of one deployment, and what they found."""

    def __init__(self, inputs: Mapping[str, str]) -> None:
        """Prepare; nothing is read yet."""
        self._inputs, self._project = inputs, inputs["PROJECT_ID"]
        self._account = GoogleAccount(Credentials(inputs.get(CREDENTIALS_VARIABLE, Credentials.GOOGLE)))
        self.refusals: list[str] = []
        self.notes: list[str] = []
        self._machines: dict[str, list[str]] = {}

    def run(self) -> None:
        """Check everything."""
        root = Path(self._inputs["TERRAFORM_ROOT"])
        declared = read_declared(root)
        try:
            more = read_more(self._inputs.get("TERRAFORM_VARIABLES", ""))
            values = declared | render_variables(self._inputs, more)
        except (TypeError, ValueError) as error:
            self.refusals += str(error).splitlines()
            return
        self.refusals += [
            *list_undeclared(more, declared),
            *list_wrong_settings(values["settings"], read_free(root)),
        ]
        state = self._read_state()
        if difference := find_difference(state, self._inputs):
            self.refusals.append(difference)
            return  # what is left of the quotas would be that of another region
        if "cluster_name" in declared:
            try:
                self._check_machines(values, state)
                self._compare_quotas(values, state)
            except (TypeError, ValueError) as error:  # of a value that Terraform would refuse later
                self.refusals.append(f"TERRAFORM_VARIABLES: a value has the wrong form: {error}")

    def _read_state(self) -> dict[str, Any]:
        name = f"{self._inputs['TF_STATE_PREFIX']}/default.tfstate"
        path = f"storage/v1/b/{self._inputs['TF_STATE_BUCKET']}/o/{quote(name, safe='')}?alt=media"
        return self._ask("storage", path, "Terraform's state") or {}

    def _compare_quotas(self, values: Mapping[str, Any], state: Mapping[str, Any]) -> None:
        found = f"compute/v1/projects/{self._project}"
        region = self._ask("compute", f"{found}/regions/{values['region']}", "the region's quotas")
        if region is None:
            return
        project = self._ask("compute", found, "the quotas of all regions")
        quotas = {each["metric"]: each for each in region.get("quotas", ())}
        cpus = (each for each in (project or {}).get("quotas", ()) if each["metric"] == GLOBAL_CPUS)
        quotas |= {each["metric"]: each for each in cpus}
        page = f"https://console.cloud.google.com/iam-admin/quotas?project={self._project}"
        needs = list_needs(values, state)
        shortages = find_shortages(needs, quotas)
        self.refusals += [f"{each}: {page}" for each in shortages]
        slice_needs = list_slice(values, f"a slice of {values['tpu_type']}", "_TPU_TYPE")
        if not shortages and int(values["num_tpu_pools"]) == 0:
            left = find_shortages([*needs, *slice_needs], quotas)
            self.notes += [f"The first slice would wait: {each}: {page}" for each in left]
        absent = dict.fromkeys(each.metric for each in needs if quotas and each.metric not in quotas)
        self.notes += [f"Not checked: quota {each}, which {values['region']} does not list" for each in absent]

    def _check_machines(self, values: Mapping[str, Any], state: Mapping[str, Any]) -> None:
        """Refuse a machine type that its zone does not have, for what is new."""
        zones = [] if count_pools(state)["cpu"] else values["cpu_pool_zones"] or [values["zone"]]
        machine = values["cpu_pool_machine_type"]
        for zone in zones:
            if problem := self._find_absence(machine, zone):
                self.refusals.append(f"cpu_pool_machine_type: {problem}")
        problem = self._find_absence(find_machine(values["tpu_type"]), values["zone"])
        if problem and int(values["num_tpu_pools"]):
            self.refusals.append(f"TPU_TYPE: {problem}")
        elif problem:
            self.notes.append(f"The first slice would wait: TPU_TYPE: {problem}")

    def _find_absence(self, machine: str, zone: str) -> str:
        """Return what to say of a machine type that a zone does not have; empty if it has it."""
        names = self._list_machines(zone)
        if not names or machine in names:
            return ""
        size = machine.rpartition("-")[2]
        near = [each for each in names if each.endswith(f"-standard-{size}")]
        near += difflib.get_close_matches(machine, names, n=3, cutoff=0)
        valid = ", ".join(list(dict.fromkeys(near))[:_SHOWN_MAX])
        return f"{zone} has no machine type {machine}; valid: one of {zone}, for example {valid}"

    def _list_machines(self, zone: str) -> list[str]:
        """Return the machine types of a zone; empty, with a note, if they could not be read."""
        if zone in self._machines:
            return self._machines[zone]
        names, page, more = list[str](), "", True
        while more:
            path = f"compute/v1/projects/{self._project}/zones/{zone}/machineTypes?maxResults=500&pageToken={page}"
            answer = self._ask("compute", path, f"the machine types of {zone}") or {}
            names += [each["name"] for each in answer.get("items", ())]
            page = quote(answer.get("nextPageToken", ""), safe="")
            more = bool(page)
        self._machines[zone] = names
        return names

    def _ask(self, service: str, path: str, what: str) -> dict[str, Any] | None:
        """Return an answer; an empty one for what does not exist, and None with a note for none."""
        session = GoogleSession(f"https://{service}.googleapis.com", self._account)
        try:
            answer = json.loads(session.call("GET", path))
        except NotFound as error:
            if "/regions/" in str(error):
                self.refusals.append(f"REGION: {error}; valid: gcloud compute regions list shows it")
            return {}
        except (ProvisionerError, ValueError) as error:
            self.notes.append(f"Not checked: {what}, because of the answer: {error}")
            return None
        return answer if isinstance(answer, dict) else {}


def main() -> int:
    """Print what was found."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    preflight = Preflight(os.environ)
    preflight.run()
    sys.stdout.writelines(f"{each}\n" for each in preflight.notes)
    sys.stderr.writelines(f"error: {each}\n" for each in preflight.refusals)
    if preflight.refusals:
        sys.stderr.write("error: nothing was made; correct what is named above, then run this build again\n")
        return 1
    sys.stdout.write("The variables, settings, state and quotas fit, as far as they could be read\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
