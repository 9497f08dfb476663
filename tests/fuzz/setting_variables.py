"""Settings: a wrong variable stops the start with its name; what is accepted serves a demand."""

import json
import ssl
from dataclasses import dataclass
from typing import Any
from unittest import mock

from cli.access.cli_settings import OperatorSettings, read_environment, read_plan_settings
from exporter.exporter_settings import ExporterSettings, read_exporter_settings
from shared.core.errors import Misconfigured
from shared.core.settings import Settings
from shared.environment import PREFIX, name_variable, read_settings
from shared.wiring import build_ports
from tests.builders import CLUSTER, a_demand_event
from tests.component.world import World
from tests.fuzz.border import Border, Lost
from tests.fuzz.recording import recording
from tests.fuzz.spoiling import Recipe, odd_text, spoil, spoil_level, write

_CLUSTERS = (
    b'{"projects/p/locations/us-east5/clusters/c": {"endpoint": "http://10.0.0.1", "zone": "us-east5-b"},'
    b' "projects/p/locations/us-east5/clusters/d": {"endpoint": "https://a.us-east5.gke.goog"}}'
)
_FUNCTIONS: dict[str, bytes] = {
    "clusters": _CLUSTERS,
    "kinds": b'["JobSet", "Pod"]',
    "mode": b"active",
    "own_namespace": b"tpu-provisioner",
    "namespace_modes": b'{"team-a": "no-create", "team-b": "report-only"}',
    "allowed_namespaces": b'["team-*", "default"]',
    "allowed_accelerators": b"tpu-*,nvidia-*",
    "allowed_node_service_accounts": b"*@p.iam.gserviceaccount.com",
    "allowed_node_networks": b'["net:sub"]',
    "allowed_label_prefixes": b"*",
    "allowed_reservations": b'["team-*", "shared"]',
    "allowed_shared_reservations": b"shared-project/train-*",
    "capacity_policies": b'[{"namespaces": ["team-*"], "priorities": [{"spot": true}, {}]}]',
    "copy_labels": b"team,cost",
    "capacity_first": b"true",
    "release_partial_gang_seconds": b"1800",
    "limit_chips": b"512",
    "limit_chips_per_namespace": b"256",
    "limit_slices": b"9",
    "sweep_deletions_max": b"50",
    "grace_seconds": b"300",
    "creation_seconds_max": b"3600",
    "drain_seconds_max": b"900",
    "flex_start_wait_seconds": b"86400",
    "nodes_from": b'{"on-demand": "creation", "spot": "autoscaler"}',
    "node_wait_seconds": b"900",
    "autoscaled_pools_max": b"150",
    "idle_seconds": b"1800",
    "kueue_admission_check": b"true",
    "idle_seconds_max": b"3600",
    "replace_differing_pools": b"true",
    "timeout_seconds": b"60",
    "force_on_demand": b"false",
    "node_service_account": b"nodes@p.iam.gserviceaccount.com",
    "node_tags": b"a,b",
    "node_disk_type": b"pd-ssd",
    "node_daemonsets_cpu_millis": b"300",
    "node_daemonsets_memory_mib": b"500",
    "node_disk_size_gb": b"100",
    "node_disk_size_gb_max": b"1000",
    "node_secondary_boot_disk": b"projects/p/global/images/i",
    "node_additional_networks": b"net:sub,other:sub",
    "node_boot_disk_kms_key": b"projects/p/locations/l/keyRings/r/cryptoKeys/k",
    "node_confidential_storage": b"true",
    "node_secure_boot": b"true",
    "node_max_pods": b"15",
    "node_workload_identity": b"true",
    "resource_labels": b'{"cost": "center-7"}',
    "max_run_duration_seconds": b"3600",
    "workload_policy_prefix": b"tpu-",
    "credentials": b"anonymous",
    "gke_endpoint": b"https://container.googleapis.com",
    "compute_endpoint": b"https://compute.googleapis.com",
    "pubsub_endpoint": b"https://pubsub.googleapis.com",
    "dead_letter_topic": b"projects/p/topics/dead",
}
_COMMANDS: dict[str, bytes] = {
    **_FUNCTIONS,
    "topic": b"projects/p/topics/events",
    "operations_topic": b"projects/p/topics/ends",
    "subscriptions": b'{"provision": "projects/p/subscriptions/s", "collect": null}',
    "function_uris": b'{"provision": "https://p", "collect": "https://c"}',
    "exporter_url": b"http://127.0.0.1:8080",
    "lease_namespace": b"tpu-provisioner",
    "lease_name": b"tpu-provisioner-exporter",
    "kubeconfig": b"",
    "context": b"gke_p_us-east5_c",
    "logging_endpoint": b"https://logging.googleapis.com",
    "monitoring_endpoint": b"https://monitoring.googleapis.com",
}
_EXPORTER: dict[str, bytes] = {
    "cluster": CLUSTER.encode(),
    "topic": b"projects/p/topics/events",
    "kinds": b"JobSet,Job",
    "kueue_admission_check": b"true",
    "kubeconfig": b"/tmp/kubeconfig",
    "http_host": b"127.0.0.1",
    "http_port": b"8080",
    "buffer_max": b"1000",
    "lease_namespace": b"tpu-provisioner",
    "lease_name": b"tpu-provisioner-exporter",
    "lease_seconds": b"15",
    "drain_seconds": b"1.5",
}
PROGRAMS: dict[str, tuple[dict[str, bytes], tuple[type[Any], ...]]] = {
    "functions": (_FUNCTIONS, (Settings,)),
    "commands": (_COMMANDS, (Settings, OperatorSettings)),
    "exporter": (_EXPORTER, (ExporterSettings,)),
}
"""A valid text for each variable of each program, and the classes that they are read into."""
_NUMBERS = (
    *("NaN", "nan", "Infinity", "-inf", "1e400", "-1e400", "1e-400", "1e3", "1_000", "0x10", "007", "+5"),
    *("-0", "--1", "9" * 400, "-" + "9" * 400, "9" * 5_000, "2147483648", "-1", "0", "1", "3601", "0.1"),
    *("1.0", "5 ", " 5", "5s", "٤"),
)
_JSON = (
    *("null", "true", "5", '"x"', "[]", "{}", "[[]]", "[null]", "[5]", '[["a"]]', '[{"a": 1}]'),
    *('{"a": null}', '{"": ""}', '{"a": {"a": {"a": {}}}}', '{"a": "b", "a": "c"}'),
    *('{"a": {"b": 1, "b": 2}}', "[" * 900 + "]" * 900, '["open', "{x", '{"' + "k" * 70_000 + '": "v"}'),
    *('["' + "v" * 70_000 + '"]', '{"a\\u0000b": "\\ud800"}', '["a", "a"]', "[1e400]"),
    *(
        '{"' + CLUSTER + '": {"endpoint": "https://a", "zone": ' + odd + "}}"
        for odd in ("null", "5", "[]", '"\\n"')
    ),
    *('{"' + name + '": {"endpoint": "https://a"}}' for name in ("", "a/b", CLUSTER + "/x", CLUSTER * 2, "p\\nq")),
)
_ONE, _TWO = f'"{CLUSTER}"', f'"{CLUSTER}-2"'
CONTRADICTIONS: tuple[tuple[str, dict[str, str], str], ...] = (
    (
        "functions",
        {"node_confidential_storage": "true", "node_boot_disk_kms_key": ""},
        "node_confidential_storage",
    ),
    (
        "functions",
        {"clusters": f'{{{_ONE}: {{"endpoint": "https://a"}}, {_ONE}: {{"endpoint": "https://b"}}}}'},
        "clusters",
    ),
    (
        "functions",
        {"clusters": f'{{{_ONE}: {{"endpoint": "https://a"}}, {_TWO}: {{"endpoint": "https://a/"}}}}'},
        "clusters",
    ),
    ("functions", {"clusters": f'{{{_ONE}: {{"endpoint": "https://a", "endpoint": "https://b"}}}}'}, "clusters"),
    ("functions", {"namespace_modes": '{"team-a": "report-only", "team-a": "active"}'}, "namespace_modes"),
    ("functions", {"namespace_modes": '{"Team_A": "report-only"}'}, "namespace_modes"),
    ("functions", {"resource_labels": '{"cost": "a", "cost": "b"}'}, "resource_labels"),
    ("functions", {"mode": "active,report-only"}, "mode"),
    ("commands", {"kubeconfig": "/tmp/kubeconfig"}, "kubeconfig"),
    ("commands", {"subscriptions": '{"provision": "a", "provision": "b"}'}, "subscriptions"),
    ("commands", {"subscriptions": '{"provision": "a"}'}, "subscriptions"),
    ("commands", {"topic": "events"}, "topic"),
    ("commands", {"exporter_url": "localhost:8080"}, "exporter_url"),
    ("commands", {"lease_seconds": "15"}, "lease_seconds"),
    ("exporter", {"kinds": "JobSet,JobSets"}, "kinds"),
    ("exporter", {"clusters": "{}"}, "clusters"),
    ("exporter", {"lease_seconds": "1"}, "lease_seconds"),
)
"""What can never be meant, by program: some variables, and the one that the refusal must name."""
_PROBLEM_CHARACTERS_MAX = 2_500
_CONTEXT = ssl.create_default_context()


@dataclass(frozen=True, slots=True)
class Environment:
    """The variables of one process."""

    program: str
    variables: dict[str, str]
    named: str = ""
    """The variable that a refusal must name; without one, the settings may be accepted."""


def list_variables(program: str, changed: dict[str, str] | None = None) -> dict[str, str]:
    """Return valid variables of a program, but for those that are changed."""
    values = {name: text.decode() for name, text in PROGRAMS[program][0].items()} | (changed or {})
    return {name_variable(name): text for name, text in values.items()}


def _build(recipe: Recipe) -> Environment:
    program = recipe.choose(("functions", "functions", "commands", "exporter"))
    of_program, _ = PROGRAMS[program]
    variables = list_variables(program)
    if recipe.number(16) == 1:
        program, changed, named = recipe.choose(CONTRADICTIONS)
        return Environment(program, list_variables(program, changed), name_variable(named))
    for _ in range(recipe.number(5)):
        name = recipe.choose(tuple(of_program))
        variables[name_variable(name)] = _spoil_value(recipe, of_program[name].decode())
    if recipe.number(8) == 1:
        variables[PREFIX + odd_text(recipe)] = "1"
    if recipe.number(8) == 1:
        variables.pop(name_variable(recipe.choose(tuple(of_program))), None)
    if recipe.number(8) == 1:
        chosen = name_variable(recipe.choose(tuple(of_program)))
        variables[chosen.lower().replace(PREFIX.lower(), PREFIX)] = variables.pop(chosen, "")
    return Environment(program, variables)


def _spoil_value(recipe: Recipe, value: str) -> str:
    if value.startswith(("{", "[")) and recipe.number(4):
        found = json.loads(value)
        body = spoil(recipe, value.encode()) if recipe.number(2) else spoil_level(recipe, found)
        return write(body).decode("utf-8", "surrogateescape")
    way = recipe.number(4)
    if way == 0:
        return recipe.choose(_NUMBERS)
    if way == 1:
        return recipe.choose(_JSON)
    return recipe.choose(
        (
            *(odd_text(recipe), value + odd_text(recipe)),
            *(value * 2, f" {value} ", value.upper(), "\udcff", f"{value},{value}"),
        )
    )


def _check(environment: Environment) -> None:
    try:
        start(environment)
    except Misconfigured as error:
        _check_problems(error)
        if environment.named and not any(each.startswith(f"{environment.named}: ") for each in error.problems):
            raise Lost(f"refused without naming {environment.named}") from error
        return
    if environment.named:
        raise Lost(f"a contradiction is accepted: {environment.named}")
    for name, example in PROGRAMS[environment.program][0].items():
        text = environment.variables.get(name_variable(name), "")
        if example.startswith(b"{") and _has_doubled_key(text or "{}"):
            raise Lost(f"a key of {name} comes twice, and only the last one counts")


def _check_problems(error: Misconfigured) -> None:
    """Raise unless each problem names its variable, says what is valid, and is one short line."""
    if not error.problems:
        raise Lost("refused without a problem") from error
    for each in error.problems:
        if not each.startswith(PREFIX):
            raise Lost(f"a problem without the name of its variable: {each}") from error
        if "; valid: " not in each and "did you mean" not in each:
            raise Lost(f"a problem that does not say what is valid: {each}") from error
        if len(each) > _PROBLEM_CHARACTERS_MAX or not each.isprintable():
            raise Lost(f"a problem that is no line for a person: {each[:_PROBLEM_CHARACTERS_MAX]!r}") from error


def _has_doubled_key(text: str) -> bool:
    doubled = []

    def note(pairs: list[tuple[str, Any]]) -> None:
        doubled.append(len(pairs) > len({key for key, _ in pairs}))

    json.loads(text, object_pairs_hook=note, parse_int=str)
    return any(doubled)


def start(environment: Environment) -> None:
    """Read the settings as a program does at its start, and use what it accepts."""
    if environment.program == "exporter":
        read_exporter_settings(environment.variables)
        return
    if environment.program == "commands":
        read_plan_settings(environment.variables, cluster="", zone="us-east5-b")
        read_environment(environment.variables)
        return
    settings = read_settings(environment.variables)
    if not any(each.ca_file or each.ca_data or each.token_file for each in settings.clusters.values()):
        with mock.patch("ssl.create_default_context", return_value=_CONTEXT):
            build_ports(settings)
    with recording() as records:
        world = World(records)
        fields = {name: getattr(settings, name) for name in _FUNCTIONS if name not in ("clusters", "credentials")}
        world.use(**fields)
        world.deliver(a_demand_event())
        world.sweep()
        world.clock.advance(7_200)
        for name in world.pools.names(CLUSTER):
            world.pools.move(CLUSTER, name, "ERROR")
        world.sweep()


def _show(environment: Environment) -> str:
    return f"{environment.program}: {environment.variables!r}"


SETTING_VARIABLES = Border(name="settings", share=0.05, build=_build, check=_check, show=_show)
