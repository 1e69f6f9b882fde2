"""The status for eyes: one small HTML page that reloads itself."""

from __future__ import annotations

from html import escape
from typing import Any

_STYLE = """
body{font:15px/1.5 system-ui,sans-serif;max-width:54rem;margin:2rem auto;padding:0 1rem;
color:#1a1a1a;background:#fff}
h1{font-size:1.2rem}h2{font-size:1rem;margin:1.6rem 0 .3rem}
table{border-collapse:collapse}td{padding:.1rem 1.2rem .1rem 0;vertical-align:top}
td:first-child{color:#666;white-space:nowrap}.big{font-size:1.6rem}
.bar{width:24rem;max-width:100%;height:.7rem;background:#e6e6e6;border-radius:.35rem}
.bar i{display:block;height:100%;border-radius:.35rem;background:#2a7d4f}
.bar i.full{background:#b3402a}.bad{color:#b3402a}
@media(prefers-color-scheme:dark){body{color:#ddd;background:#161616}
td:first-child{color:#999}.bar{background:#333}}
"""


def render(status: dict[str, Any]) -> str:
    """The page for a status document."""
    workers = "".join(map(_worker, status["workers"])) or _nothing(status)
    sinks = "".join(
        _row(s["sink"], s["error"] or _published(s["last_success_age"]), bad=s["error"])
        for s in status["sinks"]
    )
    return (
        '<!doctype html><meta charset="utf-8"><meta http-equiv="refresh" content="2">'
        '<meta name="viewport" content="width=device-width">'
        f"<title>capacity-sidecar</title><style>{_STYLE}</style>"
        f"<h1>capacity-sidecar {escape(status['version'])}</h1>{workers}"
        f"<h2>Sinks</h2><table>{sinks}</table>"
        '<p><a href="/metrics">metrics</a> · <a href="/status">status as JSON</a></p>'
    )


def _worker(worker: dict[str, Any]) -> str:
    rows = [_row("state", worker["state"], bad=worker["error"])]
    if worker["error"]:
        rows.append(_row("", worker["error"], bad=True))
    if worker["capacity"] is not None:
        rows.append(_row("capacity", f"{worker['capacity']:.2f} requests/s", big=True))
        if worker["capacity_lower"] is not None:
            low, high = worker["capacity_lower"], worker["capacity_upper"]
            rows.append(_row("80 % interval", f"{low:.2f} to {high:.2f}"))
        rows.append(_row("from", worker["method"]))
    if worker["utilization"] is not None:
        rows.append(_bar(worker["utilization"]))
    if worker["throughput"] is not None:
        rows.append(_row("throughput", f"{worker['throughput']:.2f} requests/s"))
        rows.append(_row("demand", f"{worker['demand']:.2f} requests/s"))
        busy = f"{worker['running']:.0f} running, {worker['waiting']:.0f} waiting"
        rows.append(_row("requests", busy))
    title = escape(str(worker["model_name"] or "worker"))
    target = escape(worker["target"])
    return f"<h2>{title} at {target}</h2><table>{''.join(rows)}</table>"


def _nothing(status: dict[str, Any]) -> str:
    if not status["enabled"]:
        return "<p>Switched off: SIDECAR_ENABLED is false.</p>"
    rows = "".join(
        _row(verdict["subject"] or verdict["source"], verdict["reason"])
        for verdict in status["discovery"]
    )
    return f"<p>No worker found yet. Looked at:</p><table>{rows}</table>"


def _bar(utilization: float) -> str:
    width = min(100.0, 100 * utilization)
    full = ' class="full"' if utilization >= 1 else ""
    bar = f'<div class="bar"><i{full} style="width:{width:.1f}%"></i></div>'
    return f"<tr><td>utilization</td><td>{100 * utilization:.0f} %{bar}</td></tr>"


def _row(name: str, value: object, *, bad: object = False, big: bool = False) -> str:
    kind = "bad" if bad else "big" if big else ""
    return (
        f'<tr><td>{escape(name)}</td><td class="{kind}">{escape(str(value))}</td></tr>'
    )


def _published(age: float | None) -> str:
    return "nothing published yet" if age is None else f"published {age:.0f} s ago"
