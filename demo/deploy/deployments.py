"""What was deployed to the cloud, and where its parts contradict each other.

A call arrives at a function only if address, audience, account and grant agree. Each is set in
another place of Terraform, and no API refuses those that do not agree. Pure.
"""

from dataclasses import dataclass
from typing import Any

from shared.core.errors import Misconfigured
from shared.environment import read_settings

Json = dict[str, Any]

INVOKER, PUBLISHER, SUBSCRIBER = "roles/run.invoker", "roles/pubsub.publisher", "roles/pubsub.subscriber"
TOKEN_CREATOR = "roles/iam.serviceAccountTokenCreator"  # noqa: S105 -- the name of a role
_AGENTS = {"pubsub": "gcp-sa-pubsub", "logging": "gcp-sa-logging"}


@dataclass(frozen=True, slots=True)
class Caller:
    """A push subscription or a scheduler job: what it calls, and as whom."""

    name: str
    address: str
    audience: str
    account: str


@dataclass(frozen=True, slots=True)
class Function:
    """A deployed function, with all that starts its process."""

    name: str
    entry_point: str
    address: str
    service: str
    account: str
    environment: dict[str, str]
    bucket: str
    archive: str


@dataclass(frozen=True, slots=True)
class Deployment:
    """What the APIs know after an apply.

    Args:
        functions: As Cloud Functions lists them.
        jobs: As Cloud Scheduler lists them.
        subscriptions: As Pub/Sub lists them.
        sinks: Log sinks.
        policies: By resource, ``HOST/NAME``: its IAM policy.
        number: The project's number.
    """

    functions: tuple[Json, ...]
    jobs: tuple[Json, ...]
    subscriptions: tuple[Json, ...]
    sinks: tuple[Json, ...]
    policies: dict[str, Json]
    number: str

    def list_functions(self) -> list[Function]:
        """Return the functions by their names."""
        return [_read_function(each) for each in sorted(self.functions, key=lambda each: str(each["name"]))]

    def list_jobs(self) -> list[Caller]:
        """Return the scheduler's jobs that call by HTTP."""
        return [
            _read_caller(each["name"], each["httpTarget"], "uri") for each in self.jobs if "httpTarget" in each
        ]

    def list_pushes(self) -> list[Caller]:
        """Return the subscriptions that push."""
        return [
            _read_caller(each["name"], each["pushConfig"], "pushEndpoint")
            for each in self.subscriptions
            if each.get("pushConfig", {}).get("pushEndpoint")
        ]

    def list_invokers(self, service: str) -> set[str]:
        """Return the accounts that may call a Cloud Run service."""
        members = self._members(f"run.googleapis.com/{service}", INVOKER)
        return {each.removeprefix("serviceAccount:") for each in members}

    def find_problems(self) -> list[str]:
        """Return what cannot work, in one line each; nothing if all parts agree."""
        problems = [] if self.functions else ["no function is deployed"]
        by_address = {each.address: each for each in self.list_functions()}
        called = [*self.list_pushes(), *self.list_jobs()]
        for each in called:
            problems += self._check_caller(each, by_address)
        uncalled = by_address.keys() - {each.address for each in called}
        problems += [f"{by_address[each].name}: nothing calls it" for each in sorted(uncalled)]
        for subscription in self.subscriptions:
            problems += self._check_subscription(subscription)
        for sink in self.sinks:
            problems += self.check_publisher(
                sink["destination"].partition("/")[2], self._agent("logging"), sink["name"]
            )
        for function in by_address.values():
            problems += _check_variables(function)
            topic = function.environment.get("TPU_PROVISIONER_DEAD_LETTER_TOPIC", "")
            if topic:
                problems += self.check_publisher(topic, f"serviceAccount:{function.account}", function.name)
        return problems

    def check_publisher(self, topic: str, member: str, who: str) -> list[str]:
        """Return a line if a member may not publish to a topic."""
        if member in self._members(f"pubsub.googleapis.com/{topic}", PUBLISHER):
            return []
        return [f"{who}: {member} may not publish to {topic} ({PUBLISHER})"]

    def _check_caller(self, caller: Caller, by_address: dict[str, Function]) -> list[str]:
        function = by_address.get(caller.address)
        if function is None:
            return [f"{caller.name}: calls {caller.address}, which is no function's address"]
        problems = []
        if caller.audience != caller.address:
            problems.append(f"{caller.name}: the audience {caller.audience!r} is not the address {caller.address}")
        if caller.account not in self.list_invokers(function.service):
            problems.append(f"{caller.name}: {caller.account!r} may not call {function.name} ({INVOKER})")
        return problems

    def _check_subscription(self, subscription: Json) -> list[str]:
        name, agent, problems = subscription["name"], self._agent("pubsub"), []
        account = subscription.get("pushConfig", {}).get("oidcToken", {}).get("serviceAccountEmail", "")
        if account:
            project = account.partition("@")[2].partition(".")[0]
            resource = f"iam.googleapis.com/projects/{project}/serviceAccounts/{account}"
            if agent not in self._members(resource, TOKEN_CREATOR):
                problems.append(f"{name}: Pub/Sub may make no token of {account} ({TOKEN_CREATOR})")
        topic = subscription.get("deadLetterPolicy", {}).get("deadLetterTopic", "")
        if topic:
            problems += self.check_publisher(topic, agent, name)
            if agent not in self._members(f"pubsub.googleapis.com/{name}", SUBSCRIBER):
                problems.append(f"{name}: Pub/Sub may not take dead letters from it ({SUBSCRIBER})")
        return problems

    def _members(self, resource: str, role: str) -> set[str]:
        bindings = self.policies.get(resource, {}).get("bindings", [])
        return {member for each in bindings if each["role"] == role for member in each["members"]}

    def _agent(self, service: str) -> str:
        return f"serviceAccount:service-{self.number}@{_AGENTS[service]}.iam.gserviceaccount.com"


def _check_variables(function: Function) -> list[str]:
    try:
        read_settings(function.environment)
    except Misconfigured as error:
        return [f"{function.name}: its start stops: {' '.join(str(error).split())}"]
    return []


def _read_caller(name: str, target: Json, address: str) -> Caller:
    token = target.get("oidcToken", {})
    return Caller(name, target[address], token.get("audience", ""), token.get("serviceAccountEmail", ""))


def _read_function(body: Json) -> Function:
    service, source = body["serviceConfig"], body["buildConfig"]["source"]["storageSource"]
    return Function(
        name=body["name"].rpartition("/")[2],
        entry_point=body["buildConfig"]["entryPoint"],
        address=service["uri"],
        service=service["service"],
        account=service.get("serviceAccountEmail", ""),
        environment=dict(service.get("environmentVariables", {})),
        bucket=source["bucket"],
        archive=source["object"],
    )
