"""The engine of server.py: continuous batching over a Runner, and its counters.

One thread repeats steps. A step admits waiting requests to free slots, prefills
them together, and decodes one token for every running sequence in one batch.
The tokens of a batch go to the event loop in one call.
"""

import asyncio
import collections
import heapq
import itertools
import logging
import math
import os
import threading
import time
from bisect import bisect_left
from dataclasses import dataclass, field

import wire
from model import EOS, Runner

KV_BLOCK = 16  # the grain in which KV use is told, as vLLM's default
log = logging.getLogger("engine")


@dataclass(eq=False)
class Generation:
    """One request as the engine sees it. The engine thread owns it until it ends."""

    prompt: list[int]
    max_tokens: int
    min_tokens: int
    ignore_eos: bool
    arrived: float = field(default_factory=time.monotonic)
    events: asyncio.Queue = field(default_factory=asyncio.Queue)  # (token, why it ended or None); None: hung up
    made: int = 0
    last: int = 0
    last_at: float = 0.0
    slot: int = -1
    aborted: bool = False

    def length(self) -> int:
        return len(self.prompt) + self.made


class Histogram:
    def __init__(self, *bounds: float):
        self.bounds, self.counts, self.total = bounds, [0] * (len(bounds) + 1), 0.0

    def observe(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    def text(self, name: str, help_text: str, labels: dict[str, str]) -> str:
        sums = list(itertools.accumulate(self.counts))
        buckets = [wire.sample(name + "_bucket", labels | {"le": str(le)}, n) for le, n in zip((*self.bounds, "+Inf"), sums)]
        ends = [wire.sample(name + "_sum", labels, self.total), wire.sample(name + "_count", labels, sums[-1])]
        return wire.family(name, "histogram", help_text, buckets + ends)


class Engine:
    """Continuous batching: admit, prefill, decode, hand over; and count."""

    def __init__(self, runner: Runner, prefill_tokens: int):
        self.runner, self.prefill_tokens = runner, prefill_tokens
        self.waiting: collections.deque[Generation] = collections.deque()
        self.running: dict[int, Generation] = {}  # by slot
        self.free = list(range(runner.slots))  # a heap: low slots first keeps batches small
        self.wake = threading.Condition()
        self.loop: asyncio.AbstractEventLoop | None = None
        self.prompt_tokens = self.generated_tokens = 0
        self.finished = collections.Counter({"stop": 0, "length": 0, "abort": 0})
        # vLLM's bounds, so that the series are those of a real worker.
        self.ttft = Histogram(0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75,
                              1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0, 160.0, 640.0, 2560.0)
        self.itl = Histogram(0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75,
                             1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0)
        self.e2e = Histogram(0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0,
                             60.0, 120.0, 240.0, 480.0, 960.0, 1920.0, 7680.0)

    def submit(self, generation: Generation) -> None:
        with self.wake:
            self.waiting.append(generation)
            self.wake.notify()

    def abort(self, generation: Generation) -> None:
        """Frees the slot at the next step; nothing is handed over any more."""
        generation.aborted = True

    def run(self) -> None:
        try:
            while True:
                with self.wake:
                    self.wake.wait_for(lambda: self.waiting or self.running)
                self.step()
        except BaseException:
            log.exception("the engine is dead, and so is the server")
            logging.shutdown()
            os._exit(1)

    def step(self) -> None:
        self.drop_aborted()
        if admitted := self.admit():
            firsts = self.runner.prefill([g.prompt for g in admitted], [g.slot for g in admitted])
            self.prompt_tokens += sum(len(g.prompt) for g in admitted)
            self.hand_over(list(zip(admitted, firsts)))
        if self.running:
            nexts = self.runner.decode({slot: (g.last, g.length() - 1) for slot, g in self.running.items()})
            self.hand_over([(self.running[slot], token) for slot, token in nexts.items()])

    def drop_aborted(self) -> None:
        for generation in [g for g in self.running.values() if g.aborted]:
            self.finish(generation, "abort")
        with self.wake:
            for generation in [g for g in self.waiting if g.aborted]:
                self.waiting.remove(generation)
                self.finished["abort"] += 1

    def admit(self) -> list[Generation]:
        admitted, budget = [], self.prefill_tokens
        while self.waiting and self.free and (not admitted or len(self.waiting[0].prompt) <= budget):
            generation = self.waiting.popleft()
            budget -= len(generation.prompt)
            generation.slot = heapq.heappop(self.free)
            self.running[generation.slot] = generation
            admitted.append(generation)
        return admitted

    def hand_over(self, made: list[tuple[Generation, int]]) -> None:
        now, events = time.monotonic(), []
        for generation, token in made:
            if generation.made == 0:
                self.ttft.observe(now - generation.arrived)
            else:
                self.itl.observe(now - generation.last_at)
            generation.made, generation.last, generation.last_at = generation.made + 1, token, now
            reason = None
            if token == EOS and not generation.ignore_eos and generation.made >= generation.min_tokens:
                reason = "stop"
            elif generation.made >= generation.max_tokens:
                reason = "length"
            events.append((generation, (token, reason)))
            if reason:
                self.e2e.observe(now - generation.arrived)
                self.finish(generation, reason)
        self.generated_tokens += len(made)
        self.loop.call_soon_threadsafe(deliver, events)

    def finish(self, generation: Generation, reason: str) -> None:
        del self.running[generation.slot]
        heapq.heappush(self.free, generation.slot)
        self.finished[reason] += 1

    def kv_usage(self) -> float:
        blocks = sum(math.ceil(g.length() / KV_BLOCK) for g in list(self.running.values()))
        return blocks / (self.runner.slots * math.ceil(self.runner.length / KV_BLOCK))


def deliver(events: list[tuple[Generation, tuple[int, str | None]]]) -> None:
    for generation, event in events:
        generation.events.put_nowait(event)
