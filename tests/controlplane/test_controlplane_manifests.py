"""Manifests, ports, keys and kubeconfigs: what a control plane is put together from, without starting one."""

from __future__ import annotations

import base64
import contextlib
import json
import socket
import ssl
import tempfile
from pathlib import Path

import pytest

from local.controlplane import users
from local.controlplane.certificates import write_controller_credentials, write_credentials
from local.controlplane.controller import render_secret
from local.controlplane.controllers import CONTROLLERS, ControllersClash, choose_controllers
from local.controlplane.folders import PREFIX, OwnFolder, remove_abandoned
from local.controlplane.jobset import JOBSET
from local.controlplane.layout import Layout, choose_ports
from local.controlplane.manifests import ManifestBroken, read_kustomization
from local.controlplane.objects import path_of
from local.controlplane.recipe import ADDITIONS, UnknownAddition
from local.ports import HOST, PortTaken
from shared.edges.kubernetes_connection import connection_from_kubeconfig

MANIFESTS = Path(__file__).resolve().parents[2] / "infra/kubernetes"
WEBHOOKS = """
kind: MutatingWebhookConfiguration
apiVersion: v1
metadata: {name: m}
webhooks:
- {name: mjobset.kb.io, clientConfig: {service: {path: /jobset}}}
- {name: mpod.kb.io, clientConfig: {service: {path: /pod}}}
---
kind: ValidatingWebhookConfiguration
apiVersion: v1
metadata: {name: v}
webhooks:
- {name: vpod.kb.io, clientConfig: {service: {path: /check}}}
"""
ROLE_BINDING = """
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: b}
roleRef: {kind: Role, name: r}
subjects: [{kind: ServiceAccount, name: controller-manager, namespace: system}]
"""


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_our_manifests_are_complete_and_unique():
    things = read_kustomization(MANIFESTS / "local")
    paths = [path_of(each) for each in things]

    assert len(set(paths)) == len(paths)
    assert paths[0] == "/api/v1/namespaces/tpu-provisioner"
    # Each binding names a role and an account that are there.
    for each in things:
        if each["kind"].endswith("Binding"):
            namespace = f"/namespaces/{each['metadata']['namespace']}" if each["roleRef"]["kind"] == "Role" else ""
            role = f"{each['roleRef']['kind'].lower()}s/{each['roleRef']['name']}"
            assert f"/apis/rbac.authorization.k8s.io/v1{namespace}/{role}" in paths
            for subject in each["subjects"]:
                account = f"/api/v1/namespaces/{subject.get('namespace')}/serviceaccounts/{subject['name']}"
                assert subject["kind"] == "User" or account in paths


def test_every_file_of_a_kustomize_folder_is_listed():
    folders = [path.parent for path in MANIFESTS.glob("*/kustomization.yaml")]
    assert {"base", "exporter", "gke", "local", "monitoring", "pinning"} == {folder.name for folder in folders}
    for folder in folders:
        listed = (folder / "kustomization.yaml").read_text()
        files = {path.name for path in folder.glob("*.yaml")} - {"kustomization.yaml"}
        assert [name for name in files if f"- {name}\n" not in listed] == []


def test_no_rule_of_ours_uses_a_wildcard():
    for each in read_kustomization(MANIFESTS / "local"):
        assert "*" not in json.dumps(each.get("rules", []))


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
def test_a_kustomization_that_is_not_understood_is_refused(tmp_path: Path, text: str, complaint: str):
    write(tmp_path / "kustomization.yaml", text)
    write(tmp_path / "odd.yaml", "a: b")

    with pytest.raises(ManifestBroken, match=complaint):
        read_kustomization(tmp_path)


def test_webhooks_are_called_at_a_loopback_address_and_only_for_jobsets_pods(tmp_path: Path):
    write(tmp_path / "config/components/webhook/manifests.yaml", WEBHOOKS)
    mutating, validating = JOBSET.read_webhooks(tmp_path, url="https://127.0.0.1:1", authority=b"pem")
    first, second = mutating["webhooks"]

    assert mutating["metadata"]["name"] == "jobset-m"
    assert first == {
        "name": "mjobset.kb.io",
        "clientConfig": {"url": "https://127.0.0.1:1/jobset", "caBundle": base64.b64encode(b"pem").decode()},
    }
    for webhook in (second, validating["webhooks"][0]):
        assert webhook["objectSelector"]["matchExpressions"][0]["key"] == "jobset.sigs.k8s.io/jobset-name"


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (("mpod.kb.io", "other"), "no webhook named mpod.kb.io"),
        (("service: {path: /pod}", "url: x"), "webhook mpod.kb.io: clientConfig has no service"),
    ],
)
def test_webhooks_of_an_unexpected_shape_are_refused(tmp_path: Path, change: tuple[str, str], complaint: str):
    write(tmp_path / "config/components/webhook/manifests.yaml", WEBHOOKS.replace(*change))

    with pytest.raises(ManifestBroken, match=complaint):
        JOBSET.read_webhooks(tmp_path, url="https://127.0.0.1:1", authority=b"")


def test_jobsets_rights_are_named_as_its_release_names_them(tmp_path: Path):
    write(tmp_path / "config/components/rbac/b.yaml", ROLE_BINDING)
    write(tmp_path / "config/components/rbac/kustomization.yaml", "resources: [b.yaml]")
    namespace, binding = JOBSET.read_rights(tmp_path)

    assert namespace["metadata"]["name"] == "jobset-system"
    assert binding["metadata"] == {"name": "jobset-b", "namespace": "jobset-system"}
    assert binding["roleRef"]["name"] == "jobset-r"
    assert binding["subjects"][0]["name"] == JOBSET.account
    assert binding["subjects"][0]["namespace"] == "jobset-system"


def test_missing_manifests_are_named(tmp_path: Path):
    with pytest.raises(ManifestBroken, match="config/components/crd/bases: no YAML files"):
        JOBSET.read_definitions(tmp_path)


def test_every_further_controller_is_built_under_its_own_name():
    products = {product.name: product for product in ADDITIONS}

    assert list(products) == list(CONTROLLERS)
    for name, controller in CONTROLLERS.items():
        assert controller.name == name
        assert [binary.name for binary in products[name].binaries] == [name]
        folders = {controller.definitions, controller.rights}
        if controller.webhooks is not None:
            folders.add(str(Path(controller.webhooks.file).parent))
        assert folders == set(products[name].manifests)


def test_a_controller_without_webhooks_needs_no_manifests_of_them(tmp_path: Path):
    assert CONTROLLERS["kuberay-1.6"].read_webhooks(tmp_path, url="https://127.0.0.1:1", authority=b"") == []


def test_a_controller_that_makes_its_own_certificates_finds_them_made(tmp_path: Path):
    kueue = CONTROLLERS["kueue-0.15"]
    own = kueue.certificates
    assert own is not None
    write_controller_credentials(tmp_path, authority_name=own.authority_name, host_name=own.host_name)
    (secret,) = render_secret(kueue, tmp_path)
    server, client = (
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER),
        ssl.create_default_context(cafile=tmp_path / "ca.crt"),
    )
    server.load_cert_chain(tmp_path / "tls.crt", tmp_path / "tls.key")

    assert path_of(secret) == "/api/v1/namespaces/kueue-system/secrets/kueue-webhook-server-cert"
    assert base64.b64decode(secret["data"]["ca.key"]).startswith(b"-----BEGIN RSA PRIVATE KEY")
    assert {shake_hands(server, client, name) for name in (HOST, own.host_name)} == {"TLSv1.3"}
    assert [path.stat().st_mode & 0o077 for path in tmp_path.iterdir()] == [0] * 4
    assert render_secret(CONTROLLERS["lws-0.7"], tmp_path) == []


def test_definitions_are_converted_where_the_controller_converts_them(tmp_path: Path):
    for name in ("workloads.kueue.x-k8s.io", "topologies.kueue.x-k8s.io"):
        text = f"{{kind: C, apiVersion: v1, metadata: {{name: {name}}}, spec: {{}}}}"
        write(tmp_path / f"config/components/crd/bases/{name}.yaml", text)
    kueue = CONTROLLERS["kueue-0.15"]
    plain, converted = kueue.read_definitions(tmp_path, url="https://127.0.0.1:1", authority=b"pem")

    assert plain["spec"] == {}
    webhook = converted["spec"]["conversion"]["webhook"]
    assert webhook["clientConfig"]["url"] == "https://127.0.0.1:1/convert"


def test_two_versions_of_one_controller_are_refused_by_name():
    with pytest.raises(ControllersClash, match=r"kuberay-1\.5 and kuberay-1\.6 cannot run in one cluster"):
        choose_controllers(["kuberay-1.6", "kuberay-1.5"])


def test_an_unknown_controller_is_refused_and_the_valid_ones_are_named():
    with pytest.raises(UnknownAddition, match=r"controller: ray is not valid; valid: kuberay-1\.5, "):
        choose_controllers(["ray", "kuberay-1.6"])


def test_an_object_of_a_kind_that_is_not_brought_in_is_refused_by_name():
    with pytest.raises(ValueError, match="kind: 'ConfigMap' is not valid; valid: Namespace, "):
        path_of({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "x"}})


def test_ports_are_different_and_outside_of_what_clients_are_given():
    ports = choose_ports(controllers=("one", "two"))
    own = [ports.api, ports.etcd, ports.etcd_peers, ports.controllers, ports.scheduler]
    numbers = own + [port for each in ports.of_controllers.values() for port in (each.health, each.webhooks)]

    assert list(ports.of_controllers) == ["one", "two"]
    assert len(set(numbers)) == len(numbers) == 9
    assert all(15_000 <= number < 30_000 for number in numbers)


def test_a_taken_port_is_refused_by_number():
    with socket.socket() as holder:
        holder.bind((HOST, 0))
        holder.listen()

        with pytest.raises(PortTaken, match=f"port {holder.getsockname()[1]} on 127.0.0.1 is in use"):
            choose_ports(holder.getsockname()[1])


def test_the_kubeconfig_leads_to_a_server_with_our_certificate(tmp_path: Path):
    layout = Layout(tmp_path / "plane")
    layout.create()
    write_credentials(layout)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(layout.serving_certificate, layout.serving_key)
    kubeconfig = layout.kubeconfig("admin")
    text = users.render_kubeconfig("https://127.0.0.1:1", layout.authority.read_bytes(), "secret")
    users.write_private(kubeconfig, text)
    connection = connection_from_kubeconfig(kubeconfig)

    assert connection.token
    assert connection.token() == "secret"
    assert connection.ssl_context
    # What newer Pythons ask for by default.
    connection.ssl_context.verify_flags |= ssl.VerifyFlags.VERIFY_X509_STRICT
    assert shake_hands(server, connection.ssl_context) == "TLSv1.3"


def shake_hands(server: ssl.SSLContext, client: ssl.SSLContext, name: str = HOST) -> str | None:
    """Connect both in memory and return the agreed protocol; raises when the client does not trust."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    near = client.wrap_bio(to_client, to_server, server_hostname=name)
    far = server.wrap_bio(to_server, to_client, server_side=True)
    for side in (near, far, near, far):
        with contextlib.suppress(ssl.SSLWantReadError):
            side.do_handshake()
    return near.version()


def test_an_abandoned_folder_is_removed_by_the_next_owner_and_a_used_one_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with OwnFolder() as used:
        abandoned = OwnFolder()
        abandoned._lock.close()
        (tmp_path / f"{PREFIX}just-made").mkdir()

        assert remove_abandoned() == [abandoned.path]
        assert used.path.exists()
    assert [path.name for path in tmp_path.iterdir()] == [f"{PREFIX}just-made"]


def test_secrets_are_readable_by_their_owner_only(tmp_path: Path):
    layout = Layout(tmp_path / "plane")
    layout.create()
    write_credentials(layout)
    users.write_private(layout.tokens, "t")

    assert [path.stat().st_mode & 0o077 for path in (layout.serving_key, layout.signing_key, layout.tokens)] == [
        0
    ] * 3
    assert layout.home.stat().st_mode & 0o077 == 0


def test_controllers_are_who_kubernetes_grants_rights_to_and_the_admin_may_do_everything():
    table = users.render_token_table({"admin": "a", "controller-manager": "b", "scheduler": "c"})

    assert table.splitlines() == [
        'a,admin,admin,"system:masters"',
        "b,system:kube-controller-manager,controller-manager",
        "c,system:kube-scheduler,scheduler",
    ]
