"""The model's name, made safe for a metric name.

The signal is called ``num_loaded_models_<tag>``, after Apache Beam's capacity signal,
so a tag may hold only what every metric system accepts: ``[A-Za-z0-9_]``.
"""

from __future__ import annotations

import hashlib
import re

MAX_LENGTH = 100
UNNAMED = "unnamed_model"

_ILLEGAL = re.compile(r"[^A-Za-z0-9_]")
_HASH_LENGTH = 8


def is_legal(tag: str) -> bool:
    """Whether the tag can be used as it is."""
    return 0 < len(tag) <= MAX_LENGTH and not _ILLEGAL.search(tag)


def sanitize(model_name: str) -> str:
    """The tag of a model name: other characters become ``_``.

    A name longer than 100 characters ends in a hash of the whole name, so that two
    long names with one beginning stay two tags. An empty name gives ``unnamed_model``.
    """
    tag = _ILLEGAL.sub("_", model_name)
    if not model_name.strip():
        return UNNAMED
    return tag if len(tag) <= MAX_LENGTH else _with_hash(tag, model_name)


def distinct(model_names: list[str]) -> dict[str, str]:
    """Tags for the models of one process; names that meet in one tag get a hash."""
    tags = {name: sanitize(name) for name in model_names}
    shared = {tag for tag in tags.values() if list(tags.values()).count(tag) > 1}
    return {
        name: _with_hash(tag, name) if tag in shared else tag
        for name, tag in tags.items()
    }


def _with_hash(tag: str, model_name: str) -> str:
    digest = hashlib.sha256(model_name.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{tag[: MAX_LENGTH - _HASH_LENGTH - 1]}_{digest[:_HASH_LENGTH]}"
