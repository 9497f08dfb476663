"""The runbook answers each alert and each class of failed creations. Its links have targets."""

import re
from pathlib import Path

import pytest

from shared.model import failures
from shared.model.decisions import CREATED, EVENTS, FAILED, Reason
from shared.plan.attempts import PAUSE_SECONDS, PAUSE_SECONDS_MAX
from tests.tidy.test_house_rules import name_anchor

ROOT = Path(__file__).resolve().parents[2]
RUNBOOK = (ROOT / "docs/runbook.md").read_text()
ALERTS = (ROOT / "infra/terraform/modules/provisioner/alerts.tf").read_text()
CLASSES = sorted({Reason.POOL_FAILED, *(reason for reason, _ in failures._PATTERNS)})
COMMANDS = ("gcloud ", "kubectl ", "tpu-provisioner ")
ALERT = re.compile(r'title += "([^"]+)"\n +severity = "(\w+)"\n.+?heading += "([^"]+)"', re.DOTALL)
ALERT_ROW = re.compile(r"^\| ([^|]+) \| ([A-Z]+) \| \[[^]]+\]\(#([-\w]+)\) \|$", re.MULTILINE)
ROW = re.compile(r"^\| `(\w+)` \| ([^|]+) \| \[([^]]+)\]\(#([-\w]+)\) \|$", re.MULTILINE)


def read_rows() -> dict[str, tuple[str, str, str]]:
    """The table of classes: by class, when the next try is, and title and anchor of its heading."""
    section = RUNBOOK.partition("\n## A creation failed\n")[2].partition("\n## ")[0]
    return {name: (following, title, anchor) for name, following, title, anchor in ROW.findall(section)}


def read_section(title: str) -> str:
    """The text below a heading."""
    return re.split(r"^#", RUNBOOK.partition(f"\n### {title}\n")[2], maxsplit=1, flags=re.MULTILINE)[0]


def test_the_table_has_each_class_and_no_other() -> None:
    assert sorted(read_rows()) == CLASSES


@pytest.mark.parametrize("failure", CLASSES)
def test_a_class_has_a_heading_with_what_follows_and_a_command(failure: Reason) -> None:
    _, title, anchor = read_rows()[failure]
    section = read_section(title)

    assert anchor == name_anchor(title)
    assert re.findall(r"^- \*\*(Means|Next|You):\*\*", section, re.MULTILINE) == ["Means", "Next", "You"]
    assert any(each.startswith(COMMANDS) for each in re.findall(r"`([^`]+)`", section))


@pytest.mark.parametrize("failure", CLASSES)
def test_the_table_says_that_a_class_is_tried_again(failure: Reason) -> None:
    assert read_rows()[failure][0] == "after the pause"


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
