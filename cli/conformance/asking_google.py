"""Asks the questions one after another, within a budget, and removes what each one has made."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cli.conformance.probe_pools import OutOfTime, read_run
from cli.conformance.questions import NotAsked, Question, Seen, Verdict, judge
from cli.conformance.report import Answer
from cli.exit_codes import say as say_error
from cli.moments import format_moment
from shared.core.errors import Misconfigured, ProvisionerError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cli.conformance.probe_pools import Lab

_MINUTE = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """What a run may use, without its clean-up."""

    minutes: float
    dollars: float


def find_obstacle(
    question: Question, *, tpu: str, minutes_left: float, budget: Budget, dollars: float | None
) -> str:
    """Return why a question is not asked; empty if it is. Pure.

    Args:
        question: it.
        tpu: the slice that may be created; empty: none.
        minutes_left: of the budget.
        budget: the limits.
        dollars: what the slice costs by list; None if that is unknown.
    """
    if question.needs_tpu and not tpu:
        return "it needs --tpu"
    if question.needs_tpu and dollars is None:
        return "the price of the slice is unknown, so the budget cannot be kept"
    if question.needs_tpu and (dollars or 0.0) > budget.dollars:
        return f"it can cost ${dollars:.2f}, and --dollars allows ${budget.dollars:.2f}"
    if question.minutes > minutes_left:
        return f"it takes {question.minutes:g} minutes, and --minutes leaves {max(0.0, minutes_left):.1f}"
    return ""


def ask_all(lab: Lab, questions: Sequence[Question], budget: Budget, *, dollars: float | None) -> None:
    """Ask the questions that have no answer yet; the report is kept after each of them.

    The pools of the run are deleted before the first question, after each one, and if the run ends
    early. Those of a run that was killed are deleted here, because the report names that run.

    Raises:
        OutOfTime: pools are left, although their deletion was tried for an hour.
    """
    ends_at = lab.now() + budget.minutes * _MINUTE
    lab.clean()
    for number, question in enumerate(questions, start=1):
        place, answer = f"{number} of {len(questions)}, {question.name}", lab.report.answers.get(question.name)
        if answer is not None and answer.verdict in (Verdict.AS_ASSUMED, Verdict.DIFFERS):
            continue
        left = (ends_at - lab.now()) / _MINUTE
        obstacle = find_obstacle(question, tpu=lab.tpu, minutes_left=left, budget=budget, dollars=dollars)
        if obstacle:
            answer = Answer(assumed=question.assumed, seen=obstacle, verdict=Verdict.NOT_ASKED)
        else:
            lab.tell(f"{place}: {question.does} At most {question.minutes:g} min.")
            try:
                answer = _ask(lab, question)
            finally:
                lab.clean()
        lab.report.add(question.name, answer)
        lab.save()
        lab.tell(f"{place}: {answer.verdict}: {answer.seen}")


def _ask(lab: Lab, question: Question) -> Answer:
    """Return the answer to one question; an error, or the end of its time, is one too."""
    began = lab.now()
    lab.deadline = began + question.minutes * _MINUTE
    try:
        seen = question.ask(lab)
        verdict = judge(question, seen)
    except (NotAsked, Misconfigured) as error:
        seen, verdict = Seen(text=str(error)), Verdict.NOT_ASKED
    except OutOfTime as error:
        seen, verdict = Seen(text=str(error)), Verdict.NO_ANSWER
    except ProvisionerError as error:
        seen, verdict = Seen(text=f"{type(error).__name__}: {say_error(error)}"), Verdict.NO_ANSWER
    return Answer(
        assumed=question.assumed,
        seen=seen.text,
        verdict=verdict,
        at=format_moment(began),
        seconds=round(lab.now() - began, 1),
        details=dict(seen.details),
        faults=[*seen.faults],
        timings=dict(seen.timings),
    )


def list_strangers(lab: Lab) -> list[str]:
    """Return the pools of other runs of this command, which are left alone."""
    return [
        f"{each['name']} (run {read_run(each)})"
        for each in lab.list_pools()
        if read_run(each) not in ("", lab.report.run)
    ]
