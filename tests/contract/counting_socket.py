"""The other side of a connection, which answers by bytes and counts what it is asked."""

from collections.abc import Iterable

from standins.kit.local_answers import Answer, Handler, LocalAnswers


class _Raw(Handler):
    """Writes the next answer as it is; without any it breaks the connection off."""

    side: "Socket"
    wbufsize = 0  # a piece of an answer leaves at once

    def do_GET(self) -> None:  # noqa: N802 -- the name that http.server calls
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.side.requests += 1
        self.close_connection = not self.side.answers
        for piece in self.side.answers.pop(0) if self.side.answers else ():
            self.wfile.write(piece)

    do_POST = do_PUT = do_DELETE = do_GET  # noqa: N815 -- as above


class Socket(LocalAnswers):
    """Answers each request by pieces of bytes, and counts the requests."""

    def __init__(self) -> None:
        self.answers: list[Iterable[bytes]] = []
        self.requests = 0
        super().__init__(lambda _asked: Answer(501), handler=type("Raw", (_Raw,), {"side": self}))


def answer(body: bytes = b"", status: str = "200 OK") -> list[bytes]:
    return [f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n\r\n".encode(), body]
