"""The parts of a JobSet that admission and the JobSet controller read, as msgspec shapes.

Source of fields: https://jobset.sigs.k8s.io/docs/reference/jobset.v1alpha2/
"""

from msgspec import field

from standins.cluster.objects.shapes import Condition, JobSpec, Json, Metadata, Shape, TemplateMetadata


class JobTemplate(Shape, frozen=True):
    """The Jobs that one replicated job makes."""

    spec: JobSpec
    metadata: TemplateMetadata = TemplateMetadata()


class ReplicatedJob(Shape, frozen=True):
    """A group of equal Jobs."""

    name: str
    template: JobTemplate
    replicas: int = 1
    group_name: str = "default"
    depends_on: list[Json] = field(default_factory=list)


class SuccessPolicy(Shape, frozen=True):
    """When the JobSet counts as completed."""

    operator: str = "All"
    target_replicated_jobs: list[str] = field(default_factory=list)


class FailurePolicy(Shape, frozen=True):
    """What to do when Jobs fail."""

    max_restarts: int = 0
    restart_strategy: str = "Recreate"
    rules: list[Json] = field(default_factory=list)


class StartupPolicy(Shape, frozen=True):
    """In which order replicated jobs start."""

    startup_policy_order: str = "AnyOrder"


class Network(Shape, frozen=True):
    """Host names of the pods."""

    enable_dns_hostnames: bool | None = field(name="enableDNSHostnames", default=None)
    subdomain: str = ""


class Coordinator(Shape, frozen=True):
    """The pod whose address every pod is told."""

    replicated_job: str
    job_index: int = 0
    pod_index: int = 0


class JobSetSpec(Shape, frozen=True):
    """The spec of a JobSet."""

    replicated_jobs: list[ReplicatedJob] = field(default_factory=list)
    success_policy: SuccessPolicy = SuccessPolicy()
    failure_policy: FailurePolicy | None = None
    startup_policy: StartupPolicy = StartupPolicy()
    network: Network = Network()
    coordinator: Coordinator | None = None
    suspend: bool = False
    managed_by: str | None = None
    ttl_seconds_after_finished: int | None = None


class JobSetStatus(Shape, frozen=True):
    """The status of a JobSet."""

    conditions: list[Condition] = field(default_factory=list)
    restarts: int = 0


class JobSetView(Shape, frozen=True):
    """A JobSet."""

    metadata: Metadata = Metadata()
    spec: JobSetSpec = JobSetSpec()
    status: JobSetStatus = JobSetStatus()

    @property
    def finished(self) -> Condition | None:
        """Return the condition that ended the JobSet, if any."""
        ended = {"Completed", "Failed"}
        return next((c for c in self.status.conditions if c.type in ended and c.status == "True"), None)
