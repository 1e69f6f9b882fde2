"""A simulated worker: steps in simulated time, and the numbers that vLLM keeps.

No clock and no I/O: every method takes the time it happens at, in seconds, and time
only moves forward.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator

from sidecar.simulator.counters import Counters
from sidecar.simulator.model import Shape
from sidecar.simulator.scheduler import Batch, Request, Scheduler


class Engine:
    """One engine with continuous batching.

    Public state is what a scrape would see: `counters`, and the gauges `running`,
    `waiting` and `kv_usage`, which like vLLM's are those of the end of the last step,
    when finished requests have left and the next have not been admitted.
    """

    def __init__(self, shape: Shape, model_name: str, started_at: float = 0.0) -> None:
        """Start an idle engine at `started_at`."""
        self.shape = shape
        self.model_name = model_name
        self._arrivals: list[tuple[float, int, Request]] = []
        self._submitted = 0
        self._start(started_at)

    def _start(self, at: float) -> None:
        self.started_at = self.now = self._free_at = at
        self.counters = Counters()
        self.running = self.waiting = self.sleep_level = 0
        self.kv_usage = 0.0
        self._scheduler = Scheduler(self.shape)
        self._batch: Batch | None = None
        self._ends_at = math.inf
        self._halted_at: float | None = None

    @property
    def open_requests(self) -> int:
        """Requests submitted and not done, also those that have yet to arrive."""
        scheduler = self._scheduler
        return len(scheduler.running) + len(scheduler.waiting) + len(self._arrivals)

    @property
    def hung(self) -> bool:
        """Whether steps have stopped while the engine claims to be awake."""
        return self._halted_at is not None and not self.sleep_level

    def submit(
        self, at: float, prompt_tokens: int, output_tokens: int, reason: str = "stop"
    ) -> None:
        """Let a request arrive at `at`, now or later.

        A request longer than the model allows is cut and ends with reason `length`.

        Raises:
            ValueError: `at` is in the engine's past, or a length is below 1.
        """
        if at < self.now:
            msg = f"a request cannot arrive at {at}: it is {self.now} already"
            raise ValueError(msg)
        if prompt_tokens < 1 or output_tokens < 1:
            msg = f"lengths must be 1 or more, got {prompt_tokens}, {output_tokens}"
            raise ValueError(msg)
        prompt = min(prompt_tokens, self.shape.max_model_len - 1)
        output = min(output_tokens, self.shape.max_model_len - prompt)
        # At least one prompt token is always computed, to give the first output token.
        cached = min(int(prompt * self.shape.prefix_hit_rate), prompt - 1)
        reason = reason if output == output_tokens else "length"
        request = Request(at, prompt, output, cached, reason)
        heapq.heappush(self._arrivals, (at, self._submitted, request))
        self._submitted += 1

    def advance(self, until: float) -> None:
        """Run every step that ends by `until`."""
        for _ in self.run(until):
            pass

    def run(self, until: float) -> Iterator[Request]:
        """Run every step that ends by `until`; yield each request as it finishes.

        When a request is yielded `now` is the time it finished, and new ones may be
        submitted for that time: a client that answers at once.
        """
        while self._halted_at is None:
            if self._batch is None and not self._begin_step(until):
                break
            if self._ends_at > until:
                break
            yield from self._finish_step()
        self.now = max(self.now, until)

    def _begin_step(self, until: float) -> bool:
        """Begin a step at the end of the last; False if no work comes by `until`."""
        scheduler, arrivals = self._scheduler, self._arrivals
        if not scheduler.running and not scheduler.waiting:
            if not arrivals or arrivals[0][0] > until:
                return False
            self._free_at = max(self._free_at, arrivals[0][0])
        while arrivals and arrivals[0][0] <= self._free_at:
            scheduler.waiting.append(heapq.heappop(arrivals)[2])
        batch = self._batch = scheduler.begin(self._free_at)
        self._ends_at = self._free_at + self.shape.step_seconds(
            decoding=batch.decoding,
            prefilling=len(batch.prefills),
            live_tokens=batch.live_tokens,
            prompt_tokens=batch.prompt_tokens,
        )
        return True

    def _finish_step(self) -> list[Request]:
        """Book the step in progress: tokens, gauges, and the requests it finished."""
        assert self._batch is not None
        batch, at, counters = self._batch, self._ends_at, self.counters
        seconds = at - self._free_at
        prefilled, done = self._scheduler.finish(batch)
        self._batch, self.now, self._free_at = None, at, at
        counters.num_preemptions += batch.preempted
        counters.running_seconds += seconds * (batch.decoding + len(batch.prefills))
        tokens = batch.decoding + len(prefilled)
        counters.generation_tokens += tokens
        counters.iteration_tokens_total.observe(tokens + batch.prompt_tokens)
        counters.inter_token_latency_seconds.observe(seconds, batch.decoding)
        for request in prefilled:
            self._count_prefill(request)
        for request in done:
            self._count_done(request)
        self.running = len(self._scheduler.running)
        self.waiting = len(self._scheduler.waiting)
        self.kv_usage = self._scheduler.used_blocks / self.shape.usable_blocks
        return done

    def _count_prefill(self, request: Request) -> None:
        counters = self.counters
        if math.isnan(request.first_token_at):
            request.first_token_at = self.now
            counters.time_to_first_token_seconds.observe(self.now - request.arrived_at)
            counters.prompt_tokens += request.prompt_tokens
            counters.prefix_cache_hits += request.cached_tokens
        else:
            counters.inter_token_latency_seconds.observe(
                self.now - request.last_token_at
            )

    def _count_done(self, request: Request) -> None:
        counters, at, first = self.counters, self.now, request.first_token_at
        request.last_token_at = at
        counters.request_success[request.reason] += 1
        counters.request_prompt_tokens.observe(request.prompt_tokens)
        counters.request_generation_tokens.observe(request.output_tokens)
        counters.e2e_request_latency_seconds.observe(at - request.arrived_at)
        counters.request_queue_time_seconds.observe(
            request.scheduled_at - request.arrived_at
        )
        counters.request_inference_time_seconds.observe(at - request.scheduled_at)
        counters.request_prefill_time_seconds.observe(first - request.scheduled_at)
        counters.request_decode_time_seconds.observe(at - first)
        if request.output_tokens > 1:
            per_token = (at - first) / (request.output_tokens - 1)
            counters.request_time_per_output_token_seconds.observe(per_token)

    def restart(self, at: float) -> None:
        """Start a new process at `at`: all counts 0, requests that had come lost."""
        self.advance(at)
        self._arrivals = [arrival for arrival in self._arrivals if arrival[0] > at]
        heapq.heapify(self._arrivals)
        self._start(at)

    def hang(self, at: float) -> None:
        """Stop stepping at `at`: requests stay in, gauges and counters stand still."""
        self.advance(at)
        if self._halted_at is None:
            self._halted_at = at

    def sleep(self, at: float, level: int = 1) -> None:
        """Put the engine to sleep at `at`: 1 offloads the weights, 2 discards them."""
        self.hang(at)
        self.sleep_level = level

    def resume(self, at: float) -> None:
        """End a hang or a sleep at `at`; the step in progress goes on."""
        self.advance(at)
        if self._halted_at is None:
            return
        if self._batch is None:
            self._free_at = at
        self._ends_at += at - self._halted_at
        self._halted_at = None
        self.sleep_level = 0
