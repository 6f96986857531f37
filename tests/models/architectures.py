"""The tensors and header keys of each tiny architecture, as llama.cpp's loaders want them.

Every function takes a fresh ``Weights`` and the layer count, adds the layers' tensors and returns the architecture's
own header keys. Embedding and output are added by the caller, so that all architectures share them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from .weights import Weights

N_EMBD = 64
N_FF = 96
HEAD = 32
N_HEAD, N_HEAD_KV = 4, 2
SLIDING_WINDOW = 32

Value = float | bool | list[int]  # float takes int too
Keys = dict[str, Value]
"""Header keys without the architecture's prefix. Lists of booleans travel as lists of 0 and 1."""

# Attention scores of deviation 3 make a head look at few tokens, so that logits depend on which ones came before.
_SHARP = 1.75
_WRITE = 1.5


def _attention_keys(heads: int, heads_kv: int | list[int]) -> Keys:
    return {
        "attention.head_count": heads,
        "attention.head_count_kv": heads_kv,
        "attention.key_length": HEAD,
        "attention.value_length": HEAD,
        "rope.dimension_count": HEAD,
        "rope.freq_base": 10000.0,
    }


def _attention(w: Weights, block: str, heads: int, heads_kv: int, query_rows: int | None = None) -> None:
    w.matrix(f"{block}.attn_q.weight", query_rows or heads * HEAD, N_EMBD, _SHARP)
    w.matrix(f"{block}.attn_k.weight", heads_kv * HEAD, N_EMBD, _SHARP)
    w.matrix(f"{block}.attn_v.weight", heads_kv * HEAD, N_EMBD)
    w.matrix(f"{block}.attn_output.weight", N_EMBD, heads * HEAD, _WRITE, writes=True)


def _feed_forward(w: Weights, block: str) -> None:
    w.matrix(f"{block}.ffn_gate.weight", N_FF, N_EMBD)
    w.matrix(f"{block}.ffn_up.weight", N_FF, N_EMBD)
    w.matrix(f"{block}.ffn_down.weight", N_EMBD, N_FF, _WRITE, writes=True)


def _norms(w: Weights, block: str, *names: str) -> None:
    for name in names:
        w.vector(f"{block}.{name}.weight", N_EMBD)


def _head_norms(w: Weights, block: str) -> None:
    w.vector(f"{block}.attn_q_norm.weight", HEAD, _SHARP)
    w.vector(f"{block}.attn_k_norm.weight", HEAD, _SHARP)


def llama(w: Weights, n_layer: int) -> Keys:
    """Full attention with grouped queries: any tail of the cache can be removed."""
    for layer in range(n_layer):
        block = f"blk.{layer}"
        _norms(w, block, "attn_norm", "ffn_norm")
        _attention(w, block, N_HEAD, N_HEAD_KV)
        _feed_forward(w, block)
    return {"feed_forward_length": N_FF, **_attention_keys(N_HEAD, N_HEAD_KV)}


def gemma3(w: Weights, n_layer: int) -> Keys:
    """Sliding-window and full attention in turns, the window in even layers."""
    w.tensors["token_embd.weight"] /= np.float32(np.sqrt(N_EMBD))  # the graph multiplies it back
    for layer in range(n_layer):
        block = f"blk.{layer}"
        _norms(w, block, "attn_norm", "ffn_norm", "post_attention_norm", "post_ffw_norm")
        for norm in ("post_attention_norm", "post_ffw_norm"):
            w.tensors[f"{block}.{norm}.weight"][0] = 0.0
        _attention(w, block, N_HEAD, N_HEAD_KV)
        _head_norms(w, block)
        _feed_forward(w, block)
    return {
        "feed_forward_length": N_FF,
        "attention.sliding_window": SLIDING_WINDOW,
        "attention.sliding_window_pattern": 2,
        **_attention_keys(N_HEAD, N_HEAD_KV),
    }


def lfm2(w: Weights, n_layer: int) -> Keys:
    """Short convolutions in even layers, attention in odd ones: a hybrid whose state can be snapshot."""
    w.tensors["token_embd_norm.weight"] = w.tensors.pop("output_norm.weight")
    heads, heads_kv = N_EMBD // HEAD, 1
    for layer in range(n_layer):
        block = f"blk.{layer}"
        _norms(w, block, "attn_norm", "ffn_norm")
        if layer % 2:
            _attention(w, block, heads, heads_kv)
            _head_norms(w, block)
        else:
            w.matrix(f"{block}.shortconv.conv.weight", N_EMBD, 3, 1.5)
            w.matrix(f"{block}.shortconv.in_proj.weight", 3 * N_EMBD, N_EMBD)
            w.matrix(f"{block}.shortconv.out_proj.weight", N_EMBD, N_EMBD, _WRITE, writes=True)
        _feed_forward(w, block)
    return {
        "feed_forward_length": N_FF,
        "shortconv.l_cache": 3,
        **_attention_keys(heads, [heads_kv if layer % 2 else 0 for layer in range(n_layer)]),
    }


def qwen35(w: Weights, n_layer: int) -> Keys:
    """Gated delta nets in even layers, gated attention in odd ones: the other kind of hybrid with snapshots."""
    state, groups, heads = 16, 2, 4
    inner = state * heads
    convolved = 2 * state * groups + inner
    for layer in range(n_layer):
        block = f"blk.{layer}"
        _norms(w, block, "attn_norm", "post_attention_norm")
        if layer % 2:
            _attention(w, block, N_HEAD, N_HEAD_KV, query_rows=2 * N_HEAD * HEAD)
            _head_norms(w, block)
        else:
            w.matrix(f"{block}.attn_qkv.weight", convolved, N_EMBD)
            w.matrix(f"{block}.attn_gate.weight", inner, N_EMBD)
            w.matrix(f"{block}.ssm_conv1d.weight", convolved, 4, 1.5)
            w.vector(f"{block}.ssm_dt.bias", heads, 0.0)
            w.vector(f"{block}.ssm_a", heads, -0.5)
            w.matrix(f"{block}.ssm_beta.weight", heads, N_EMBD)
            w.matrix(f"{block}.ssm_alpha.weight", heads, N_EMBD)
            w.vector(f"{block}.ssm_norm.weight", state)
            w.matrix(f"{block}.ssm_out.weight", N_EMBD, inner, 2 * _WRITE, writes=True)
        _feed_forward(w, block)
    return {
        "feed_forward_length": N_FF,
        "full_attention_interval": 2,
        "ssm.conv_kernel": 4,
        "ssm.inner_size": inner,
        "ssm.state_size": state,
        "ssm.time_step_rank": heads,
        "ssm.group_count": groups,
        "rope.dimension_sections": [HEAD // 4, HEAD // 8, HEAD // 8, 0],
        **_attention_keys(N_HEAD, N_HEAD_KV),
    }


_SSM_KEYS: Keys = {"ssm.conv_kernel": 4, "ssm.inner_size": 2 * N_EMBD, "ssm.state_size": 8, "ssm.time_step_rank": 4}


def _mamba_block(w: Weights, block: str, normed: bool) -> None:
    inner, state, rank = 2 * N_EMBD, 8, 4
    w.matrix(f"{block}.ssm_in.weight", 2 * inner, N_EMBD)
    w.matrix(f"{block}.ssm_conv1d.weight", inner, 4, 1.5)
    w.vector(f"{block}.ssm_conv1d.bias", inner, 0.0)
    w.matrix(f"{block}.ssm_x.weight", rank + 2 * state, inner, 1.5)
    w.matrix(f"{block}.ssm_dt.weight", inner, rank)
    w.vector(f"{block}.ssm_dt.bias", inner, -0.5)
    w.given(f"{block}.ssm_a", -np.tile(np.arange(1, state + 1) / 4, (inner, 1)))
    w.vector(f"{block}.ssm_d", inner)
    w.matrix(f"{block}.ssm_out.weight", N_EMBD, inner, 0.3, writes=True)
    if normed:
        w.vector(f"{block}.ssm_dt_norm.weight", rank)
        w.vector(f"{block}.ssm_b_norm.weight", state)
        w.vector(f"{block}.ssm_c_norm.weight", state)


def mamba(w: Weights, n_layer: int) -> Keys:
    """A state-space model: one state a sequence, no way back but a checkpoint."""
    for layer in range(n_layer):
        _norms(w, f"blk.{layer}", "attn_norm")
        _mamba_block(w, f"blk.{layer}", normed=False)
    return {"feed_forward_length": 0, "attention.head_count": 0, **_SSM_KEYS}


def jamba(w: Weights, n_layer: int) -> Keys:
    """State-space layers in even places, attention in odd ones: a hybrid without snapshots."""
    heads, heads_kv = N_EMBD // HEAD, 1
    for layer in range(n_layer):
        block = f"blk.{layer}"
        _norms(w, block, "attn_norm", "ffn_norm")
        if layer % 2:
            _attention(w, block, heads, heads_kv)
        else:
            _mamba_block(w, block, normed=True)
        _feed_forward(w, block)
    return {
        "feed_forward_length": N_FF,
        "attention.head_count": heads,
        "attention.head_count_kv": [heads_kv if layer % 2 else 0 for layer in range(n_layer)],
        **_SSM_KEYS,
    }


BUILDERS: Mapping[str, Callable[[Weights, int], Keys]] = {
    "llama": llama,
    "gemma3": gemma3,
    "lfm2": lfm2,
    "qwen35": qwen35,
    "mamba": mamba,
    "jamba": jamba,
}
