from __future__ import annotations

import pytest

from sidecar.estimators.limits import DEFAULT_SEQUENCES, WAITED, Seen, lowest
from tests.unit.makers import interval


def seen(count: int = 40, **given: object) -> Seen:
    known = Seen()
    for i in range(1, count + 1):
        known = known.after(interval(5.0 * i, 9, **given))  # type: ignore[arg-type]
    return known


class TestLowest:
    def test_the_setting_or_command_line(self) -> None:
        assert lowest(Seen(), 40).requests == 40
        assert lowest(Seen(), 40).origin == "sequence limit"

    def test_where_requests_wait(self) -> None:
        known = seen(2, running=(14, 16), waiting=(3, 2))

        assert lowest(known, None).requests == 16
        assert lowest(known, None).origin == WAITED

    def test_a_burst_shows_no_limit(self) -> None:
        known = seen(1, running=(14, 16), waiting=(30, 20))

        assert lowest(known, None).origin != WAITED

    def test_below_a_limit_that_is_known_they_waited_for_something_else(self) -> None:
        """Long prompts wait for the step's budget, and it need not last."""
        known = seen(4, running=(30, 32), waiting=(9, 9))
        assert lowest(known, 256).requests == 32

        for i in range(500):
            known = known.after(interval(300 + 5.0 * i, 9, running=(4, 4)))

        assert lowest(known, 256).requests == 256
        assert lowest(known, None).requests == 32

    def test_a_guess_is_called_a_guess(self) -> None:
        limit = lowest(Seen(), None)

        assert limit.requests == DEFAULT_SEQUENCES
        assert "default" in limit.origin

    def test_what_runs_is_not_above_the_limit(self) -> None:
        assert lowest(seen(running=(50, 50)), 40).requests == 50


class TestCache:
    def test_by_what_the_running_requests_hold(self) -> None:
        """Ten requests fill a fifth of it, so fifty fill it."""
        odd = interval(300, 9, running=(10, 10), kv_usage=55.0)
        limit = lowest(seen(running=(10, 10), kv_usage=0.2).after(odd), 256)

        assert limit.requests == pytest.approx(50)
        assert limit.origin == "KV cache"

    def test_by_its_size_where_the_usage_is_not_exported(self) -> None:
        """9000 tokens a poll for 9 prompts: 1000 each, and 500 · 0.82 of the answer."""
        known = seen(running=(10, 10), kv_tokens=141_000.0, prompt_tokens=9000.0)

        assert lowest(known, 256, 500.0).requests == pytest.approx(100, rel=0.01)
        assert lowest(known, 256).origin == "sequence limit"

    def test_the_usage_takes_over_step_by_step(self) -> None:
        found = [
            lowest(
                seen(
                    count,
                    running=(10, 10),
                    kv_usage=0.2,
                    kv_tokens=141_000.0,
                    prompt_tokens=9000.0,
                ),
                256,
                500.0,
            ).requests
            for count in (1, 6, 12, 24, 40)
        ]

        assert found == sorted(found, reverse=True)
        assert found[0] == pytest.approx(100, rel=0.05)
        assert found[-1] == pytest.approx(50)

    def test_a_gauge_that_is_stuck_at_full_is_not_believed(self) -> None:
        """100 fit by their tokens; ten are said to fill it."""
        known = seen(
            running=(10, 10), kv_usage=1.0, kv_tokens=141_000.0, prompt_tokens=9000.0
        )

        assert lowest(known, 256, 500.0).requests == pytest.approx(33, abs=1)

    def test_so_many_of_the_longest_fit_whatever_else_is_read(self) -> None:
        known = seen(running=(10, 10), kv_usage=0.9, kv_longest=30.0)

        assert lowest(known, 256).requests == 30.0

    def test_other_requests_hold_another_part(self) -> None:
        known = seen(running=(10, 10), kv_usage=0.2).of_others()

        assert lowest(known, 256).origin == "sequence limit"


class TestPreemptions:
    def test_they_say_that_the_limit_is_too_high(self) -> None:
        limit = lowest(seen(running=(30, 30), preemptions=5.0), 256)

        assert limit.requests == pytest.approx(30)
        assert limit.origin == "preemptions"

    def test_a_single_one_says_nothing(self) -> None:
        assert lowest(seen(running=(30, 30), preemptions=0.1), 256).requests == 256

    def test_it_is_forgotten_when_there_are_no_more(self) -> None:
        known = seen(running=(30, 30), preemptions=5.0)
        for i in range(1000):
            known = known.after(interval(300 + 5.0 * i, 9, running=(4, 4)))

        assert lowest(known, 256).origin == "sequence limit"

    def test_what_ran_meanwhile_is_no_proof_that_it_fits(self) -> None:
        known = seen(3, running=(30, 60), preemptions=5.0)

        assert lowest(known, 256).requests == pytest.approx(45)
