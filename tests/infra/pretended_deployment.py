"""A deployment as the pretended Terraform plans, makes and keeps it: resources, outputs, state.

Tests of what reads a plan or a state build it of the same parts.
"""

import json
from typing import Any

FUNCTIONS = ("provision", "collect", "settle", "sweep")
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


def plan_changes(before: dict[str, Any], values: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the plan as `terraform show -json` has it; another cluster is a replacement."""
    after = deploy(values)
    had = before.get("resources", [])
    changes = {each: ["no-op"] if each in had else ["create"] for each in after["resources"]}
    if CLUSTER in had and before["outputs"]["clusters"] != after["outputs"]["clusters"]:
        changes[CLUSTER] = ["delete", "create"]
    return [
        a_change(
            address, *actions, before={"name": address.rpartition(".")[2]}, after=plan_values(address, values)
        )
        for address, actions in changes.items()
    ]


def plan_values(address: str, values: dict[str, Any]) -> dict[str, Any]:
    """Return what a planned resource is called."""
    name = values["name"]
    if "dashboard" in address:
        return {
            "project": values["project_id"],
            "dashboard_json": json.dumps({"displayName": f"TPU provisioner: {name}"}),
        }
    return {
        "project": values["project_id"],
        "name": address.rpartition(".")[2],
        "display_name": f"{name}: {address.split('.')[2]}",
    }


def pull(address: str, outputs: dict[str, Any]) -> dict[str, Any]:
    """Return one resource as `terraform state pull` has it."""
    attributes: dict[str, Any] = {}
    if address == CLUSTER:
        _, project, _, location, _, cluster = outputs["clusters"]["environment"]["path"].split("/")
        attributes = {"project": project, "location": location, "name": cluster, "deletion_protection": True}
    elif address == ARTIFACTS:
        attributes = {"name": outputs["bucket_url"].removeprefix("gs://")}
    elif address == TOPIC:
        _, project, _, topic = outputs["topics"]["workload_events"].split("/")
        attributes = {"project": project, "name": topic}
    return a_resource(address, **attributes)


def deploy(values: dict[str, Any]) -> dict[str, Any]:
    """Return outputs and resources as the root that these variables fit would have them."""
    project, name = values["project_id"], values["name"]
    served = values.get("clusters")
    outputs: dict[str, Any] = {}
    resources = [
        TOPIC,
        "module.provisioner.google_monitoring_dashboard.this",
        'module.provisioner.google_monitoring_alert_policy.this["dead_letters"]',
        "module.provisioner.google_monitoring_notification_channel.email[0]",
    ]
    if served is None:
        served = {
            "environment": {
                "project": project,
                "location": values["region"],
                "name": values["cluster_name"],
                "endpoint": values.get("control_plane_access"),
            }
        }
        outputs["workload"] = {"namespace": "n", "kubernetes_account": "a", "google_service_account": ""}
        outputs["bucket_url"] = f"gs://{values['artifact_repository_bucket_name']}"
        resources += [CLUSTER, ARTIFACTS, *([IMAGES] if values.get("image_repository_name") else [])]
    paths = {
        key: f"projects/{each['project']}/locations/{each['location']}/clusters/{each['name']}"
        for key, each in served.items()
    }
    outputs |= {
        "clusters": {
            key: {
                "path": path,
                "endpoint": "https://127.0.0.1:1",
                "exporter_environment": {"TPU_PROVISIONER_CLUSTER": path},
                **({"ca_data": "LS0t"} if served[key].get("endpoint") == "private" else {}),
            }
            for key, path in paths.items()
        },
        "topics": {"workload_events": f"projects/{project}/topics/{name}-workload-events"},
        "subscriptions": {
            each: f"projects/{project}/subscriptions/{name}-{each}" for each in ("provision", "collect", "settle")
        },
        "scheduler_job": f"projects/{project}/locations/{values['region']}/jobs/{name}-sweep",
        "rbac_users": [f"{name}-{each}@{project}.iam.gserviceaccount.com" for each in FUNCTIONS],
        "exporter_principals": {project: "principal://x/subject/ns/tpu-provisioner/sa/tpu-provisioner-exporter"},
        "accounts": {each: f"{name}-{each}@{project}.iam.gserviceaccount.com" for each in FUNCTIONS},
    }
    return {"outputs": outputs, "resources": resources}
