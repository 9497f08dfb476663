"""A boolean or a number in place of a text is named with its line, path and written text."""

from tests.cli.cli_world import run
from tests.field.planned import INPUTS

WORDS = (
    '(line 9): spec.replicatedJobs[1].name: off is a boolean in YAML; write it in quotes: "off"',
    "(line 24): spec.template.spec.containers[0].env[1].value: 0x1F90 is a number in YAML; write it in quotes",
    "(line 40): spec.tolerations[0].value: yes is a boolean in YAML; write it in quotes",
    "(line 52): spec.containers[0].args[1]: 1000 is a number in YAML; write it in quotes",
    "(line 68): spec.containers[0].name: n is a boolean in YAML; write it in quotes",
    "(line 59): metadata.labels.experiment: On is a boolean in YAML; write it in quotes",
)


def test_each_is_named_where_it_is_written() -> None:
    result = run("plan", str(INPUTS / "yaml-booleans.yaml"))

    assert result.exit_code == 2
    assert [text for text in WORDS if text not in result.stderr] == []
    assert result.stderr.count("error: ") == len(WORDS)
