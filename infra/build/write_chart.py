#!/usr/bin/env python3
"""Writes the Helm chart of the exporter, infra/helm, from the manifests of infra/kubernetes.

Run as ``python -m infra.build.write_chart`` from the repository's root.

What kustomize's overlay replaces (render_exporter.py) becomes a value of the chart, and nothing
else: both give a cluster the same objects. A test fails if the chart is not what it would write.
"""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CHART = ROOT / "infra/helm"
MANIFESTS = ROOT / "infra/kubernetes"
SOURCES = {
    "base": ("namespace", "exporter-account", "exporter-rights", "functions-rights"),
    "exporter": ("deployment", "disruption-budget", "network-policy"),
    "monitoring": ("pod-monitoring",),
}
"""The parts of the overlay infra/kubernetes/gke, in its order."""
HEAD = "{{/* Made from infra/kubernetes by: python -m infra.build.write_chart */}}\n"
_ACCOUNT = re.compile(r"name: tpu-provisioner-(\w+)@PROJECT_ID\.iam\.gserviceaccount\.com$", re.MULTILINE)
_VALUES = {
    "placeholders, which infra/build/render_exporter.py replaces; with these the exporter would refuse "
    "to start.\n": "values of the chart.\n",
    "          image: exporter\n": "          image: {{ .Values.image | quote }}\n",
    "              value: projects/PROJECT_ID/locations/LOCATION/clusters/CLUSTER\n": (
        "              value: {{ .Values.cluster | quote }}\n"
    ),
    "              value: projects/PROJECT_ID/topics/TOPIC\n": (
        "              value: {{ .Values.topic | quote }}\n"
    ),
    '              value: "10"\n': (
        '              value: "10"\n'
        "            {{- range $name, $value := .Values.environment }}\n"
        "            - name: {{ $name }}\n"
        "              value: {{ $value | quote }}\n"
        "            {{- end }}\n"
    ),
}
"""Each placeholder of the Deployment, with what the chart has in its place."""


def render_chart() -> dict[str, str]:
    """Return the text of each template by its file name.

    Raises:
        ValueError: a manifest lacks a placeholder, or has one that the chart has no value for.
    """
    found = {}
    for folder, names in SOURCES.items():
        for name in names:
            text = (MANIFESTS / folder / f"{name}.yaml").read_text(encoding="utf-8")
            text = _ACCOUNT.sub(r"name: {{ .Values.accounts.\1 | quote }}", text)
            if name == "deployment":
                text = _replace(text)
            if folder == "monitoring":
                text = "{{- if .Values.monitoring }}\n" + text + "{{- end }}\n"
            if left := re.search(r"PROJECT_ID|\bTOPIC$|/CLUSTER$", text, re.MULTILINE):
                raise ValueError(f"{folder}/{name}.yaml: {left[0]} has no value in the chart")
            found[f"{name}.yaml"] = HEAD + text
    return found


def _replace(text: str) -> str:
    for old, new in _VALUES.items():
        if text.count(old) != 1:
            raise ValueError(f"exporter/deployment.yaml: has no single line {old.strip()!r}")
        text = text.replace(old, new)
    return text


def main() -> None:
    """Write the templates."""
    folder = CHART / "templates"
    folder.mkdir(parents=True, exist_ok=True)
    for path in folder.iterdir():
        path.unlink()
    for name, text in render_chart().items():
        (folder / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
