"""The other side of a connection, which answers by bytes."""

from collections.abc import Callable, Iterable

import httpx

from standins.kit.local_answers import Answer, Asked, Handler, LocalAnswers


class _Raw(Handler):
    reply: Callable[[Asked], Iterable[bytes]]
    wbufsize = 0  # a piece of an answer leaves at once

    def do_GET(self) -> None:  # noqa: N802 -- the name that http.server calls
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        for piece in self.reply(Asked(self.path, httpx.Headers(self.headers.items()), body, self.command)):
            self.wfile.write(piece)

    do_POST = do_PUT = do_PATCH = do_DELETE = do_GET  # noqa: N815 -- as above


class RawServer(LocalAnswers):
    """Answers a request by pieces of bytes as they come; a `ConnectionError` breaks it off."""

    def __init__(self, reply: Callable[[Asked], Iterable[bytes]]) -> None:
        super().__init__(lambda _: Answer(501), handler=type("Raw", (_Raw,), {"reply": staticmethod(reply)}))


class Socket(RawServer):
    """Gives one answer after the other, counts the requests, and at last breaks off."""

    def __init__(self) -> None:
        self.answers: list[Iterable[bytes]] = []
        self.requests = 0
        super().__init__(self._pop)

    def _pop(self, _asked: Asked) -> Iterable[bytes]:
        self.requests += 1
        if not self.answers:
            raise ConnectionAbortedError
        return self.answers.pop(0)


def answer(body: bytes = b"", status: str = "200 OK") -> list[bytes]:
    """Return an answer in two pieces; what follows the status are further headers."""
    return [f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n\r\n".encode(), body]
