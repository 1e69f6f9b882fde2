"""A tiny Llama-shaped model out of nothing: configuration and tokenizer.

The weights are random: the engine makes them (``--load-format dummy``). The tokenizer
has a token for each byte, so a prompt is as many tokens as it has characters.
"""

from __future__ import annotations

import json
from pathlib import Path

NAME = "tiny-llama"

_SPECIAL = ("<unk>", "<s>", "</s>", "<pad>")
_PRINTABLE = (*range(33, 127), *range(161, 173), *range(174, 256))
_CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 512,
    "intermediate_size": 1408,
    "num_hidden_layers": 8,
    "num_attention_heads": 8,
    "num_key_value_heads": 8,
    "head_dim": 64,
    "vocab_size": len(_SPECIAL) + 256,
    "max_position_embeddings": 2048,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "hidden_act": "silu",
    "initializer_range": 0.02,
    "tie_word_embeddings": False,
    "attention_bias": False,
    "mlp_bias": False,
    "torch_dtype": "float32",
}
_IDS = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 3}
_TEMPLATE = "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}"


def make(where: Path) -> Path:
    """Write the model's directory; the same bytes every time."""
    where.mkdir(parents=True, exist_ok=True)
    files = {
        "config.json": {**_CONFIG, **_IDS},
        "generation_config.json": _IDS,
        "tokenizer.json": _tokenizer(),
        "tokenizer_config.json": {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "unk_token": "<unk>",
            "bos_token": "<s>",
            "eos_token": "</s>",
            "pad_token": "<pad>",
            "model_max_length": 2048,
            "chat_template": _TEMPLATE,
        },
    }
    for name, content in files.items():
        (where / name).write_text(json.dumps(content, indent=1), encoding="utf-8")
    return where


def _tokenizer() -> dict[str, object]:
    """Byte-level BPE without a single merge."""
    byte_level = {
        "type": "ByteLevel",
        "add_prefix_space": False,
        "trim_offsets": True,
        "use_regex": True,
    }
    special = [
        {
            "id": number,
            "content": token,
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
            "special": True,
        }
        for number, token in enumerate(_SPECIAL)
    ]
    tokens = [*_SPECIAL, *_alphabet()]
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": special,
        "normalizer": None,
        "pre_tokenizer": byte_level,
        "post_processor": None,
        "decoder": byte_level,
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": "<unk>",
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "vocab": {token: number for number, token in enumerate(tokens)},
            "merges": [],
        },
    }


def _alphabet() -> list[str]:
    """The 256 characters by which byte-level tokenizers write bytes."""
    others = len(set(range(256)) - set(_PRINTABLE))
    return [chr(code) for code in (*_PRINTABLE, *range(256, 256 + others))]
