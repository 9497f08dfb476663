"""The labels and annotations by which JobSet, Jobs and pods find each other, and nodes' own taints.

Sources: https://jobset.sigs.k8s.io/docs/reference/ and
https://kubernetes.io/docs/reference/labels-annotations-taints/
"""

JOBSET_PREFIX = "jobset.sigs.k8s.io/"
JOBSET_NAME = f"{JOBSET_PREFIX}jobset-name"
JOBSET_UID = f"{JOBSET_PREFIX}jobset-uid"
REPLICATED_JOB_NAME = f"{JOBSET_PREFIX}replicatedjob-name"
REPLICATED_JOB_REPLICAS = f"{JOBSET_PREFIX}replicatedjob-replicas"
GLOBAL_REPLICAS = f"{JOBSET_PREFIX}global-replicas"
JOB_INDEX = f"{JOBSET_PREFIX}job-index"
JOB_GLOBAL_INDEX = f"{JOBSET_PREFIX}job-global-index"
JOB_KEY = f"{JOBSET_PREFIX}job-key"
GROUP_NAME = f"{JOBSET_PREFIX}group-name"
GROUP_REPLICAS = f"{JOBSET_PREFIX}group-replicas"
JOB_GROUP_INDEX = f"{JOBSET_PREFIX}job-group-index"
RESTART_ATTEMPT = f"{JOBSET_PREFIX}restart-attempt"
COORDINATOR = f"{JOBSET_PREFIX}coordinator"
PRIORITY = f"{JOBSET_PREFIX}priority"

EXCLUSIVE_TOPOLOGY = "alpha.jobset.sigs.k8s.io/exclusive-topology"
NODE_SELECTOR_STRATEGY = "alpha.jobset.sigs.k8s.io/node-selector"
NAMESPACED_JOB = "alpha.jobset.sigs.k8s.io/namespaced-job"
NO_SCHEDULE_TAINT = "alpha.jobset.sigs.k8s.io/no-schedule"

BATCH_PREFIX = "batch.kubernetes.io/"
COMPLETION_INDEX = f"{BATCH_PREFIX}job-completion-index"
JOB_NAME = f"{BATCH_PREFIX}job-name"
CONTROLLER_UID = f"{BATCH_PREFIX}controller-uid"
JOB_TRACKING = f"{BATCH_PREFIX}job-tracking"

NOT_READY_TAINT = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
UNSCHEDULABLE_TAINT = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
