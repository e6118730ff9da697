"""Does a batch decode what each sequence decodes alone? Run by server.py --self-test."""

import argparse
import logging
import random

import torch

from engine import Engine, Generation
from model import BOS, FIRST_WORD, Runner

log = logging.getLogger("selftest")


def self_test(options: argparse.Namespace) -> int:
    """Batched decoding must give the tokens that each sequence gets alone.

    Alone means both this engine with one sequence and transformers without any
    cache. The batch has more requests than slots and differing lengths, so that
    slots change hands while others run, and one request is aborted.
    """
    device, draw = options.device, random.Random(7)

    class Inline:  # stands in for the event loop
        @staticmethod
        def call_soon_threadsafe(function, *args):
            function(*args)

    def engine(slots: int) -> Engine:
        runner = Runner("tiny", slots, 512, device, torch.float32, options.seed)
        if device == "cuda" and options.cuda_graphs:
            runner.capture()
            log.info("self-test: %d CUDA graphs", len(runner.graphs))
        e = Engine(runner, prefill_tokens=128)
        e.loop = Inline()
        return e

    def run(e: Engine, generations: list[Generation], abort: Generation | None = None) -> None:
        for generation in generations:
            e.submit(generation)
        while e.waiting or e.running:
            if abort and abort.made >= 3:
                e.abort(abort)
            e.step()

    def tokens(generation: Generation) -> list[int]:
        return [generation.events.get_nowait()[0] for _ in range(generation.events.qsize())]

    many, one = engine(4), engine(1)
    work = [([BOS] + [draw.randrange(FIRST_WORD, 2048) for _ in range(draw.randrange(3, 90))], draw.randrange(1, 60)) for _ in range(14)]
    work.append(([BOS] + [draw.randrange(FIRST_WORD, 2048) for _ in range(250)], 40))  # crosses into the next window
    batch = [Generation(prompt, count, 0, True) for prompt, count in work]
    aborted = Generation(work[0][0], 60, 0, True)
    run(many, batch[:2] + [aborted] + batch[2:], abort=aborted)
    wrong = 0
    for index, (generation, (prompt, count)) in enumerate(zip(batch, work)):
        alone = Generation(prompt, count, 0, True)
        run(one, [alone])
        plain = list(prompt)
        with torch.inference_mode():
            for _ in range(count):
                plain.append(int(one.runner.model(torch.tensor([plain], device=device), use_cache=False).logits[0, -1].argmax()))
        batched, single = tokens(generation), tokens(alone)
        if not batched == single == plain[len(prompt):]:
            wrong += 1
            log.error("sequence %d: batched %s, alone %s, without a cache %s", index, batched, single, plain[len(prompt):])
        elif count > 20 and len(set(batched)) < 5:
            wrong += 1
            log.error("sequence %d has %d different tokens: too few to prove anything", index, len(set(batched)))
    if sorted(many.free) != [0, 1, 2, 3] or many.running or many.finished["abort"] != 1 or len(tokens(aborted)) >= 60:
        wrong += 1
        log.error("slots left behind: free %s, running %s, ended %s", many.free, many.running, many.finished)
    print(f"self-test on {device}: {len(work)} sequences, {sum(c for _, c in work)} tokens, {wrong} wrong")
    return 1 if wrong else 0
