"""Cloud Monitoring's MetricService, over real gRPC on loopback.

with MetricService("a-project", clock=lambda: 1_000.0) as service:
    with client_of(service.endpoint) as client:
        client.create_time_series(name="projects/a-project", time_series=[...])
    service.accepted
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import grpc
from google.api.monitored_resource_pb2 import MonitoredResourceDescriptor
from google.cloud import monitoring_v3 as api
from google.protobuf.empty_pb2 import Empty
from grpc_status import rpc_status  # type: ignore[import-untyped]

from tests.gcp import answers, reading, resources, rules
from tests.gcp.grpc_server import GrpcServer, wait_for_end
from tests.gcp.history import History
from tests.gcp.injections import WRITING, Failing
from tests.gcp.series import Accepted

PATIENCE = 20.0
"""Seconds after which a test gives up on something that never comes."""

DESCRIBING = "GetMonitoredResourceDescriptor"
LISTING = "ListTimeSeries"


class Call(NamedTuple):
    """A call that came.

    Attributes:
        method: its name, ``CreateTimeSeries`` say.
        request: its message.
        metadata: its headers, names in lower case.
        deadline: seconds the client gave it; None: for ever.
    """

    method: str
    request: Any
    metadata: dict[str, str | bytes]
    deadline: float | None


class MetricService(Failing):
    """The server; `fail`, `fail_with`, `hang` and `recover` are `Failing`'s.

    Args:
        project: the id of the only project there is.
        clock: the server's time, Unix seconds.
        number: the project's number, which names it as well.
        tls: its key and certificate; None: it speaks plaintext.

    Attributes:
        requests: every CreateTimeSeries request, the refused ones too.
        calls: every call of any method.
    """

    def __init__(
        self,
        project: str = "a-project",
        clock: Callable[[], float] = time.time,
        *,
        number: str = "123456789012",
        tls: grpc.ServerCredentials | None = None,
    ) -> None:
        super().__init__()
        self.requests: list[api.CreateTimeSeriesRequest] = []
        self.calls: list[Call] = []
        self._projects = (project, number)
        self._clock = clock
        self._history = History(self._projects)
        self._changed = threading.Condition()
        self._server = GrpcServer(tls)

    @property
    def endpoint(self) -> str:
        """``host:port``, the same over stops and starts."""
        return self._server.endpoint

    @property
    def accepted(self) -> Accepted:
        """What was written."""
        return self._history.accepted

    def __enter__(self) -> MetricService:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(self) -> None:
        """Serve from now on; after a ``stop`` too, with what was written before."""
        handlers = {
            WRITING: grpc.unary_unary_rpc_method_handler(
                self._served(WRITING, self._write),
                request_deserializer=api.CreateTimeSeriesRequest.deserialize,
                response_serializer=Empty.SerializeToString,
            ),
            DESCRIBING: grpc.unary_unary_rpc_method_handler(
                self._served(DESCRIBING, self._describe),
                request_deserializer=api.GetMonitoredResourceDescriptorRequest.deserialize,
                response_serializer=MonitoredResourceDescriptor.SerializeToString,
            ),
            LISTING: grpc.unary_unary_rpc_method_handler(
                self._served(LISTING, self._list),
                request_deserializer=api.ListTimeSeriesRequest.deserialize,
                response_serializer=api.ListTimeSeriesResponse.serialize,
            ),
        }
        generic = grpc.method_handlers_generic_handler(answers.METHODS, handlers)
        self._server.start(generic)

    def stop(self) -> None:
        """End all calls and refuse new ones; safe without ``start`` and twice."""
        self._server.stop()

    def close(self) -> None:
        """Stop, and give the port up."""
        self._server.close()

    def wait_for(self, count: int, method: str = WRITING) -> None:
        """Wait until so many calls of the method have come; they may be under way."""

        def came() -> bool:
            return sum(each.method == method for each in self.calls) >= count

        with self._changed:
            assert self._changed.wait_for(came, PATIENCE), self.calls

    def _served(
        self, method: str, work: Callable[[Any], Any]
    ) -> Callable[[Any, grpc.ServicerContext], Any]:
        """A handler that notes the call, then fails as told or does the work."""

        def locked(request: Any) -> Any:
            with self._changed:
                return work(request)

        def serve(request: Any, context: grpc.ServicerContext) -> Any:
            self._note(method, request, context)
            injection = self.next_injection(method)
            try:
                if injection is None:
                    return locked(request)
                if injection.after_writing:
                    with contextlib.suppress(answers.Answered):
                        locked(request)
                if injection.answer is None:
                    wait_for_end(context)
                    context.abort(grpc.StatusCode.CANCELLED, "")
                raise answers.Answered(injection.answer)
            except answers.Answered as answered:
                context.abort_with_status(rpc_status.to_status(answered.status))

        return serve

    def _note(self, method: str, request: Any, context: grpc.ServicerContext) -> None:
        metadata = dict(context.invocation_metadata())
        call = Call(method, request, metadata, context.time_remaining())
        with self._changed:
            self.calls.append(call)
            if method == WRITING:
                self.requests.append(request)
            self._changed.notify_all()

    def _write(self, request: api.CreateTimeSeriesRequest) -> Empty:
        self._check_project(request.name)
        if not request.time_series:
            # opentelemetry-operations-go #98
            text = "Request was missing field timeSeries."
            raise answers.Answered(answers.invalid(text))
        if len(request.time_series) > rules.MOST_SERIES:
            raise answers.Answered(answers.too_many_series(rules.MOST_SERIES))
        self._history.write(request.time_series, self._clock())
        return Empty()

    def _describe(
        self, request: api.GetMonitoredResourceDescriptorRequest
    ) -> MonitoredResourceDescriptor:
        project, _, kind = request.name.partition("/monitoredResourceDescriptors/")
        self._check_project(project)
        if kind not in resources.LABELS:
            raise answers.Answered(answers.no_descriptor(kind))
        return resources.descriptor(self._projects[0], kind)

    def _list(self, request: api.ListTimeSeriesRequest) -> api.ListTimeSeriesResponse:
        self._check_project(request.name)
        found = reading.read(request, self._history, self._projects[0])
        return api.ListTimeSeriesResponse(time_series=found)

    def _check_project(self, name: str) -> None:
        if name not in [f"projects/{each}" for each in self._projects]:
            raise answers.Answered(answers.no_project(name))
