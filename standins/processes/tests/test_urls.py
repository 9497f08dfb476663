"""An option that names a server accepts its URL, and says what is valid for anything else."""

import pytest
import typer

from standins.processes.urls import check_url


@pytest.mark.parametrize("url", ["", "http://127.0.0.1:8080", "https://reviews.example/v1?a=b", "http://[::1]:80"])
def test_a_url_is_accepted_as_it_is(url: str) -> None:
    assert check_url(url) == url


@pytest.mark.parametrize(
    "text",
    [
        "nonsense",
        "127.0.0.1:80",
        "ftp://x",
        "http://",
        "http://h:x",
        "http://h:99999",
        "http://h:0",
        "http://[::1",
    ],
)
def test_anything_else_is_refused_with_what_is_valid(text: str) -> None:
    with pytest.raises(typer.BadParameter, match=r"is not a URL \(got '.+'\); valid: http://HOST"):
        check_url(text)
