#!/usr/bin/env python3
"""A small router in front of server.py workers, with Dynamo's frontend metrics.

It chooses a worker for each request, least-loaded or round-robin, and passes the
answer on as it comes, event by event, adding nothing. Least-loaded counts the
requests that it has given to a worker and that have not ended, as Dynamo's does;
so a stopped worker keeps its count and gets little more.

A worker that refuses the connection is passed over. One that breaks off in the
middle breaks off the client's stream too: an end is never made up. There is no
timeout, so a stopped worker's streams freeze and go on.

    python3 frontend.py --port 8000 --worker 127.0.0.1:8100 --worker 127.0.0.1:8101
"""

import argparse
import asyncio
import collections
import itertools
import json
import logging
import signal
import sys
import time
from dataclasses import dataclass

import wire

ENDPOINTS = {"/v1/chat/completions": "chat_completions", "/v1/completions": "completions"}
ERROR_TYPES = {400: "validation", 404: "not_found", 503: "unavailable"}
log = logging.getLogger("frontend")


@dataclass(eq=False)
class Worker:
    host: str
    port: int
    load: int = 0


class Broken(Exception):
    """The worker ended in the middle of its answer."""


class Exchange:
    """One request on its way: the gauges it is counted in, and its end."""

    def __init__(self, counts: "Counts", model: str, endpoint: str, kind: str):
        self.counts, self.model, self.endpoint, self.kind = counts, model, endpoint, kind
        self.queued, self.error = True, "internal"
        counts.active[model] += 1
        counts.waiting[model] += 1
        counts.tokens[model] += 0

    def first_token(self) -> None:
        if self.queued:
            self.queued = False
            self.counts.waiting[self.model] -= 1

    def made(self, tokens: int) -> None:
        self.first_token()
        self.counts.tokens[self.model] += tokens

    def end(self) -> None:
        self.first_token()
        self.counts.active[self.model] -= 1
        status = "error" if self.error else "success"
        self.counts.requests[self.model, self.endpoint, self.kind, status, self.error] += 1


class Counts:
    def __init__(self):
        self.active, self.waiting = collections.Counter(), collections.Counter()
        self.tokens, self.requests = collections.Counter(), collections.Counter()

    def text(self) -> str:
        def by_model(name: str, kind: str, help_text: str, counter: collections.Counter) -> str:
            return wire.family(name, kind, help_text, [wire.sample(name, {"model": model}, n) for model, n in counter.items()])

        total = "dynamo_frontend_requests_total"
        labels = ("model", "endpoint", "request_type", "status", "error_type")
        return "".join([
            by_model("dynamo_frontend_active_requests", "gauge", "Requests from their arrival to the end of their answer.", self.active),
            by_model("dynamo_frontend_inflight_requests", "gauge", "The same under its older name.", self.active),
            by_model("dynamo_frontend_queued_requests", "gauge", "Requests that have no token yet.", self.waiting),
            by_model("dynamo_frontend_output_tokens_total", "counter", "Tokens passed on to clients.", self.tokens),
            wire.family(total, "counter", "Requests ended, by outcome.",
                        [wire.sample(total, dict(zip(labels, key)), n) for key, n in self.requests.items()]),
        ])


class Frontend:
    def __init__(self, workers: list[Worker], mode: str):
        self.workers, self.mode, self.counts = workers, mode, Counts()
        self.turn = itertools.count()

    def order(self) -> list[Worker]:
        """The workers, the one to try first at the front; ties go round."""
        start = next(self.turn) % len(self.workers)
        turned = self.workers[start:] + self.workers[:start]
        return sorted(turned, key=lambda w: w.load) if self.mode == "least-loaded" else turned

    async def connect(self):
        for worker in self.order():
            worker.load += 1  # before the first await, or a burst would all go one way
            try:
                return worker, *await asyncio.open_connection(worker.host, worker.port)
            except OSError as error:
                worker.load -= 1
                log.warning("worker %s:%d: %s", worker.host, worker.port, error)
        return None

    async def handle(self, request: wire.Request, reader, writer) -> bool | None:
        if request.method == "POST" and request.path in ENDPOINTS:
            try:
                body = json.loads(request.body)
                model, stream = str(body.get("model", "")), bool(body.get("stream"))
            except (ValueError, AttributeError):
                model, stream = "", False
            exchange = Exchange(self.counts, model, ENDPOINTS[request.path], "stream" if stream else "unary")
            try:
                return await self.forward(request, reader, writer, exchange)
            finally:
                exchange.end()
        match request.method, request.path:
            case "GET", "/health" | "/live":
                writer.write(wire.json_answer(200, {"status": "healthy", "workers": [f"{w.host}:{w.port}" for w in self.workers]}))
            case "GET", "/metrics":
                writer.write(wire.metrics_answer(self.counts.text()))
            case "GET", "/v1/models":
                return await self.forward(request, reader, writer, None)
            case _:
                writer.write(wire.error_answer(404, f"no {request.method} {request.path} here"))

    async def forward(self, request: wire.Request, reader, writer, exchange: Exchange | None) -> bool:
        """Carries one request to a worker; whoever ends first, worker or client, ends it."""
        carrying = asyncio.create_task(self.carry(request, writer, exchange))
        watching = asyncio.create_task(wire.hung_up(reader))
        try:
            await asyncio.wait([carrying, watching], return_when=asyncio.FIRST_COMPLETED)
            if not carrying.done():
                raise ConnectionResetError("the client has hung up")
            return carrying.result()
        except ConnectionError:
            if exchange:
                exchange.error = "cancelled"
            return False
        except Broken as broken:
            log.warning("%s", broken)
            writer.transport.abort()
            return False
        finally:
            watching.cancel()
            carrying.cancel()
            await asyncio.wait([carrying])  # it closes the worker's connection, which frees the slot

    async def carry(self, request: wire.Request, writer, exchange: Exchange | None) -> bool:
        reached = await self.connect()
        if reached is None:
            if exchange:
                exchange.error = "unavailable"
            writer.write(wire.error_answer(503, "no worker takes connections"))
            return True
        worker, answers, asks = reached
        try:
            asks.write(f"{request.method} {request.path} HTTP/1.1\r\nhost: {worker.host}\r\nconnection: close\r\n"
                       f"content-type: application/json\r\ncontent-length: {len(request.body)}\r\n\r\n".encode() + request.body)
            await pass_on(answers, writer, exchange)
            return True
        except (asyncio.IncompleteReadError, ConnectionResetError) as error:
            if writer.transport.is_closing():
                raise ConnectionResetError("the client has hung up") from error
            raise Broken(f"worker {worker.host}:{worker.port} broke off: {error}") from error
        finally:
            worker.load -= 1
            asks.close()


async def pass_on(answers: asyncio.StreamReader, writer, exchange: Exchange | None) -> None:
    """Copies a worker's answer to the client, a chunk as soon as it is whole."""
    first, *lines = (await answers.readuntil(b"\r\n\r\n"))[:-4].split(b"\r\n")
    status, headers = int(first.split()[1]), wire.parse_headers(lines)
    writer.write(wire.head(status, headers))
    if headers.get("transfer-encoding") != "chunked":
        body = await answers.readexactly(int(headers["content-length"]))
        writer.write(body)
        if exchange and status == 200:
            exchange.made(json.loads(body)["usage"]["completion_tokens"])
    else:
        while size := int(await answers.readuntil(b"\r\n"), 16):
            data = (await answers.readexactly(size + 2))[:-2]
            if exchange and (b'"content":' in data or (b'"text":"' in data and b'"text":""' not in data)):
                exchange.made(1)  # the workers put one token in an event
            writer.write(wire.chunk(data))
            await writer.drain()
        await answers.readexactly(2)
        writer.write(wire.LAST_CHUNK)
    if exchange:
        exchange.error = "" if status == 200 else ERROR_TYPES.get(status, "internal")


async def serve(options: argparse.Namespace) -> None:
    workers = [Worker(host, int(port)) for host, _, port in (w.rpartition(":") for w in options.worker)]
    listening = await wire.serve(options.host, options.port, Frontend(workers, options.router_mode).handle)
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    log.info("%s over %d workers on http://%s:%d", options.router_mode, len(workers), options.host, listening.sockets[0].getsockname()[1])
    await stop.wait()
    listening.close()
    log.info("stopped")


def main() -> int:
    logging.Formatter.converter = time.gmtime
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, datefmt="%m-%d %H:%M:%S",
                        format="%(levelname)s %(asctime)s.%(msecs)03d [%(filename)s:%(lineno)d] %(message)s")
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--worker", action="append", required=True, metavar="HOST:PORT")
    parser.add_argument("--router-mode", choices=["least-loaded", "round-robin"], default="least-loaded")
    asyncio.run(serve(parser.parse_args()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
