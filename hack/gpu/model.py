"""The model of server.py: transformers' Llama, decoded in batches from a slot cache.

The weights are random, from a seed. The key-value cache is one block of memory
per layer with a row for each slot; a sequence keeps its row from admission to
its end, and a mask by length hides what an earlier owner left there. On a GPU
the decode step is captured as CUDA graphs, one for each size of batch and window.
"""

import itertools
import logging
import math
import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")
import torch
from transformers import LlamaConfig, LlamaForCausalLM
from transformers.cache_utils import Cache

BOS, EOS, FIRST_WORD = 1, 2, 3
SMALLEST_WINDOW = 256
SIZES = {
    "tiny": dict(hidden_size=64, intermediate_size=160, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, vocab_size=2048),
    "1b": dict(hidden_size=2048, intermediate_size=8192, num_hidden_layers=16, num_attention_heads=32, num_key_value_heads=8, vocab_size=32000),
    "3b": dict(hidden_size=3072, intermediate_size=8192, num_hidden_layers=28, num_attention_heads=24, num_key_value_heads=8, vocab_size=32000),
}
log = logging.getLogger("model")


class SlotCache(Cache):
    """Keys and values in one row per slot, each row with its own length."""

    def __init__(self, config: LlamaConfig, slots: int, length: int, dtype: torch.dtype, device: str):
        super().__init__(layers=[])
        shape = (slots, config.num_key_value_heads, length, config.hidden_size // config.num_attention_heads)
        make = lambda: [torch.zeros(shape, dtype=dtype, device=device) for _ in range(config.num_hidden_layers)]
        self.keys, self.values = make(), make()

    def for_prefill(self, slots: torch.Tensor) -> "SlotCache":
        self.prefilling, self.rows = True, slots
        return self

    def for_decode(self, rows: torch.Tensor, positions: torch.Tensor, window: int) -> "SlotCache":
        self.prefilling, self.rows, self.positions, self.window = False, rows, positions, window
        return self

    def update(self, key_states, value_states, layer_idx, *args, **kwargs):
        keys, values = self.keys[layer_idx], self.values[layer_idx]
        if self.prefilling:  # a fresh prompt attends to itself alone
            length = key_states.shape[2]
            keys[self.rows, :, :length] = key_states
            values[self.rows, :, :length] = value_states
            return key_states, value_states
        keys[self.rows, :, self.positions] = key_states[:, :, 0]
        values[self.rows, :, self.positions] = value_states[:, :, 0]
        batch = key_states.shape[0]
        return keys[:batch, :, : self.window], values[:batch, :, : self.window]


def powers(first: int, last: int) -> list[int]:
    """The powers of two from first on, ended by last itself."""
    sizes = itertools.takewhile(lambda n: n < last, (first << i for i in itertools.count()))
    return [*sizes, last]


class Runner:
    """Turns tokens into next tokens. A decode step computes the slots 0..n, busy or not."""

    def __init__(self, size: str, slots: int, length: int, device: str, dtype: torch.dtype, seed: int):
        self.slots, self.length, self.device = slots, length, device
        self.config = LlamaConfig(**SIZES[size], max_position_embeddings=length, bos_token_id=BOS, eos_token_id=EOS, attn_implementation="sdpa")
        torch.manual_seed(seed)
        before = torch.get_default_dtype()
        torch.set_default_dtype(dtype)
        try:
            with torch.device(device):
                self.model = LlamaForCausalLM(self.config).eval()
        finally:
            torch.set_default_dtype(before)
        self.cache = SlotCache(self.config, slots, length, dtype, device)
        self.batches, self.windows = powers(1, slots), powers(min(SMALLEST_WINDOW, length), length)
        self.rows = torch.arange(slots, device=device)
        self.places = torch.arange(length, device=device)
        self.tokens = torch.zeros(slots, dtype=torch.long, device=device)
        self.positions = torch.zeros(slots, dtype=torch.long, device=device)
        self.graphs: dict[tuple[int, int], tuple[torch.cuda.CUDAGraph, torch.Tensor]] = {}

    @torch.inference_mode()
    def prefill(self, prompts: list[list[int]], slots: list[int]) -> list[int]:
        """Fills the slots' rows and gives each prompt's first token."""
        longest = max(map(len, prompts))
        length = min(math.ceil(longest / 16) * 16, self.length)
        padded = torch.tensor([p + [0] * (length - len(p)) for p in prompts], device=self.device)
        ends = torch.tensor([len(p) - 1 for p in prompts], device=self.device)
        cache = self.cache.for_prefill(torch.tensor(slots, device=self.device))
        # The padding comes after the prompt, so that the causal mask hides it.
        mask = torch.ones(length, length, dtype=torch.bool, device=self.device).tril()[None, None]
        hidden = self.forward(padded, self.places[None, :length].expand(len(prompts), -1), mask, cache)
        return self.model.lm_head(hidden[self.rows[: len(prompts)], ends]).argmax(-1).tolist()

    @torch.inference_mode()
    def decode(self, active: dict[int, tuple[int, int]]) -> dict[int, int]:
        """One step: slot -> (last token, its position) in, slot -> next token out."""
        batch = next(b for b in self.batches if b > max(active))
        window = next(w for w in self.windows if w > max(position for _, position in active.values()))
        # An idle slot decodes token 0 at position 0, which its next prefill writes over.
        both = torch.tensor([active.get(slot, (0, 0)) for slot in range(batch)]).to(self.device)
        self.tokens[:batch].copy_(both[:, 0])
        self.positions[:batch].copy_(both[:, 1])
        if graph := self.graphs.get((batch, window)):
            graph[0].replay()
            result = graph[1].tolist()
        else:
            result = self.decode_batch(batch, window).tolist()
        return {slot: result[slot] for slot in active}

    def decode_batch(self, batch: int, window: int) -> torch.Tensor:
        """The step itself: it reads and writes only what stays in place, as a graph must."""
        positions = self.positions[:batch]
        mask = (self.places[None, :window] <= positions[:, None])[:, None, None]
        cache = self.cache.for_decode(self.rows[:batch], positions, window)
        hidden = self.forward(self.tokens[:batch, None], positions[:, None], mask, cache)
        return self.model.lm_head(hidden[:, -1]).argmax(-1)

    def forward(self, tokens, positions, mask, cache) -> torch.Tensor:
        out = self.model.model(input_ids=tokens, position_ids=positions, attention_mask=mask, past_key_values=cache, use_cache=True)
        return out.last_hidden_state

    @torch.inference_mode()
    def capture(self) -> None:
        """Captures the decode step; without graphs the server is slower, not wrong."""
        try:
            pool, side = torch.cuda.graph_pool_handle(), torch.cuda.Stream()
            for batch, window in itertools.product(reversed(self.batches), reversed(self.windows)):
                side.wait_stream(torch.cuda.current_stream())
                with torch.cuda.stream(side):
                    plain = self.decode_batch(batch, window)
                torch.cuda.current_stream().wait_stream(side)
                graph = torch.cuda.CUDAGraph()
                with torch.cuda.graph(graph, pool=pool):
                    out = self.decode_batch(batch, window)
                graph.replay()
                if not torch.equal(out, plain):
                    raise RuntimeError(f"the graph of {batch} x {window} decodes other tokens")
                self.graphs[batch, window] = graph, out
        except Exception:
            log.exception("no CUDA graphs; decoding goes kernel by kernel")
            self.graphs.clear()
