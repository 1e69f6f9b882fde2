from __future__ import annotations

import itertools
from email.utils import formatdate

import grpc
import pytest
import requests

from sidecar.errors import SinkError
from sidecar.reading import Identity
from sidecar.sinks.cloud_monitoring.client import ServerTime
from sidecar.sinks.cloud_monitoring.sink import LONGEST_WAIT, MOST_SERIES
from tests.gcp import answers
from tests.unit.cloud_monitoring.bench import LABELS, Bench
from tests.unit.cloud_monitoring.conftest import Made
from tests.unit.makers import IDENTITY


def dated(now: float) -> requests.Response:
    """An answer of a server whose clock is right."""
    answer = requests.Response()
    answer.headers["Date"] = formatdate(now, usegmt=True)
    return answer


MANY = [Identity("m", "org/m", f"host:{8000 + i}") for i in range(70)]


class TestWriting:
    def test_three_numbers_of_a_worker(self, bench: Bench) -> None:
        bench.write()

        found = {key.metric_type: key for key in bench.service.accepted}
        assert sorted(found) == [
            "custom.googleapis.com/llm_worker_capacity",
            "custom.googleapis.com/llm_worker_utilization",
            "custom.googleapis.com/num_loaded_models_m",
        ]
        key = found["custom.googleapis.com/llm_worker_utilization"]
        assert dict(key.metric_labels) == dict(IDENTITY.all_labels)
        assert (key.resource_type, dict(key.resource_labels)) == (
            "generic_task",
            LABELS,
        )
        ((point,),) = [bench.service.accepted[key]]
        assert (point.end_time, point.value) == (bench.now, 0.5)

    def test_all_workers_in_one_request(self, bench: Bench) -> None:
        bench.write(*MANY[:9])

        assert len(bench.service.requests) == 1
        assert len(bench.service.accepted) == 27

    def test_no_more_series_than_a_request_takes(self, bench: Bench) -> None:
        bench.write(*MANY)

        sizes = [len(each.time_series) for each in bench.service.requests]
        assert sizes == [MOST_SERIES, 3 * len(MANY) - MOST_SERIES]
        assert len(bench.service.accepted) == 210

    def test_readings_that_come_faster_than_points_may(self, bench: Bench) -> None:
        for _ in range(12):
            bench.write(after=1.0)

        assert bench.ends == [1.0, 6.0, 11.0]
        assert all(len(each.time_series) == 3 for each in bench.service.requests)

    def test_a_worker_without_an_estimate_has_its_utilization(
        self, bench: Bench
    ) -> None:
        bench.write(capacity=None, published=None)

        assert [key.metric_type for key in bench.service.accepted] == [
            "custom.googleapis.com/llm_worker_utilization"
        ]

    def test_what_has_none_of_the_numbers_is_no_request(self, bench: Bench) -> None:
        bench.write(capacity=None, published=None, utilization=None)

        assert bench.service.requests == []

    def test_a_restart_goes_on_with_the_same_series(self, bench: Bench) -> None:
        bench.write()
        before = set(bench.service.accepted)
        bench.sink.close()
        bench.sink = bench.restarted()
        bench.write()

        assert set(bench.service.accepted) == before
        assert bench.ends == [10.0, 20.0]

    def test_two_workers_of_a_machine_are_two_series(self, bench: Bench) -> None:
        bench.write(*MANY[:2])
        bench.write(*MANY[:2])

        assert bench.ends == [10.0, 20.0]
        assert len(bench.service.accepted) == 6

    def test_retiring_ends_the_writing_and_nothing_else(self, bench: Bench) -> None:
        bench.write()
        bench.sink.retire([IDENTITY])

        assert len(bench.service.requests) == 1


class TestOnceMore:
    @pytest.mark.parametrize("code", ["UNAVAILABLE", "DEADLINE_EXCEEDED", "INTERNAL"])
    def test_with_the_same_end_time(self, bench: Bench, code: str) -> None:
        bench.service.fail(grpc.StatusCode[code])
        bench.write()

        first, second = bench.service.requests
        assert first == second
        assert bench.ends == [10.0]
        assert bench.slept == [1.5]

    @pytest.mark.parametrize("code", ["UNAVAILABLE", "DEADLINE_EXCEEDED", "INTERNAL"])
    def test_what_was_stored_though_its_answer_was_lost(
        self, bench: Bench, code: str
    ) -> None:
        bench.service.fail(grpc.StatusCode[code], after_writing=True)
        bench.write()
        bench.write()

        assert bench.ends == [10.0, 21.5]

    def test_but_once_only(self, bench: Bench) -> None:
        bench.service.fail(grpc.StatusCode.UNAVAILABLE, times=2)

        assert bench.refused().reason == "unavailable"
        assert len(bench.service.requests) == 2
        bench.write()
        assert bench.ends == [21.5]

    def test_not_where_the_next_write_is_near(self, bench: Bench) -> None:
        bench.sink._settings = bench.settings.model_copy(update={"timeout": 0.2})
        bench.sink.interval = 1.0
        bench.service.hang()

        assert bench.refused().reason == "timeout"
        assert len(bench.service.requests) == 1

    def test_a_service_that_hangs_costs_no_more_than_its_time(self, made: Made) -> None:
        bench = made(timeout=0.2)
        bench.service.hang(times=2)

        assert bench.refused().reason == "timeout"
        limits = [call.deadline or 99 for call in bench.service.calls]
        assert len(limits) == 2
        assert max(limits) < 0.3

    @pytest.mark.parametrize(
        "code",
        ["INVALID_ARGUMENT", "PERMISSION_DENIED", "NOT_FOUND", "RESOURCE_EXHAUSTED"],
    )
    def test_never_for_what_will_not_mend(self, bench: Bench, code: str) -> None:
        bench.service.fail(grpc.StatusCode[code])
        bench.refused()

        assert len(bench.service.requests) == 1
        assert bench.slept == []

    def test_refused_credentials_are_found_anew(self, bench: Bench) -> None:
        bench.service.fail_with(answers.unauthenticated())
        bench.write()

        assert len(bench.service.requests) == 2
        assert bench.ends == [10.0]


class TestWaiting:
    def test_longer_and_longer_where_it_will_not_mend_soon(self, bench: Bench) -> None:
        bench.service.fail_with(answers.quota(), times=None)
        tried: list[int] = []
        for second in range(0, 600, 10):
            error = bench.refused()
            assert error.reason == "quota"
            if len(bench.service.requests) > len(tried):
                tried.append(second)

        waits = [b - a for a, b in itertools.pairwise(tried)]
        assert waits == sorted(waits)
        assert waits[-1] <= LONGEST_WAIT
        assert len(tried) < 12

    def test_and_goes_on_by_itself(self, bench: Bench) -> None:
        bench.service.fail_with(answers.missing_role(), times=None)
        for _ in range(60):
            bench.refused()
        bench.service.recover()
        at = bench.now
        while not bench.ends:
            try:
                bench.write()
            except SinkError:
                assert bench.now - at <= LONGEST_WAIT
        bench.write()

        assert len(bench.ends) == 2

    def test_what_may_mend_at_once_is_tried_at_each_write(self, bench: Bench) -> None:
        bench.service.fail(grpc.StatusCode.UNAVAILABLE, times=None)
        for _ in range(4):
            bench.refused()

        assert len(bench.service.requests) == 8


class TestPartly:
    def test_what_is_right_is_stored(self, bench: Bench) -> None:
        """A second writer has taken the second worker's series."""
        bench.write(MANY[5])
        other = bench.restarted()
        other.publish(bench.readings(MANY[1]))
        other.close()

        error = bench.refused(*MANY[:3], after=2.0)

        assert error.reason == "two_writers"
        assert error.dropped == 1
        assert "3 of 9 points" in str(error)
        assert "SIDECAR_WORKER" in str(error)
        assert len(bench.service.accepted) == 12

    def test_a_restart_is_no_second_writer(self, bench: Bench) -> None:
        """Its first point comes too soon after the last one of the process before."""
        bench.write()
        bench.sink.close()
        bench.sink = bench.restarted()
        error = bench.refused(after=2.0)

        assert "the process before this one wrote a point" in str(error)
        assert error.reason == "restarted"
        bench.write(after=5.0)
        assert bench.ends == [10.0, 17.0]

    def test_but_what_comes_again_is_one(self, bench: Bench) -> None:
        other = bench.restarted()
        reasons = []
        for _ in range(3):
            bench.now += 8
            other.publish(bench.readings())
            reasons.append(bench.refused(after=2.0).reason)
        other.close()

        assert reasons == ["restarted", "two_writers", "two_writers"]

    def test_hundreds_of_refused_series_are_one_line(self, bench: Bench) -> None:
        """The answer holds the name of each, in headers larger than usual."""
        bench.write(*MANY[:60])
        bench.sink.close()
        bench.sink = bench.restarted()
        bench.refused(MANY[69], MANY[0], after=1.0)

        error = bench.refused(*MANY[:66], after=1.0)

        assert error.reason == "two_writers"
        assert error.dropped == 60
        assert "180 of 198 points" in str(error)

    def test_those_are_not_sent_too_soon_again(self, bench: Bench) -> None:
        bench.write(MANY[0])
        bench.sink = bench.restarted()
        bench.refused(*MANY[:2], after=2.0)

        bench.write(*MANY[:2], after=5.0)

        assert bench.ends == [10.0, 17.0]


class TestNothingDue:
    def test_it_is_not_well_for_that(self, bench: Bench) -> None:
        bench.service.fail(grpc.StatusCode.UNAVAILABLE, times=2)
        bench.refused()

        error = bench.refused(after=1.0)

        assert (error.reason, error.dropped) == ("unavailable", 0)
        assert len(bench.service.requests) == 2

    def test_one_request_that_fails_stops_no_other(self, bench: Bench) -> None:
        bench.service.fail(grpc.StatusCode.INTERNAL, times=2)
        error = bench.refused(*MANY)

        assert error.dropped == -(-MOST_SERIES // 3)
        assert len(bench.service.accepted) == 3 * len(MANY) - MOST_SERIES

    def test_while_it_waits_all_is_lost(self, bench: Bench) -> None:
        bench.service.fail_with(answers.quota())
        assert bench.refused(after=1.0).dropped == 1

        assert bench.refused(*MANY, after=1.0).dropped is None

    def test_a_service_that_is_away_is_waited_for_once(self, bench: Bench) -> None:
        bench.service.fail(grpc.StatusCode.UNAVAILABLE, times=None)
        error = bench.refused(*MANY)

        assert error.dropped == len(MANY)
        assert len(bench.service.requests) == 2

    def test_of_two_requests_one_may_be_stored(self, bench: Bench) -> None:
        bench.write(MANY[0])
        bench.service.fail(grpc.StatusCode.FAILED_PRECONDITION)
        error = bench.refused(*MANY)

        # The worker whose three series are in both requests is lost as well.
        assert error.dropped == -(-MOST_SERIES // 3)


class TestClock:
    def test_an_hour_ahead(self, bench: Bench) -> None:
        service_clock = bench.service._clock
        bench.service._clock = lambda: service_clock() - 3600
        error = bench.refused()

        assert error.reason == "clock"
        assert "clock is off" in str(error)

    def test_put_right_it_goes_on_at_once(self, bench: Bench) -> None:
        """What was refused does not count as the last point."""
        service_clock = bench.service._clock
        bench.service._clock = lambda: service_clock() - 3600
        bench.refused()
        bench.service._clock = service_clock
        bench.now -= 3600
        bench.write()

        assert len(bench.ends) == 1

    def test_an_hour_back_sends_nothing_older(self, bench: Bench) -> None:
        bench.write()
        error = bench.refused(after=-3600.0)

        assert error.reason == "clock"
        assert "went back by 3600s" in str(error)
        assert len(bench.service.requests) == 1

    def test_an_hour_ahead_while_the_service_is_away(self, bench: Bench) -> None:
        """As at boot, before there is a network: nobody took that point."""
        bench.service.fail(grpc.StatusCode.UNAVAILABLE, times=2)
        bench.refused(after=3600.0)
        bench.write(after=-3600.0)

        assert len(bench.ends) == 1

    def test_an_hour_behind_is_said_though_all_is_taken(self, bench: Bench) -> None:
        """By the clock of the servers that give tokens."""
        bench.sink._client.time = ServerTime(
            lambda: bench.now - 1000, lambda: bench.now - 3600
        )
        bench.sink._client.time.note(dated(bench.now))
        error = bench.refused()

        assert (error.reason, error.dropped) == ("clock", 0)
        assert "3600s behind" in str(error)
        assert bench.ends == [10.0]

    def test_put_right_nothing_more_is_said(self, bench: Bench) -> None:
        bench.sink._client.time = ServerTime(
            lambda: bench.now - 1000, lambda: bench.now
        )
        bench.sink._client.time.note(dated(bench.now))
        bench.write()

        assert bench.ends == [10.0]

    def test_an_answer_without_a_time_tells_nothing(self) -> None:
        time = ServerTime()
        time.note(requests.Response())

        assert time.behind == 0.0

    def test_two_days_behind(self, bench: Bench) -> None:
        service_clock = bench.service._clock
        bench.service._clock = lambda: service_clock() + 2 * 86400
        error = bench.refused()

        assert error.reason == "clock"


class TestCheck:
    def test_it_says_what_would_be_written(self, bench: Bench) -> None:
        said = bench.sink.check()

        assert said.startswith("project a-project, generic_task (location=global")
        assert "signal, capacity, utilization below custom.googleapis.com" in said
        assert bench.service.requests == []

    def test_a_project_that_is_not_there(self, made: Made) -> None:
        bench = made(project="another-project")

        with pytest.raises(SinkError, match="another-project.*_PROJECT"):
            bench.sink.check()

    def test_no_service(self, bench: Bench) -> None:
        bench.service.stop()

        with pytest.raises(SinkError, match="cannot be reached"):
            bench.sink.check()
