"""What a kubeconfig leads to: an address, a token, a server that is trusted; or a refusal that
names the field.
"""

import asyncio
import json
from pathlib import Path

import pytest

from standins.processes.kubeconfig import KubeconfigError, open_async_client, open_client, render_kubeconfig

URL = "http://127.0.0.1:1"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "it is not a mapping"),
        ("[]", "it is not a mapping"),
        ("{", "cannot be read as a kubeconfig"),
        ("{}", "contexts has no entry named None; present: none"),
        ('{"current-context": "x", "contexts": [{"name": "y"}]}', "contexts has no entry named 'x'; present: y"),
        (render_kubeconfig("ftp://x"), "clusters[].cluster.server is 'ftp://x'; valid: an http:// or https://"),
        (render_kubeconfig("https://x", authority=b"no certificate"), "token or certificate: "),
    ],
)
def test_an_unusable_kubeconfig_is_refused_by_file_and_field(tmp_path: Path, text: str, complaint: str) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text(text)

    with pytest.raises(KubeconfigError) as refusal:
        open_client(path)
    assert complaint in str(refusal.value)
    assert str(path) in str(refusal.value)


def test_a_kubeconfig_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(KubeconfigError, match=r"absent: cannot be read"):
        open_client(tmp_path / "absent")


@pytest.mark.parametrize("inline", [True, False], ids=["token", "tokenFile"])
def test_address_and_token_of_the_current_context_are_used(tmp_path: Path, *, inline: bool) -> None:
    config = json.loads(render_kubeconfig(URL, token="secret"))
    if not inline:
        config["users"][0]["user"] = {"tokenFile": "token"}
        (tmp_path / "token").write_text("secret\n")
    path = tmp_path / "kubeconfig"
    path.write_text(json.dumps(config))
    client = open_async_client(path)

    assert (str(client.base_url), client.headers["Authorization"]) == (URL, "Bearer secret")
    asyncio.run(client.aclose())
