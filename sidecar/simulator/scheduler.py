"""Continuous batching without time: which requests run, and the cache they hold.

Follows vLLM's V1 scheduler: first come first served, decodes before prompts, prompts
in chunks of what is left of the token budget, the newest request preempted and
computed anew when blocks run out, and no admission in a step that preempted. A prompt
is admitted only if all of it fits, and holds its blocks from then on.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass

from sidecar.simulator.model import Shape


@dataclass(eq=False, slots=True)
class Request:
    """One request on its way: what it asks for, how far it is, when things happened.

    Times are seconds of the engine's time, nan until they happen.
    """

    arrived_at: float
    prompt_tokens: int
    output_tokens: int
    cached_tokens: int = 0
    reason: str = "stop"
    scheduled_at: float = math.nan
    first_token_at: float = math.nan
    last_token_at: float = math.nan
    generated: int = 0
    """Tokens produced up to the end of the last prefill."""
    prefill_tokens: int = 0
    """Tokens to compute before the next token: the prompt, after a preemption also
    what was generated."""
    computed: int = 0
    decode_from: int = 0
    """Step at which its present decode began."""


@dataclass(slots=True)
class Batch:
    """What one step computes: every decoding sequence, and chunks of prompts."""

    decoding: int
    live_tokens: int
    prefills: list[tuple[Request, int]]
    prompt_tokens: int
    preempted: int


class Scheduler:
    """The batch, the queue and the KV blocks of one engine.

    Decoding sequences all gain one token a step, so none is touched in a step: when
    each will finish is kept by step number, when each needs its next block by step
    number modulo the block size. A step costs the same for 1 sequence and for 256.
    """

    def __init__(self, shape: Shape) -> None:
        """Start with an empty batch, queue and cache."""
        self.waiting: deque[Request] = deque()
        self.running: dict[Request, None] = {}
        self.used_blocks = 0
        self._shape = shape
        self._steps = 0
        self._live_tokens = 0
        self._prefilling: list[Request] = []
        self._finishing: dict[int, list[Request]] = {}
        self._growing = [0] * shape.block_size

    def begin(self, at: float) -> Batch:
        """Choose the batch of a step that starts at `at`; blocks are taken now."""
        phase = self._steps % self._shape.block_size
        preempted = 0
        while self._growing[phase] > self._free_blocks:
            self._preempt(at)
            preempted += 1
        self.used_blocks += self._growing[phase]
        decoding = len(self.running) - len(self._prefilling)
        batch = Batch(decoding, self._live_tokens, [], 0, preempted)
        for request in self._prefilling:
            self._add_chunk(batch, request)
        if not preempted:
            self._admit(batch, at)
        return batch

    def finish(self, batch: Batch) -> tuple[list[Request], list[Request]]:
        """Book a step that has run.

        Returns:
            The requests whose prefill ended and gave a token, and those that are done
            and have left.
        """
        self._steps += 1
        self._live_tokens += batch.decoding
        done = self._finishing.pop(self._steps, [])
        for request in done:
            self._stop_decode(request)
        prefilled = []
        for request, chunk in batch.prefills:
            request.computed += chunk
            if request.computed < request.prefill_tokens:
                continue
            self._prefilling.remove(request)
            prefilled.append(request)
            request.generated += 1
            if request.generated == request.output_tokens:
                self.used_blocks -= self._blocks(request.prefill_tokens)
                done.append(request)
            else:
                self._start_decode(request)
        for request in done:
            del self.running[request]
        return prefilled, done

    @property
    def _free_blocks(self) -> int:
        return self._shape.usable_blocks - self.used_blocks

    def _blocks(self, tokens: int) -> int:
        return -(-tokens // self._shape.block_size)

    def _admit(self, batch: Batch, at: float) -> None:
        while self.waiting and len(self.running) < self._shape.max_num_seqs:
            request = self.waiting[0]
            tokens = request.prompt_tokens + request.generated
            blocks = self._blocks(tokens)
            budget = self._shape.max_batched_tokens - batch.decoding
            if blocks > self._free_blocks or batch.prompt_tokens >= budget:
                return
            self.waiting.popleft()
            self.running[request] = None
            self.used_blocks += blocks
            request.prefill_tokens = tokens
            request.computed = request.cached_tokens
            # vLLM times a request from its first schedule, whatever preempts it.
            if math.isnan(request.scheduled_at):
                request.scheduled_at = at
            self._prefilling.append(request)
            self._add_chunk(batch, request)

    def _add_chunk(self, batch: Batch, request: Request) -> None:
        budget = self._shape.max_batched_tokens - batch.decoding - batch.prompt_tokens
        chunk = min(budget, request.prefill_tokens - request.computed)
        batch.prefills.append((request, chunk))
        batch.prompt_tokens += chunk

    def _preempt(self, at: float) -> None:
        request = next(reversed(self.running))
        del self.running[request]
        if request in self._prefilling:
            self._prefilling.remove(request)
            self.used_blocks -= self._blocks(request.prefill_tokens)
        else:
            self._finishing[self._last_step(request)].remove(request)
            self._stop_decode(request)
            request.last_token_at = at
        self.waiting.appendleft(request)

    def _start_decode(self, request: Request) -> None:
        request.decode_from = self._steps
        self._finishing.setdefault(self._last_step(request), []).append(request)
        self._growing[self._phase(request)] += 1
        self._live_tokens += request.prefill_tokens

    def _stop_decode(self, request: Request) -> None:
        decoded = self._steps - request.decode_from
        tokens = request.prefill_tokens + decoded
        request.generated += decoded
        self._growing[self._phase(request)] -= 1
        self._live_tokens -= tokens
        self.used_blocks -= self._blocks(tokens)

    def _last_step(self, request: Request) -> int:
        """The step that gives the last token, in the request's present decode."""
        return request.decode_from + request.output_tokens - request.generated

    def _phase(self, request: Request) -> int:
        """The step, modulo the block size, that needs one more block: KV tokens at
        the start of step s are `prefill_tokens + s - decode_from`."""
        start = request.decode_from - request.prefill_tokens
        return start % self._shape.block_size
