"""Settings from the environment: strict, all problems at once, and every field explained."""

import json
import typing
from typing import Any

import msgspec
import pytest

from infra.build.write_reference import _read_notes
from shared.model.errors import Misconfigured
from shared.settings import PREFIX, ClusterSettings, Credentials, Settings, read_settings
from tests.builders import CLUSTER

ONE_CLUSTER = json.dumps({CLUSTER: {"endpoint": "https://c.example"}})
OF_CLUSTER = {"zone": "us-east5-b", "private": True, "endpoint": "https://c", "ca_file": "/ca", "token_file": "/t"}


def environ(**change: str) -> dict[str, str]:
    return {f"{PREFIX}{key}": value for key, value in ({"CLUSTERS": ONE_CLUSTER} | change).items()}


def read(**change: str) -> Settings:
    return read_settings(environ(**change))


def problems(variables: dict[str, str]) -> tuple[str, ...]:
    with pytest.raises(Misconfigured) as wrong:
        read_settings(variables)
    for problem in wrong.value.problems:
        assert problem in str(wrong.value)
    return wrong.value.problems


def problem(**change: str) -> str:
    (found,) = problems(environ(**change))
    return found


def test_one_cluster_is_enough_and_variables_of_others_are_none_of_ours() -> None:
    assert read() == Settings(clusters={CLUSTER: ClusterSettings(endpoint="https://c.example")})
    assert read_settings(environ() | {"PATH": "/bin", "TPU_OTHER": "x"}) == read()


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        ("ALLOWED_NAMESPACES", "ml-*, default", ("ml-*", "default")),
        ("ALLOWED_NAMESPACES", '["ml-*", "default"]', ("ml-*", "default")),
        ("COPY_LABELS", "", ()),
        ("LIMIT_CHIPS", "256", 256),
        ("FORCE_ON_DEMAND", "1", True),
        ("NODE_SECURE_BOOT", "false", False),
        ("NODE_SERVICE_ACCOUNT", "a@p.iam", "a@p.iam"),
        ("RESOURCE_LABELS", '{"a": "b"}', {"a": "b"}),
        ("CREDENTIALS", "anonymous", Credentials.ANONYMOUS),
        ("GKE_ENDPOINT", "http://127.0.0.1:1", "http://127.0.0.1:1"),
        ("GRACE_SECONDS", "60", 60),
        ("CLUSTERS", json.dumps({CLUSTER: OF_CLUSTER}), {CLUSTER: msgspec.convert(OF_CLUSTER, ClusterSettings)}),
    ],
)
def test_each_type_of_setting_is_read(key: str, text: str, value: Any) -> None:
    assert getattr(read(**{key: text}), key.lower()) == value


def of_clusters(**fields: Any) -> str:
    return json.dumps({CLUSTER: fields})


@pytest.mark.parametrize(
    ("key", "text", "words"),
    [
        ("CREDENTIALS", "off", ("is not valid (got 'off')", "; valid: google, anonymous")),
        ("CREDENTIALS", "", ("is not valid (got '')",)),
        ("RESOURCE_LABELS", "a=off", ("is not valid (got 'a=off')", "; valid: a JSON object")),
        ("ALLOWED_NAMESPACES", '["a", 1]', ("Expected `str`, got `int`",)),
        ("ALLOWED_NAMESPACES", "[a", ("is malformed", "; valid: a comma-separated list")),
        ("KINDS", "JobSet,Kettle", ("is not valid (got 'JobSet,Kettle')", "; valid: one or more of JobSet, ")),
        ("LIMIT_CHIPS", "many", ("is not valid (got 'many'); valid: a number from 0 to 2147483647",)),
        ("LIMIT_CHIPS", "1.5", ("is not valid (got '1.5')",)),
        ("LIMIT_CHIPS", "-1", ("is not valid (got '-1'); valid: a number from 0 to 2147483647",)),
        ("LIMIT_CHIPS", "x" * 10_000, ("'" + "x" * 80 + "'",)),
        ("FORCE_ON_DEMAND", "maybe", ("is not valid (got 'maybe'); valid: true or false",)),
        ("RESOURCE_LABELS", '{"a": 1}', ("Expected `str`, got `int` - at `$[...]`",)),
        ("GRACE_SECONDS", "0", ("is not valid (got '0'); valid: a number from 1 to 2147483647",)),
        ("DELETIONS_PER_MINUTE_MAX", "0", ("is not valid (got '0'); valid: a number from 1 to 2147483647",)),
        ("NODE_MAX_PODS", "7", ("(got '7'); valid: a number from 8 to 256",)),
        ("NODE_MAX_PODS", "257", ("(got '257'); valid: a number from 8 to 256",)),
        ("NODE_ADDITIONAL_NETWORKS", "net", ("is not valid (got 'net'); valid: a comma-separated list",)),
        ("CLUSTERS", "{}", ("length >= 1", '; valid: {"projects/PROJECT/')),
        ("CLUSTERS", '{"c": {"endpoint": "https://c"}}', ("Expected `str` matching regex", "valid: {")),
        ("CLUSTERS", of_clusters(endpoint="c.example"), ("matching regex", "`$[...].endpoint`", "c.example")),
        ("CLUSTERS", of_clusters(endpoint="https://c", zonee="z"), ("unknown field `zonee`",)),
        ("CLUSTERS", json.dumps({CLUSTER: "https://c"}), ("Expected `object`, got `str` - at `$[...]`",)),
        ("GRACE_SECOND", "x", ("is not a setting", "did you mean TPU_PROVISIONER_GRACE_SECONDS?")),
        ("kinds", "x", ("is not a setting",)),
        ("XYZZY" * 12, "x", ("is not a setting", "; valid: TPU_PROVISIONER_ and one of ALLOWED_ACCELERATORS, ")),
        ("MODE", "x" * 10_000, ("is not a setting",)),
    ],
)
def test_a_wrong_value_or_name_is_told_with_what_is_valid(key: str, text: str, words: tuple[str, ...]) -> None:
    message = problem(**{key: text})

    assert message.startswith(f"{PREFIX}{key}: ")
    assert [word for word in words if word not in message] == []
    assert len(message) < 1000


def test_a_missing_cluster_is_named() -> None:
    (message,) = problems({})

    assert message.startswith(f"{PREFIX}CLUSTERS: is required; valid: ")


def test_every_problem_is_told_at_once() -> None:
    wrong = {"MODE": "off", "LIMIT_CHIPS": "many", "LIMITS": "1", "GRACE_SECONDS": "0", "NODE_MAX_PODS": "1"}
    found = problems(environ(**wrong))

    assert sorted(each.split(":")[0].removeprefix(PREFIX) for each in found) == sorted(wrong)


def test_each_setting_is_explained_beside_it_and_numbers_say_their_unit() -> None:
    for kind in (Settings, ClusterSettings):
        fields = {field.name for field in msgspec.structs.fields(kind)}
        assert fields == _read_notes(kind).keys()
    numbers = [name for name, hint in typing.get_type_hints(Settings).items() if hint is int]
    units = ("_seconds", "_seconds_max", "_gb", "_max", "_pods", "_millis", "_mib")

    assert len(numbers) > 5
    assert [name for name in numbers if not name.endswith(units) and not name.startswith("limit_")] == []
