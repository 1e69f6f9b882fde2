"""What a prompt token costs: prompts stall every running request."""

from __future__ import annotations

from math import exp, hypot, log
from typing import NamedTuple

from sidecar.estimators.mix import Lengths, Ratio
from sidecar.estimators.shapes import prior
from sidecar.estimators.work import computed_prompts
from sidecar.interval import Interval

_MOST_STALLED = 0.9
"""Of the time; more than that is another thing than prompts."""

_MEASURED_SD = 0.1
_HALF_A_STEP = 0.5
"""Of a prefill beyond the step that it shares: that much may be another step's."""


class PromptCost(NamedTuple):
    """The time of a prompt token, seconds, and the spread of its logarithm."""

    seconds: float = 0.0
    log_sd: float = 0.0

    def stalled(self, prompts_per_second: float) -> float:
        """The fraction of the time that such a rate of prompt tokens takes."""
        return min(_MOST_STALLED, self.seconds * prompts_per_second)


class Prefills(NamedTuple):
    """What is known of prompts: their time, where the engine sums it up.

    Attributes:
        time: seconds from a request's first schedule to its first token.
        lengths: prompt tokens computed per request.
        step: seconds from one token to the next, which a prefill takes as well.
    """

    time: Ratio = Ratio()
    lengths: Lengths = Lengths()
    step: Ratio = Ratio()

    def after(self, interval: Interval) -> Prefills:
        """With one more interval."""
        # A prompt is computed when its request begins, not when it is done.
        if interval.preempted:
            # Some begin anew, some go on: whose prompts these are cannot be told.
            return self
        begun = interval.completions + interval.growth
        lengths = self.lengths.after(computed_prompts(interval), begun)
        # The time of other prompts is not the time of these.
        is_same = lengths.changes == self.lengths.changes
        time = self.time if is_same else Ratio()
        step = self.step if is_same else Ratio()
        seconds = interval.duration
        return Prefills(
            time.after(interval.prefill_seconds, interval.completions, seconds),
            lengths,
            step.after(interval.decode_seconds, interval.decode_tokens, seconds),
        )

    def checked(self) -> Prefills:
        """The same, or as far as it can be true."""
        return self._replace(lengths=self.lengths.checked())

    def cost(self, alpha: float) -> PromptCost:
        """The cost by what was measured and by the prior, each by its precision.

        Args:
            alpha: time of a token generated alone, seconds.
        """
        if alpha <= 0:
            return PromptCost()
        level, sd = log(prior().prompt_token * alpha), prior().prompt_log_sd
        time, length, step = self.time.value, self.lengths.mean, self.step.value
        if time and length and step and time > step:
            own = time - step
            off = hypot(_MEASURED_SD, _HALF_A_STEP * step / own)
            p, q = sd**-2, off**-2
            level = (p * level + q * log(own / length)) / (p + q)
            sd = (p + q) ** -0.5
        return PromptCost(exp(level), sd)
