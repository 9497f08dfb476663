"""Who is let through to a function, with tokens as Pub/Sub's stand-in signs them."""

import time

import pytest

from demo.deploy.front_door import FrontDoor, read_keys
from standins.processes.local_answers import Answer, Asked, LocalAnswers
from standins.pubsub.push.tokens import TokenSigner

ADDRESS = "https://collect-1.us-east5.run.app"
PUSH = "push@a-project.iam.gserviceaccount.com"
SIGNER = TokenSigner(time.time)


def a_door(behind: str = "http://127.0.0.1:9", signer: TokenSigner = SIGNER) -> FrontDoor:
    return FrontDoor(
        "collect", audiences={ADDRESS}, invokers={PUSH}, behind=behind, find_keys=lambda: read_keys(signer.jwks())
    )


def call(door: FrontDoor, authorization: str) -> Answer:
    return door.answer(Asked("/", {"Authorization": authorization, "Content-Type": "text/x"}, b"a body"))


def a_token(email: str = PUSH, audience: str = ADDRESS) -> str:
    return f"Bearer {SIGNER.token(email=email, audience=audience)}"


def test_a_call_of_an_account_that_may_reaches_the_function() -> None:
    heard: list[Asked] = []

    def answer(asked: Asked) -> Answer:
        heard.append(asked)
        return Answer(418, b"said", "text/y")

    with LocalAnswers(answer) as function:
        door = a_door(function.url)
        found_answer = call(door, a_token())

    assert found_answer == Answer(418, b"said", "text/y")
    assert [each.body for each in heard] == [b"a body"]
    assert "authorization" not in {key.lower() for key in heard[0].headers}
    assert (door.passed, door.refused) == (1, [])


@pytest.mark.parametrize(
    ("authorization", "status", "why"),
    [
        ("", 401, "there is none"),
        ("Basic abc", 401, "there is none"),
        ("Bearer abc", 401, "no valid token"),
        (a_token(audience="https://another.run.app"), 401, "audience"),
        (a_token(email="other@a-project.iam.gserviceaccount.com"), 403, "may not call collect"),
    ],
)
def test_another_call_is_refused(authorization: str, status: int, why: str) -> None:
    door = a_door()

    assert call(door, authorization).status == status
    assert door.passed == 0
    assert why in door.refused[0]


def test_a_token_of_another_issuer_is_refused() -> None:
    assert call(a_door(signer=TokenSigner(time.time)), a_token()).status == 401


def test_a_function_that_does_not_answer_is_unavailable() -> None:
    door = a_door()

    assert call(door, a_token()).status == 503
    assert (door.passed, door.refused) == (0, [])
