"""HTTP/1.1 for server.py and frontend.py, with nothing but asyncio.

One request at a time on a connection, bodies by content-length, answers by
content-length or, for streams, one chunk for each event. Every socket has
TCP_NODELAY set: a token must leave when it is made.
"""

import asyncio
import json
import socket
from http import HTTPStatus
from typing import NamedTuple

BODY_LIMIT = 16 << 20
LAST_CHUNK = b"0\r\n\r\n"


class Request(NamedTuple):
    method: str
    path: str
    headers: dict[str, str]
    body: bytes


class BadRequest(Exception):
    """What the client sent cannot be answered; status and reason go back."""

    def __init__(self, status: int, message: str):
        super().__init__(message)
        self.status, self.message = status, message


def parse_headers(lines: list[bytes]) -> dict[str, str]:
    pairs = (line.decode("latin-1").partition(":") for line in lines if line)
    return {name.strip().lower(): value.strip() for name, _, value in pairs}


async def read_request(reader: asyncio.StreamReader) -> Request | None:
    """The next request of a connection; None when the client has hung up."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
    except asyncio.LimitOverrunError:
        raise BadRequest(431, "the header is too long") from None
    first, *lines = head[:-4].split(b"\r\n")
    try:
        method, path, _ = first.decode("latin-1").split(" ")
    except ValueError:
        raise BadRequest(400, "not an HTTP request") from None
    headers = parse_headers(lines)
    if "transfer-encoding" in headers:
        raise BadRequest(411, "a request needs a content-length")
    size = headers.get("content-length", "0")
    if not size.isdigit() or int(size) > BODY_LIMIT:
        raise BadRequest(413, f"content-length {size!r} is not one to read")
    try:
        body = await reader.readexactly(int(size))
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
    return Request(method, path.partition("?")[0], headers, body)


def head(status: int, headers: dict[str, str]) -> bytes:
    lines = [f"HTTP/1.1 {status} {HTTPStatus(status).phrase}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def answer(status: int, body: bytes, kind: str = "application/json") -> bytes:
    return head(status, {"content-type": kind, "content-length": str(len(body))}) + body


def json_answer(status: int, value: object) -> bytes:
    return answer(status, json.dumps(value).encode())


def error_answer(status: int, message: str) -> bytes:
    phrase = HTTPStatus(status).phrase
    return json_answer(status, {"error": {"message": message, "type": phrase, "param": None, "code": status}})


def metrics_answer(text: str) -> bytes:
    return answer(200, text.encode(), "text/plain; version=0.0.4; charset=utf-8")


STREAM_HEAD = head(200, {"content-type": "text/event-stream", "cache-control": "no-cache", "transfer-encoding": "chunked"})


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


def event(value: object) -> bytes:
    """One server-sent event, framed as one chunk."""
    return chunk(b"data: " + json.dumps(value, separators=(",", ":")).encode() + b"\n\n")


async def hung_up(reader: asyncio.StreamReader) -> None:
    """Returns when the client has closed its side, while an answer is under way.

    It looks at the reader instead of reading: a byte read here would be missing
    from the next request.
    """
    while not reader.at_eof() and reader.exception() is None:
        await asyncio.sleep(0.05)


async def serve(host: str, port: int, handle) -> asyncio.Server:
    """Listens and calls handle(request, reader, writer) for each request.

    handle returns False when the connection must not be used again.
    """

    async def connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            while (request := await read_request(reader)) is not None:
                keep = await handle(request, reader, writer)
                await writer.drain()
                if keep is False or request.headers.get("connection", "").lower() == "close":
                    break
        except BadRequest as bad:
            writer.write(error_answer(bad.status, bad.message))
        except ConnectionError:
            pass
        finally:
            writer.close()

    return await asyncio.start_server(connection, host, port, backlog=1024)


def sample(name: str, labels: dict[str, str], value: float) -> str:
    """One line of the Prometheus text format."""
    escape = lambda text: text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    inside = ",".join(f'{key}="{escape(text)}"' for key, text in labels.items())
    return f"{name}{{{inside}}} {value}\n"


def family(name: str, kind: str, help_text: str, samples: list[str]) -> str:
    return f"# HELP {name} {help_text}\n# TYPE {name} {kind}\n" + "".join(samples)
