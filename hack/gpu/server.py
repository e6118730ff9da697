#!/usr/bin/env python3
"""A small real inference server: continuous batching, OpenAI's API, vLLM's metrics.

It exists to give `aicr watch` and `aicr bench` a real GPU to look at. The model
is transformers' Llama with random weights, so the words mean nothing; the work,
the power and the times are real.

engine.py batches, model.py computes, wire.py speaks HTTP; this file is the API
and the command. The engine has a thread of its own, and asyncio serves HTTP in
the main one, so that neither waits for the other.

What it leaves out: sampling (every token is the most likely one, whatever the
temperature), prefix caching, preemption (a request is admitted only with a slot
for its whole length), and a real tokenizer (a word is a token).

    python3 server.py --port 8100                  # a GPU when there is one, else tiny on the CPU
    python3 server.py --self-test                  # batched decoding against each sequence alone
"""

import argparse
import asyncio
import json
import logging
import random
import signal
import sys
import threading
import time
import uuid
import zlib

import torch

import wire
from engine import Engine, Generation
from model import BOS, FIRST_WORD, SIZES, Runner
from selftest import self_test

log = logging.getLogger("server")


def tokenize(text: str, vocabulary: int) -> list[int]:
    return [FIRST_WORD + zlib.crc32(word.encode()) % (vocabulary - FIRST_WORD) for word in text.split()]


def text_of(content: object) -> str:
    if isinstance(content, list):  # content parts
        return " ".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return content if isinstance(content, str) else ""


def whole_number(body: dict, name: str, default: int, least: int) -> int:
    value = body.get(name)
    if value is None:
        return default
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise wire.BadRequest(400, f"{name} must be a whole number of at least {least}")
    return value


class Server:
    def __init__(self, engine: Engine, model: str, worker_id: int):
        self.engine, self.model, self.worker_id = engine, model, worker_id
        self.in_flight, self.started = 0, int(time.time())

    async def handle(self, request: wire.Request, reader, writer) -> bool | None:
        match request.method, request.path:
            case "POST", "/v1/chat/completions":
                return await self.complete(request, reader, writer, chat=True)
            case "POST", "/v1/completions":
                return await self.complete(request, reader, writer, chat=False)
            case "GET", "/v1/models":
                card = {"id": self.model, "object": "model", "created": self.started, "owned_by": "hack", "max_model_len": self.engine.runner.length}
                writer.write(wire.json_answer(200, {"object": "list", "data": [card]}))
            case "GET", "/health" | "/live":
                writer.write(wire.json_answer(200, {"status": "healthy"}))
            case "GET", "/metrics":
                writer.write(wire.metrics_answer(self.metrics()))
            case _:
                writer.write(wire.error_answer(404, f"no {request.method} {request.path} here"))

    def parse(self, request: wire.Request, chat: bool) -> tuple[dict, Generation]:
        try:
            body = json.loads(request.body)
        except ValueError as error:
            raise wire.BadRequest(400, f"the body is not JSON: {error}") from None
        if not isinstance(body, dict):
            raise wire.BadRequest(400, "the body is not a JSON object")
        if body.get("model", self.model) != self.model:
            raise wire.BadRequest(404, f"The model `{body['model']}` does not exist.")
        vocabulary, limit = self.engine.runner.config.vocab_size, self.engine.runner.length
        prompt = [BOS]
        if chat:
            messages = body.get("messages")
            if not isinstance(messages, list) or not messages or not all(isinstance(m, dict) for m in messages):
                raise wire.BadRequest(400, "messages must be a list of at least one message")
            for message in messages:  # a message is a token for its role, and its words
                prompt += tokenize("role:" + str(message.get("role")), vocabulary)[:1] + tokenize(text_of(message.get("content")), vocabulary)
        else:
            given = body.get("prompt")
            if isinstance(given, list) and len(given) == 1 and isinstance(given[0], str):
                given = given[0]
            if not isinstance(given, str):
                raise wire.BadRequest(400, "prompt must be one string")
            prompt += tokenize(given, vocabulary)
        room = limit - len(prompt)
        asked = whole_number(body, "max_tokens", max(room, 1) if chat else 16, 1)
        asked = whole_number(body, "max_completion_tokens", asked, 1)
        if asked > room:
            raise wire.BadRequest(400, f"This model's maximum context length is {limit} tokens. "
                                       f"{len(prompt)} in the prompt and {asked} to generate are more.")
        least = whole_number(body, "min_tokens", 0, 0)
        return body, Generation(prompt, asked, least, bool(body.get("ignore_eos")))

    async def complete(self, request: wire.Request, reader, writer, chat: bool) -> bool:
        try:
            body, generation = self.parse(request, chat)
        except wire.BadRequest as bad:
            writer.write(wire.error_answer(bad.status, bad.message))
            return True

        self.in_flight += 1
        self.engine.submit(generation)
        watcher = asyncio.create_task(wire.hung_up(reader))
        watcher.add_done_callback(lambda _: generation.events.put_nowait(None))
        try:
            answer = self.stream if body.get("stream") else self.unary
            return await answer(body, generation, writer, chat)
        finally:
            self.engine.abort(generation)  # nothing, where it has come to its end
            watcher.cancel()
            self.in_flight -= 1

    def frame(self, body: dict, chat: bool) -> dict:
        kind = "chat.completion" if chat else "text_completion"
        if chat and body.get("stream"):
            kind += ".chunk"
        return {"id": ("chatcmpl-" if chat else "cmpl-") + str(uuid.uuid4()), "object": kind, "created": int(time.time()), "model": self.model}

    def extensions(self, body: dict) -> dict:
        """Dynamo's way to tell who served a request, when it is asked for."""
        wanted = body.get("nvext") or {}
        if not isinstance(wanted, dict) or "worker_id" not in (wanted.get("extra_fields") or []):
            return {}
        return {"nvext": {"worker_id": {"prefill_worker_id": self.worker_id, "decode_worker_id": self.worker_id}}}

    @staticmethod
    def usage(generation: Generation, made: int) -> dict:
        return {"prompt_tokens": len(generation.prompt), "completion_tokens": made, "total_tokens": len(generation.prompt) + made}

    async def stream(self, body: dict, generation: Generation, writer, chat: bool) -> bool:
        frame, extra = self.frame(body, chat), self.extensions(body)
        writer.write(wire.STREAM_HEAD)

        def send(words: str, reason: str | None) -> None:
            if chat:
                choice = {"index": 0, "delta": {"role": "assistant"} | ({"content": words} if words else {})}
            else:
                choice = {"index": 0, "text": words}
            choice |= {"finish_reason": reason, "logprobs": None}
            writer.write(wire.event(frame | {"choices": [choice], "usage": None} | extra))

        made, reason = 0, None
        while reason is None:
            event = await generation.events.get()
            if event is None:
                return False
            token, reason = event
            made += 1
            if reason != "stop":
                send(f" w{token}", None)
            await writer.drain()
        send("", reason)
        if isinstance(options := body.get("stream_options"), dict) and options.get("include_usage"):
            writer.write(wire.event(frame | {"choices": [], "usage": self.usage(generation, made)}))
        writer.write(wire.chunk(b"data: [DONE]\n\n") + wire.LAST_CHUNK)
        return True

    async def unary(self, body: dict, generation: Generation, writer, chat: bool) -> bool:
        words, made, reason = [], 0, None
        while reason is None:
            event = await generation.events.get()
            if event is None:
                return False
            token, reason = event
            made += 1
            if reason != "stop":
                words.append(f" w{token}")
        text = "".join(words)
        choice = {"index": 0, "message": {"role": "assistant", "content": text}} if chat else {"index": 0, "text": text}
        choice |= {"finish_reason": reason, "logprobs": None}
        whole = self.frame(body, chat) | {"choices": [choice], "usage": self.usage(generation, made)}
        writer.write(wire.json_answer(200, whole | self.extensions(body)))
        return True

    def metrics(self) -> str:
        engine, labels = self.engine, {"engine": "0", "model_name": self.model}
        one = lambda name, kind, help_text, value: wire.family(name, kind, help_text, [wire.sample(name, labels, value)])
        component = {"dynamo_component": "backend", "dynamo_endpoint": "generate", "dynamo_namespace": "hack", "worker_id": f"{self.worker_id:x}"}
        ended = [wire.sample("vllm:request_success_total", labels | {"finished_reason": reason}, n) for reason, n in engine.finished.items()]
        return "".join([
            wire.family("dynamo_component_inflight_requests", "gauge", "Requests between their arrival and the end of their answer.",
                        [wire.sample("dynamo_component_inflight_requests", component, self.in_flight)]),
            one("vllm:num_requests_running", "gauge", "Requests that hold a slot.", len(engine.running)),
            one("vllm:num_requests_waiting", "gauge", "Requests that wait for a slot.", len(engine.waiting)),
            one("vllm:kv_cache_usage_perc", "gauge", "Share of the KV cache's blocks in use; 1 is all.", engine.kv_usage()),
            one("vllm:prompt_tokens_total", "counter", "Tokens prefilled.", engine.prompt_tokens),
            one("vllm:generation_tokens_total", "counter", "Tokens generated.", engine.generated_tokens),
            one("vllm:num_preemptions_total", "counter", "Preemptions; this engine has none.", 0),
            wire.family("vllm:request_success_total", "counter", "Requests ended, by reason.", ended),
            engine.ttft.text("vllm:time_to_first_token_seconds", "Seconds from arrival to the first token.", labels),
            engine.itl.text("vllm:inter_token_latency_seconds", "Seconds between two tokens of a request.", labels),
            engine.e2e.text("vllm:e2e_request_latency_seconds", "Seconds from arrival to the last token.", labels),
        ])

    async def report(self, every: float) -> None:
        """The line that vLLM logs, at its rhythm."""
        engine, before, at = self.engine, (0, 0), time.monotonic()
        while True:
            await asyncio.sleep(every)
            now, counts = time.monotonic(), (engine.prompt_tokens, engine.generated_tokens)
            prompt, generated = ((new - old) / (now - at) for new, old in zip(counts, before))
            before, at = counts, now
            log.info("Engine 000: Avg prompt throughput: %.1f tokens/s, Avg generation throughput: %.1f tokens/s, Running: %d reqs, "
                     "Waiting: %d reqs, GPU KV cache usage: %.1f%%, Prefix cache hit rate: 0.0%%",
                     prompt, generated, len(engine.running), len(engine.waiting), 100 * engine.kv_usage())


async def serve(options: argparse.Namespace, engine: Engine) -> None:
    engine.loop = asyncio.get_running_loop()
    threading.Thread(target=engine.run, name="engine", daemon=True).start()
    server = Server(engine, options.model, options.worker_id)
    listening = await wire.serve(options.host, options.port, server.handle)
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        engine.loop.add_signal_handler(number, stop.set)
    reporter = asyncio.create_task(server.report(10))
    log.info("worker %x serves %s on http://%s:%d", options.worker_id, options.model, options.host, listening.sockets[0].getsockname()[1])
    await stop.wait()
    reporter.cancel()
    listening.close()
    log.info("stopped")


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8100)
    parser.add_argument("--device", choices=["auto", "cuda", "cpu"], default="auto")
    parser.add_argument("--size", choices=[*SIZES], help="default: 3b on a GPU, tiny on the CPU")
    parser.add_argument("--dtype", choices=["bfloat16", "float32"], help="default: bfloat16 on a GPU, float32 on the CPU")
    parser.add_argument("--model", default="hack/llama", help="the name to serve")
    parser.add_argument("--max-num-seqs", type=int, default=32)
    parser.add_argument("--max-model-len", type=int, default=1024)
    parser.add_argument("--max-num-batched-tokens", type=int, default=8192, help="prompt tokens of one prefill")
    parser.add_argument("--worker-id", type=lambda text: int(text, 16), help="in hex; drawn anew when not given")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--no-cuda-graphs", dest="cuda_graphs", action="store_false")
    parser.add_argument("--self-test", action="store_true")
    options = parser.parse_args()
    if options.device == "auto":
        options.device = "cuda" if torch.cuda.is_available() else "cpu"
    on_gpu = options.device == "cuda"
    options.size = options.size or ("3b" if on_gpu else "tiny")
    options.dtype = options.dtype or ("bfloat16" if on_gpu else "float32")
    options.worker_id = options.worker_id or random.SystemRandom().getrandbits(64)
    return options


def main() -> int:
    logging.Formatter.converter = time.gmtime
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, datefmt="%m-%d %H:%M:%S",
                        format="%(levelname)s %(asctime)s.%(msecs)03d [%(filename)s:%(lineno)d] %(message)s")
    options = parse_options()
    if options.device == "cpu":
        torch.set_num_threads(1)  # the CPU is for trying it out, often beside the load itself
    if options.self_test:
        return self_test(options)
    # The engine wakes from the GPU into a process that also writes to sockets:
    # with Python's default it could wait 5 ms for the interpreter.
    sys.setswitchinterval(0.0005)
    began = time.monotonic()
    runner = Runner(options.size, options.max_num_seqs, options.max_model_len, options.device, getattr(torch, options.dtype), options.seed)
    parameters = sum(p.numel() for p in runner.model.parameters())
    if options.device == "cuda":
        log.info("%s, torch %s", torch.cuda.get_device_name(), torch.__version__)
        if options.cuda_graphs:
            runner.capture()
        torch.cuda.synchronize()
        log.info("%.1f GiB of GPU memory, %d CUDA graphs", torch.cuda.memory_reserved() / 2**30, len(runner.graphs))
    log.info("%s: %.2f B parameters, %s on %s, %d slots of %d tokens, ready in %.1f s",
             options.size, parameters / 1e9, options.dtype, options.device, options.max_num_seqs, options.max_model_len, time.monotonic() - began)
    asyncio.run(serve(options, Engine(runner, options.max_num_batched_tokens)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
