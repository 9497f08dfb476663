"""The runbook answers each alert and each reason of a failed creation."""

import re
from pathlib import Path

import pytest

from shared.model import failures
from shared.model.decisions import CREATED, EVENTS, FAILED, Reason
from shared.plan.attempts import PAUSE_SECONDS, PAUSE_SECONDS_MAX

ROOT = Path(__file__).resolve().parents[2]
RUNBOOK = (ROOT / "docs/runbook.md").read_text()
ALERTS = (ROOT / "infra/terraform/modules/provisioner/alerts.tf").read_text()
REASONS = sorted({Reason.POOL_FAILED, *(reason for reason, _ in failures._PATTERNS)})
COMMANDS = ("gcloud ", "kubectl ", "tpu-provisioner ")
ALERT = re.compile(r'title += "([^"]+)"\n +severity = "(\w+)"\n.+?heading += "([^"]+)"', re.DOTALL)
ALERT_ROW = re.compile(r"^\| ([^|]+) \| ([A-Z]+) \| \[[^]]+\]\(#([-\w]+)\) \|$", re.MULTILINE)
LINK = re.compile(r"\[(\w+)\]\(#(\w+)\)")


def read_section(title: str) -> str:
    """The text below a heading."""
    return re.split(r"^#", RUNBOOK.partition(f"\n### {title}\n")[2], maxsplit=1, flags=re.MULTILINE)[0]


def test_the_page_lists_each_reason_of_a_failed_creation_and_no_other() -> None:
    section = RUNBOOK.partition("\n## A creation failed\n")[2].partition("\n\nTo try again")[0]
    assert sorted(LINK.findall(section)) == [(reason, reason) for reason in REASONS]


@pytest.mark.parametrize("reason", REASONS)
def test_a_reason_has_a_heading_with_what_follows_and_a_command(reason: Reason) -> None:
    section = read_section(reason)

    assert re.findall(r"^- \*\*(Means|Next|You):\*\*", section, re.MULTILINE) == ["Means", "Next", "You"]
    assert any(each.startswith(COMMANDS) for each in re.findall(r"`([^`]+)`", section))


def test_the_pause_is_the_one_that_attempts_have() -> None:
    assert (PAUSE_SECONDS, PAUSE_SECONDS_MAX) == (60, 1800)
    assert "The pause doubles from one minute to thirty" in RUNBOOK


def test_the_table_has_each_alert_with_its_severity_and_its_heading_and_no_other() -> None:
    rows = ALERT_ROW.findall(RUNBOOK.partition("\n## Alerts\n")[2].partition("\n### ")[0])
    alerts = ALERT.findall(ALERTS)
    shown = {
        title: [row[1:] for row in rows if re.fullmatch(re.sub(r"\$\{\w+\}", ".+", title), row[0])]
        for title, _, _ in alerts
    }

    assert len(alerts) == len(rows) == ALERTS.count("  heading ")
    assert shown == {title: [(severity, heading)] for title, severity, heading in alerts}


def test_the_page_names_each_event() -> None:
    assert [each for each in (*EVENTS.values(), CREATED, FAILED) if f"`{each}`" not in RUNBOOK] == []
