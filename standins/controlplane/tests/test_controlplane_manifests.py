"""Manifests, ports, keys and kubeconfigs: what a control plane is put together from, without
starting one.
"""

import base64
import contextlib
import ssl
import tempfile
from pathlib import Path

import pytest

from standins.controlplane import users
from standins.controlplane.api_objects import path_of
from standins.controlplane.certificates import write_controller_credentials, write_credentials
from standins.controlplane.controller import render_secret
from standins.controlplane.controller_table import CONTROLLERS
from standins.controlplane.folders import PREFIX, OwnFolder, remove_abandoned
from standins.controlplane.jobset_controller import JOBSET
from standins.controlplane.layout import Layout, choose_ports
from standins.controlplane.product_manifests import ManifestBroken, read_kustomization
from standins.controlplane.recipe import ADDITIONS
from standins.processes.free_ports import HOST
from standins.processes.kubeconfig import open_client, render_kubeconfig
from standins.processes.private_files import write_private

WEBHOOKS = """
kind: MutatingWebhookConfiguration
apiVersion: v1
metadata: {name: m}
webhooks:
- {name: mjobset.kb.io, clientConfig: {service: {path: /jobset}}}
- {name: mpod.kb.io, clientConfig: {service: {path: /pod}}}
- {name: vpod.kb.io, clientConfig: {service: {path: /check}}}
"""
ROLE_BINDING = """
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: b}
roleRef: {kind: Role, name: r}
subjects: [{kind: ServiceAccount, name: controller-manager, namespace: system}]
"""
URL = "https://127.0.0.1:1"


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("resources: [x.yaml]\npatches: []", "patches is not understood here; valid: resources"),
        ("kind: Kustomization", "no list of resources"),
        ("[", "while parsing"),
        ("resources: [absent.yaml]", "absent.yaml: .*No such file"),
        ("resources: [odd.yaml]", "odd.yaml: not a Kubernetes object with apiVersion, kind and metadata"),
    ],
)
def test_a_kustomization_that_is_not_understood_is_refused(tmp_path: Path, text: str, complaint: str) -> None:
    write(tmp_path / "kustomization.yaml", text)
    write(tmp_path / "odd.yaml", "a: b")

    with pytest.raises(ManifestBroken, match=complaint):
        read_kustomization(tmp_path)


def test_webhooks_are_called_at_a_loopback_address_and_only_for_jobsets_pods(tmp_path: Path) -> None:
    write(tmp_path / "config/components/webhook/manifests.yaml", WEBHOOKS)
    (configuration,) = JOBSET.read_webhooks(tmp_path, url=URL, authority=b"pem")
    first, *others = configuration["webhooks"]

    assert configuration["metadata"]["name"] == "jobset-m"
    called = {"url": f"{URL}/jobset", "caBundle": base64.b64encode(b"pem").decode()}
    assert first == {"name": "mjobset.kb.io", "clientConfig": called}
    for webhook in others:
        assert webhook["objectSelector"]["matchExpressions"][0]["key"] == "jobset.sigs.k8s.io/jobset-name"


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (("mpod.kb.io", "other"), "no webhook named mpod.kb.io"),
        (("service: {path: /pod}", "url: x"), "webhook mpod.kb.io: clientConfig has no service"),
    ],
)
def test_webhooks_of_an_unexpected_shape_are_refused(
    tmp_path: Path, change: tuple[str, str], complaint: str
) -> None:
    write(tmp_path / "config/components/webhook/manifests.yaml", WEBHOOKS.replace(*change))

    with pytest.raises(ManifestBroken, match=complaint):
        JOBSET.read_webhooks(tmp_path, url=URL, authority=b"")


def test_jobsets_rights_are_named_as_its_release_names_them(tmp_path: Path) -> None:
    write(tmp_path / "config/components/rbac/b.yaml", ROLE_BINDING)
    namespace, binding = JOBSET.read_rights(tmp_path)

    assert namespace["metadata"]["name"] == "jobset-system"
    assert binding["metadata"] == {"name": "jobset-b", "namespace": "jobset-system"}
    assert binding["roleRef"]["name"] == "jobset-r"
    account = {"kind": "ServiceAccount", "name": JOBSET.account, "namespace": "jobset-system"}
    assert binding["subjects"] == [account]


def test_every_further_controller_is_built_under_its_own_name_with_the_manifests_that_it_reads() -> None:
    products = {product.name: product for product in ADDITIONS}

    # The autoscaler serves a cloud and runs in the tests only.
    assert [name for name in products if not name.startswith("autoscaler")] == list(CONTROLLERS)
    for name, controller in CONTROLLERS.items():
        assert (controller.name, [binary.name for binary in products[name].binaries]) == (name, [name])
        webhooks = {str(Path(controller.webhooks.file).parent)} if controller.webhooks else set()
        assert {controller.definitions, controller.rights} | webhooks == set(products[name].manifests)


def test_a_controller_that_makes_its_own_certificates_finds_them_made(tmp_path: Path) -> None:
    kueue = CONTROLLERS["kueue-0.15"]
    own = kueue.certificates
    assert own is not None
    write_controller_credentials(tmp_path, authority_name=own.authority_name, host_names=(own.host_name,))
    (secret,) = render_secret(kueue, tmp_path)
    client = ssl.create_default_context(cafile=tmp_path / "ca.crt")

    assert path_of(secret) == "/api/v1/namespaces/kueue-system/secrets/kueue-webhook-server-cert"
    assert base64.b64decode(secret["data"]["ca.key"]).startswith(b"-----BEGIN RSA PRIVATE KEY")
    for name in (HOST, own.host_name):
        assert shake_hands(tmp_path / "tls.crt", client, name) == "TLSv1.3"
    assert [path.stat().st_mode & 0o077 for path in tmp_path.iterdir()] == [0] * 4


def test_definitions_are_converted_where_the_controller_converts_them(tmp_path: Path) -> None:
    for name in ("workloads.kueue.x-k8s.io", "topologies.kueue.x-k8s.io"):
        text = f"{{kind: C, apiVersion: v1, metadata: {{name: {name}}}, spec: {{}}}}"
        write(tmp_path / f"config/components/crd/bases/{name}.yaml", text)
    plain, converted = CONTROLLERS["kueue-0.15"].read_definitions(tmp_path, url=URL, authority=b"pem")

    assert plain["spec"] == {}
    assert converted["spec"]["conversion"]["webhook"]["clientConfig"]["url"] == f"{URL}/convert"


def test_an_object_of_a_kind_that_is_not_brought_in_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="kind: 'ConfigMap' is not valid; valid: Namespace, "):
        path_of({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "x"}})


def test_ports_are_different_and_outside_of_what_clients_are_given() -> None:
    ports = choose_ports(controllers=("one", "two"))
    own = [ports.api, ports.etcd, ports.etcd_peers, ports.controllers, ports.scheduler]
    numbers = own + [port for each in ports.of_controllers.values() for port in (each.health, each.webhooks)]

    assert len(set(numbers)) == 9
    assert all(15_000 <= number < 30_000 for number in numbers)


def test_the_kubeconfig_leads_to_a_server_with_our_certificate(tmp_path: Path) -> None:
    layout = Layout(tmp_path / "plane")
    layout.create()
    write_credentials(layout)
    kubeconfig = layout.kubeconfig("admin")
    write_private(kubeconfig, render_kubeconfig(URL, authority=layout.authority.read_bytes(), token="secret"))
    with open_client(kubeconfig) as client:
        trust = client._transport._pool._ssl_context  # type: ignore[attr-defined]
    # What newer Pythons ask for by default.
    trust.verify_flags |= ssl.VerifyFlags.VERIFY_X509_STRICT

    assert shake_hands(layout.serving_certificate, trust) == "TLSv1.3"
    secrets = (layout.serving_key, layout.signing_key, kubeconfig, layout.home)
    assert [path.stat().st_mode & 0o077 for path in secrets] == [0] * 4


def shake_hands(certificate: Path, client: ssl.SSLContext, name: str = HOST) -> str | None:
    """Connect to a server of this certificate in memory; return the protocol, or raise when it is
    not trusted.
    """
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(certificate, certificate.with_suffix(".key"))
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    near = client.wrap_bio(to_client, to_server, server_hostname=name)
    far = server.wrap_bio(to_server, to_client, server_side=True)
    for side in (near, far, near, far):
        with contextlib.suppress(ssl.SSLWantReadError):
            side.do_handshake()
    return near.version()


def test_an_abandoned_folder_is_removed_by_the_next_owner_and_a_used_one_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with OwnFolder() as used:
        abandoned = OwnFolder()
        abandoned._lock.close()
        (tmp_path / f"{PREFIX}just-made").mkdir()

        assert remove_abandoned() == [abandoned.path]
        assert used.path.exists()
    assert [path.name for path in tmp_path.iterdir()] == [f"{PREFIX}just-made"]


def test_controllers_are_who_kubernetes_grants_rights_to_and_the_admin_may_do_everything() -> None:
    table = users.render_token_table({"admin": "a", "controller-manager": "b", "scheduler": "c"})

    assert table.splitlines() == [
        'a,admin,admin,"system:masters"',
        "b,system:kube-controller-manager,controller-manager",
        "c,system:kube-scheduler,scheduler",
    ]
