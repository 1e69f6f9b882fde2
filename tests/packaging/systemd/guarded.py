"""A worker's page behind a token, on port 8001: what SIDECAR_BEARER_TOKEN is for."""

from __future__ import annotations

from http.server import BaseHTTPRequestHandler, HTTPServer

PAGE = b"""\
vllm:num_requests_running{model_name="guarded"} 0
vllm:num_requests_waiting{model_name="guarded"} 0
vllm:request_success_total{model_name="guarded"} 0
"""


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        allowed = self.headers["Authorization"] == "Bearer s3cret"
        self.send_response(200 if allowed else 401)
        self.end_headers()
        self.wfile.write(PAGE if allowed else b"")


HTTPServer(("127.0.0.1", 8001), Handler).serve_forever()
