"""The other side of a connection, which answers by bytes and counts what it is asked."""

import socket
import threading
from contextlib import suppress
from typing import BinaryIO


class Socket:
    """Answers each request by a text of bytes, and counts the requests."""

    def __init__(self) -> None:
        self.answers: list[bytes] = []
        self.requests = 0
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}"
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        with connection, connection.makefile("rb") as reader, suppress(OSError):
            while self._read_request(reader):
                self.requests += 1
                if not self.answers:
                    break
                connection.sendall(self.answers.pop(0))

    @staticmethod
    def _read_request(reader: BinaryIO) -> bool:
        length, line = 0, reader.readline()
        if not line:
            return False
        while line.strip():
            name, _, value = line.partition(b":")
            length = int(value) if name.lower() == b"content-length" else length
            line = reader.readline()
        reader.read(length)
        return True

    def close(self) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self._thread.join(5)


def refuse(status: str) -> bytes:
    return f"HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n".encode()


def answer(body: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)
