"""What the test of changed inputs gives a deployment's second build, for every input."""

PROJECT, HOST_PROJECT = "training-project", "host-project"
APPLIED = {
    "ZONE": "us-east5-a",
    "SERVICES_REGION": "us-east1",
    "NAMESPACE": "another",
    "MORE_NAMESPACES": "one-more",
    "ARTIFACT_REPOSITORY_BUCKET_NAME": "other-artifacts",
    "IMAGE_REPOSITORY": "other-images",
    "TPU_TYPE": "v5litepod-16",
    "NUM_TPU_POOLS": "1",
    "CREATE_TENSORBOARD": "true",
    "TENSORBOARD_REGION": "us-east1",
    "NODE_SERVICE_ACCOUNTS": f"gke-sa@{PROJECT}.iam.gserviceaccount.com",
    "MODE": "report-only",
    "LIMIT_CHIPS": "16",
    "ALERT_EMAIL": "others@example.com",
    "RUNBOOK_URL": "https://example.com/runbook",
    "CONTROL_PLANE_ACCESS": "private",
    "AUTHORIZED_NETWORKS": "10.0.0.0/8",
    "FUNCTIONS_EGRESS": "all",
    "FUNCTIONS_SUBNET": f"projects/{PROJECT}/regions/us-east1/subnetworks/functions",
    "PRIVATE_NODES": "false",
    "BUILD_WORKER_POOL": f"projects/{PROJECT}/locations/us-east1/workerPools/private",
    "ALLOW_DELETE": "bucket/training-artifacts repository/training-images namespace/tpu-training",
}
"""Changed in one build, which applies its plan; the next one has nothing to change."""
REFUSED = {
    "NAME": "other",
    "REGION": "us-east1",
    "CLUSTER_NAME": "other",
    "CLUSTER_LOCATION": "us-east5-b",
    "CLUSTER_PROJECT": "other-project",
    "CREATE_ENVIRONMENT": "false",
    "NETWORK_NAME": "other",
    "SUBNET_NAME": "other",
    "NETWORK_PROJECT": HOST_PROJECT,
}
"""Each of them alone is refused, by the state or by the plan."""
ELSEWHERE = {
    "TF_STATE_BUCKET": "another state: what exists is found, and is of this deployment or refused",
    "TF_STATE_PREFIX": "the same",
    "TERRAFORM_VARIABLES": "any variable of Terraform",
    "KMS_KEY": "private.tftest.hcl of the environment: each pool is replaced, so it is refused",
    "SERVICES_KMS_KEY": "private.tftest.hcl of the provisioner",
    **dict.fromkeys(
        ("NUM_OF_CHIPS", "QUOTAS", "JOBSET_API_VERSION", "KUEUE_API_VERSION", "JOBSET_DIGEST", "KUEUE_DIGEST"),
        "in the cluster only: test_build_queueing.py",
    ),
    **dict.fromkeys(("FUNCTIONS_ARCHIVE", "EXPORTER_IMAGE", "REBUILD_EXPORTER"), "new code, not new resources"),
    **dict.fromkeys(
        ("PLAN_ONLY", "FORCE", "DELETE_STATE", "DELETE_ARTIFACTS"), "what a build does, and not what is"
    ),
}
"""Not changed here, and why."""
