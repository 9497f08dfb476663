"""A deployment as the pretended Terraform plans, makes and keeps it: resources, outputs, state.

Tests of what reads a plan or a state build it of the same parts.
"""

from typing import Any

FUNCTIONS = ("provision", "collect")
CLUSTER = "module.environment.google_container_cluster.this"
ARTIFACTS = "module.environment.google_storage_bucket.artifacts"
TOPIC = "module.provisioner.google_pubsub_topic.workload_events"
IMAGES = "module.environment.google_artifact_registry_repository.images[0]"

Json = dict[str, Any]


def a_resource(address: str, **attributes: Any) -> Json:
    """Return one managed resource as `terraform state pull` has it, with one instance."""
    module, kind, name = address.removesuffix("[0]").rsplit(".", 2)
    made = {"mode": "managed", "module": module, "type": kind, "name": name}
    return made | {"instances": [{"attributes": attributes}]}


def a_state(*resources: Json) -> Json:
    """Return a state that has only resources."""
    return {"resources": [*resources]}


def a_change(address: str, *actions: str, **values: Any) -> Json:
    """Return what a plan does with one resource, as `terraform show -json` has it."""
    return {"address": address, "type": address.split(".")[2], "change": {"actions": [*actions], **values}}


def a_plan(*changes: Json) -> Json:
    """Return a plan that has only changes."""
    return {"resource_changes": [*changes]}


MADE = (
    CLUSTER,
    ARTIFACTS,
    TOPIC,
    'module.provisioner.google_monitoring_alert_policy.this["dead_letters"]',
    "module.provisioner.google_monitoring_notification_channel.email[0]",
)


def plan_changes(before: Json, values: Json) -> list[Json]:
    """Return the plan as `terraform show -json` has it."""
    named = {"project": values["project_id"], "name": values["name"], "display_name": values["name"]}
    actions = "no-op" if before else "create"
    return [a_change(each, actions, before={"name": values["name"]}, after=named) for each in MADE]


def pull(address: str, outputs: Json) -> Json:
    """Return one resource as `terraform state pull` has it."""
    attributes: Json = {}
    if address == CLUSTER:
        _, project, _, location, _, cluster = outputs["clusters"]["environment"]["path"].split("/")
        attributes = {"project": project, "location": location, "name": cluster, "deletion_protection": True}
    elif address == ARTIFACTS:
        attributes = {"name": outputs["bucket_url"].removeprefix("gs://")}
    elif address == TOPIC:
        _, project, _, topic = outputs["topics"]["workload_events"].split("/")
        attributes = {"project": project, "name": topic}
    return a_resource(address, **attributes)


def deploy(values: Json) -> Json:
    """Return outputs and resources as the root `complete` would have them."""
    project, region, name = values["project_id"], values["region"], values["name"]
    path = f"projects/{project}/locations/{region}/clusters/{values['cluster_name']}"
    accounts = {each: f"{name}-{each}@{project}.iam.gserviceaccount.com" for each in FUNCTIONS}
    pushed = {each: f"{name}-{each.replace('_', '-')}" for each in (*FUNCTIONS, "provision_ends", "collect_ends")}
    outputs = {
        "workload": {"namespace": "n", "kubernetes_account": "a", "google_service_account": ""},
        "bucket_url": f"gs://{values['artifact_repository_bucket_name']}",
        "clusters": {"environment": {"path": path, "private": False}},
        "topics": {"workload_events": f"projects/{project}/topics/{name}-workload-events"},
        "subscriptions": {key: f"projects/{project}/subscriptions/{each}" for key, each in pushed.items()},
        "scheduler_jobs": [
            f"projects/{project}/locations/{region}/jobs/{name}-{each}-environment" for each in FUNCTIONS
        ],
        "helm_values": {"environment": {"cluster": path, "accounts": accounts}},
    }
    return {"outputs": outputs, "resources": list(MADE)}
