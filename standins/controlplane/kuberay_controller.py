"""The KubeRay operator, in two versions: 1.5 does not say which slice a pod belongs to, 1.6 does.

No webhook: its releases leave theirs off (`config/default` in its module).
"""

from standins.controlplane.controller import Controller, Setting
from standins.processes.addresses import HOST


def _arguments(setting: Setting) -> tuple[str, ...]:
    """Feature gates stay as each version has them."""
    return (
        "--enable-leader-election=false",
        "--metrics-addr=0",
        f"--health-probe-bind-address={HOST}:{setting.ports.health}",
        # As for Kubernetes' own controllers: a burst of pods should take seconds.
        "--qps=300",
        "--burst=600",
    )


def _kuberay(name: str) -> Controller:
    return Controller(
        name=name,
        namespace="kuberay-system",
        account="kuberay-operator",
        definitions="config/crd/bases",
        rights="config/rbac",
        arguments=_arguments,
    )


KUBERAY_1_5 = _kuberay("kuberay-1.5")
KUBERAY_1_6 = _kuberay("kuberay-1.6")
