"""The Prometheus text format, read only where a needed family stands.

A worker's page has some 400 samples and the sidecar needs about twenty. Searching
for their names costs a fiftieth of parsing every line, and an unrelated exporter's
broken line cannot blind us.
"""

from __future__ import annotations

import re
from functools import lru_cache
from math import isfinite

from sidecar.errors import MalformedSample, NotExposition

Labels = tuple[tuple[str, str], ...]

_PAIR = r'[a-zA-Z_]\w*\s*=\s*"(?:[^"\\]|\\.)*"'
_LABELS = re.compile(rf"\{{\s*(?:{_PAIR}(?:\s*,\s*{_PAIR})*\s*,?\s*)?\}}")
_VALUE = r"[+-]?(?:\.?\d|nan|inf)\S*(?:\s+-?\d+(?:\.\d+)?)?\s*(?:#.*)?"
_LINE = re.compile(
    rf"([a-z_:][\w:]*)(?:{_LABELS.pattern}\s*|\s+){_VALUE}$", re.IGNORECASE
)
_LABEL = re.compile(r'([a-zA-Z_]\w*)\s*=\s*"((?:[^"\\]|\\.)*)"')
_ESCAPE = re.compile(r"\\(.)")
_ESCAPED = {"n": "\n", "\\": "\\", '"': '"'}
_AFTER_NAME = frozenset("{ \t")


class Page:
    """One metrics page: text format 0.0.4 or 1.0.0, or OpenMetrics text.

    Raises:
        NotExposition: the body starts like JSON or HTML.
    """

    def __init__(self, body: str) -> None:
        start = body.lstrip()[:1]
        if start in {'"', "[", "{", "<"}:
            kind = "an HTML page" if start == "<" else "JSON"
            msg = f"the body is {kind}, not Prometheus text; it starts with"
            raise NotExposition(f"{msg} {body.lstrip()[:40]!r}")
        self._text = "\n" + body
        self._lines: dict[str, list[str]] = {}

    def look_for(self, names: tuple[str, ...]) -> None:
        """Find the lines of all these names in one pass, before ``samples`` asks."""
        lines: dict[str, list[str]] = {name: [] for name in names}
        for name, rest in _lines_of(names).findall(self._text):
            lines[name].append(rest)
        self._lines |= lines

    def samples(self, name: str) -> list[tuple[Labels, float]]:
        """All samples called exactly ``name``, in page order.

        NaN and infinite values are missing samples, not numbers.

        Raises:
            MalformedSample: a line that starts with the name cannot be read.
        """
        if name not in self._lines:
            self.look_for((name,))
        parsed = (_parse(name, rest) for rest in self._lines[name])
        return [(labels, value) for labels, value in parsed if isfinite(value)]

    def lines(self, name: str) -> int:
        """How many lines have the name, also those whose value is no number."""
        if name not in self._lines:
            self.look_for((name,))
        return len(self._lines[name])

    def has(self, name: str) -> bool:
        """Whether a sample is called exactly ``name``."""
        text, needle = self._text, "\n" + name
        at = text.find(needle)
        while at >= 0:
            end = at + len(needle)
            if text[end : end + 1] in _AFTER_NAME:
                return True
            at = text.find(needle, end)
        return False

    def declares(self, family: str) -> bool:
        """Whether the page has a TYPE line of the family, with or without samples."""
        return f"\n# TYPE {family} " in self._text

    def mentions(self, beginning: str) -> bool:
        """Whether any sample's name begins like this."""
        return "\n" + beginning in self._text

    @property
    def is_blank(self) -> bool:
        """Whether there is nothing on the page at all."""
        return not self._text.strip()

    @property
    def has_comments(self) -> bool:
        """Whether the page has a comment: HELP, TYPE or another."""
        return "\n#" in self._text

    def names(self) -> list[str]:
        """The distinct sample names, in page order. Reads the whole page."""
        matches = (_LINE.match(line.strip()) for line in self._text.split("\n"))
        return list(dict.fromkeys(match[1] for match in matches if match))

    def malformed_lines(self) -> int:
        """How many lines no reader could make sense of. Reads the whole page."""
        lines = (line.strip() for line in self._text.split("\n"))
        return sum(
            1 for line in lines if line and line[0] != "#" and not _LINE.match(line)
        )


@lru_cache(maxsize=64)
def _lines_of(names: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile(rf"\n({_any_of(set(names))})(?=[ \t{{])([^\n]*)")


def _any_of(words: set[str]) -> str:
    """A pattern for any of the words that looks at each character once.

    Most lines of a page begin alike, so a plain ``a|b|c`` would try them all.
    """
    branches = [
        re.escape(first) + _any_of({w[1:] for w in words if w[:1] == first})
        for first in sorted({w[0] for w in words if w})
    ]
    if not branches:
        return ""
    pattern = branches[0] if len(branches) == 1 else f"(?:{'|'.join(branches)})"
    return f"(?:{pattern})?" if "" in words else pattern


def _parse(name: str, rest: str) -> tuple[Labels, float]:
    try:
        labels, value = _split(rest)
        return _labels(labels), _number(value)
    except ValueError:
        msg = f"unreadable line {(name + rest)[:160]!r}"
        hint = f"the total of {name} is unknown until it is mended"
        raise MalformedSample(f"{msg}: {hint}") from None


def _split(rest: str) -> tuple[str, str]:
    """What follows a name: the label set, and the value with what follows it."""
    rest = rest.lstrip()
    if rest[0] != "{":
        return "", rest
    head, _, tail = rest.rpartition("}")
    if "{" not in head[1:]:
        return head + "}", tail
    # A brace inside a label value, or an exemplar's: look closer.
    match = _LABELS.match(rest)
    if match is None:
        raise ValueError
    return match[0], rest[match.end() :]


def _number(text: str) -> float:
    value, *more = text.split()
    if more and more[0] != "#":
        float(more[0])  # a timestamp, or the line is broken
    return float(value)


# A worker prints the same few label sets at every poll.
@lru_cache(maxsize=1024)
def _labels(text: str) -> Labels:
    if text and not _LABELS.fullmatch(text):
        raise ValueError
    return tuple(
        (key, _ESCAPE.sub(lambda m: _ESCAPED.get(m[1], m[0]), value))
        for key, value in _LABEL.findall(text)
    )
