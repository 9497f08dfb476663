"""Manifests for `plan`, written short: a template by its name, and what is changed in it."""

JOBSET = """
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {name: train, namespace: team-a, annotations: {
  alpha.jobset.sigs.k8s.io/exclusive-topology: cloud.google.com/gke-nodepool}}
spec:
  suspend: false
  replicatedJobs:
    - name: workers
      replicas: 3
      template:
        spec:
          parallelism: 4
          completions: 4
          template:
            spec:
              nodeSelector:
                cloud.google.com/gke-tpu-accelerator: tpu-v6e-slice
                cloud.google.com/gke-tpu-topology: 4x4
              containers: [{name: main, resources: {limits: {google.com/tpu: 4}}}]
    - name: driver
      template: {spec: {template: {spec: {containers: [{name: main}]}}}}
"""
WORKERS = """workerGroupSpecs: [{groupName: tpu, replicas: 2, maxReplicas: 7, numOfHosts: 4, template: {spec: {
  nodeSelector: {cloud.google.com/gke-tpu-accelerator: tpu-v6e-slice, cloud.google.com/gke-tpu-topology: 4x4},
  containers: [{name: c, resources: {limits: {google.com/tpu: 4}}}]}}}]"""
RAYCLUSTER = f"{{apiVersion: ray.io/v1, kind: RayCluster, metadata: {{name: train}}, spec: {{{WORKERS}}}}}"
RAYJOB = RAYCLUSTER.replace("RayCluster", "RayJob").replace("spec: {", "spec: {rayClusterSpec: {", 1) + "}"
SERVING = """
{apiVersion: leaderworkerset.x-k8s.io/v1, kind: LeaderWorkerSet, metadata: {name: train}, spec: {replicas: 1,
  leaderWorkerTemplate: {size: 3, leaderTemplate: {spec: {
    nodeSelector: {cloud.google.com/gke-accelerator: nvidia-l4},
    containers: [{name: c, resources: {limits: {nvidia.com/gpu: 1}}}]}}, workerTemplate: {spec: {
    nodeSelector: {cloud.google.com/gke-accelerator: nvidia-tesla-t4},
    containers: [{name: c, resources: {limits: {nvidia.com/gpu: 1}}}]}}}}}
"""
CRONJOB = """
apiVersion: batch/v1
kind: CronJob
metadata: {name: train}
spec: {suspend: true, jobTemplate: {spec: {completionMode: Indexed, parallelism: 4, completions: 4,
  template: {spec: {
  nodeSelector: {cloud.google.com/gke-tpu-accelerator: tpu-v6e-slice, cloud.google.com/gke-tpu-topology: 4x4},
  containers: [{name: c, resources: {limits: {google.com/tpu: 4}}}]}}}}}
"""
BOMB = "a: &l0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"l{level}: &l{level} [{', '.join([f'*l{level - 1}'] * 10)}]\n" for level in range(1, 12)
)
"""A kilobyte that repeats itself to ten to the twelfth values."""
TEMPLATES = {
    "jobset": JOBSET,
    "raycluster": RAYCLUSTER,
    "rayservice": RAYJOB.replace("RayJob", "RayService").replace("rayClusterSpec", "rayClusterConfig"),
    "rayjob": RAYJOB,
    "serving": SERVING,
    "cronjob": CRONJOB,
    "bomb": BOMB,
    "deep": "[" * 3000,
    "nul": "\0",
    "long": "a: " + "9" * 5000,
}


def spell_out(text: str) -> str:
    """Return a text of a screen with its line breaks and tabs."""
    return text.replace("\\n", "\n").replace("\\t", "\t")


def expand(line: str) -> str:
    """Return the document of a line: its own text, or a template with edits.

    A template is `TEMPLATE NAME | old => new | + selector: value | ^ field of the pods: value`.
    """
    head, *edits = line.split(" | ")
    template, _, name = head.partition(" ")
    if template not in TEMPLATES:
        return spell_out(line)
    text = TEMPLATES[template]
    for edit in edits:
        old, _, new = spell_out(edit).partition(" =>")
        if edit.startswith("+ "):
            old, new = "nodeSelector:", f" nodeSelector:\n                {edit[2:]}"
        if edit.startswith("^ "):
            old, new = "nodeSelector:", f" {edit[2:]}\n              nodeSelector:"
        assert old in text, f"{edit}: {template} has no {old}"
        text = text.replace(old, new.removeprefix(" "))
    return text.replace("name: train", f"name: {name}", 1) if name else text
