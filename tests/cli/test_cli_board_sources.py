"""The board's slow reads: dead letters, shown, replayed or discarded one by one, and decisions."""

import dataclasses
import json
from pathlib import Path

import pytest
from werkzeug.test import Client

from cli.access.operator_access import Deployment
from cli.board.acts import discard_dead_letter, list_dead_letters, replay_dead_letter
from cli.board.readings import Readings
from cli.board.site import TOKEN_HEADER, Site
from cli.exit_codes import BadInput
from shared.model.errors import Misconfigured
from shared.model.times import parse_time
from tests.builders import CLUSTER
from tests.cli.cli_world import a_deployment, logs_of
from tests.cli.test_cli_replay import GOOD, REFUSED, bury, deployment, published, url, world
from tests.engine.world import World

__all__ = ["deployment", "url", "world"]

HOSTILE = "<b>x</b>"
HERE = "http://127.0.0.1:4321"


def test_dead_letters_are_shown_and_stay(url: str, deployment: Deployment) -> None:
    ids = {bury(url, GOOD, **REFUSED), bury(url, GOOD, **REFUSED)}

    for _ in range(2):
        found = list_dead_letters(deployment)
        assert {each.message_id for each in found} == ids
        assert {each.reason for each in found} == {"attempts_exhausted"}
    assert published(url) == []


def test_one_dead_letter_is_replayed_and_the_others_stay(url: str, deployment: Deployment) -> None:
    chosen, other = bury(url, GOOD, **REFUSED), bury(url, GOOD, **REFUSED)

    assert replay_dead_letter(deployment, chosen) == f"dead letter {chosen} is published again"

    assert [each["attributes"] for each in published(url)] == [GOOD.attributes]
    assert [each.message_id for each in list_dead_letters(deployment)] == [other]


def test_one_dead_letter_is_discarded_and_the_others_stay(url: str, deployment: Deployment) -> None:
    chosen, other = bury(url, GOOD, **REFUSED), bury(url, GOOD, **REFUSED)

    assert discard_dead_letter(deployment, chosen) == f"dead letter {chosen} is discarded"

    assert published(url) == []
    assert [each.message_id for each in list_dead_letters(deployment)] == [other]


def test_a_dead_letter_that_is_gone_is_named_and_no_other_is_touched(url: str, deployment: Deployment) -> None:
    kept = bury(url, GOOD, **REFUSED)

    for act in (replay_dead_letter, discard_dead_letter):
        with pytest.raises(BadInput, match="there is no such dead letter now"):
            act(deployment, "999999")
    assert [each.message_id for each in list_dead_letters(deployment)] == [kept]


def test_a_deployment_without_their_subscription_says_so() -> None:
    with pytest.raises(Misconfigured, match="dead_letters"):
        list_dead_letters(a_deployment())


def test_the_page_s_own_post_discards(url: str, deployment: Deployment) -> None:
    chosen = bury(url, GOOD, **REFUSED)
    site = Site(deployment, write=True)
    site.port = 4321
    assert [each["message_id"] for each in site._read()["letters"]] == [chosen]

    answer = Client(site).post(
        "/acts/discard-letter",
        base_url=HERE,
        headers={TOKEN_HEADER: site.token, "Origin": HERE},
        content_type="application/json",
        data=json.dumps({"message_id": chosen}),
    )

    assert (answer.status_code, answer.json) == (200, {"text": f"dead letter {chosen} is discarded"})
    assert site._read()["letters"] == []  # read anew, because an act changed them


def test_decisions_are_the_records_of_what_was_done_or_refused(tmp_path: Path) -> None:
    claim = {"cluster": CLUSTER, "namespace": "ml", "name": HOSTILE}
    decided = {"decision": "create", "reason": "pool_absent", "claim": claim}
    done = {"severity": "NOTICE", "message": "creating", **decided}
    refused = done | {"severity": "WARNING", "decision": "refuse", "message": "no"}
    others = [done | {"severity": "INFO"}, done | {"claim": claim | {"cluster": "another"}}]
    records = [{**each, "time": f"2026-01-01T00:00:0{at}Z"} for at, each in enumerate([done, refused, *others])]
    (tmp_path / "provision.log").write_text("\n".join(map(json.dumps, records)))
    now = parse_time("2026-01-01T01:00:00Z")
    assert now is not None

    world = World()
    world.clock.pause(now - world.clock.now())
    with logs_of(tmp_path) as logs:
        found = Readings(dataclasses.replace(a_deployment(world), open_logs=logs)).read()["decisions"]

    assert [(each["about"], each["text"], each["bad"]) for each in found] == [
        (f"ml/{HOSTILE}", "refuse: no [pool_absent]", True),
        (f"ml/{HOSTILE}", "create: creating [pool_absent]", False),
    ]
