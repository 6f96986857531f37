"""The chain equals a plain, slow statement of it; residuals and overlaps are what their definitions say."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slipstream.domain.sampling import Sampling
from slipstream.engine.sampling import Chain, Dist
from slipstream.engine.verify import Proposal, overlap, residual


def slow_chain(row: np.ndarray, s: Sampling, counts: dict[int, int]) -> np.ndarray:
    """All steps on the full row, sorted, in float64."""
    logits = row.astype(np.float64).copy()
    if s.penalised:
        for token, count in counts.items():
            logits[token] = logits[token] * s.repeat_penalty if logits[token] <= 0 else logits[token] / s.repeat_penalty
            logits[token] -= count * s.frequency_penalty + s.presence_penalty
    if s.greedy:
        return np.eye(len(row))[int(np.argmax(logits.astype(np.float32)))]
    order = np.argsort(-logits, kind="stable")
    if s.top_k:
        order = order[: s.top_k]
    if s.top_p < 1:
        p = np.exp(logits[order] - logits[order[0]])
        p /= p.sum()
        order = order[: int(np.searchsorted(np.cumsum(p), s.top_p)) + 1]
    if s.min_p > 0:
        order = order[logits[order] >= logits[order[0]] + np.log(s.min_p)]
    p = np.zeros(len(row))
    p[order] = np.exp((logits[order] - logits[order[0]]) / s.temperature)
    return p / p.sum()


samplings = st.builds(
    Sampling,
    temperature=st.sampled_from([0.0, 0.3, 0.8, 1.0, 1.7]),
    top_k=st.sampled_from([0, 1, 5, 40, 5000]),
    top_p=st.sampled_from([0.1, 0.5, 0.95, 1.0]),
    min_p=st.sampled_from([0.0, 0.05, 0.3]),
    repeat_penalty=st.sampled_from([1.0, 1.3]),
    presence_penalty=st.sampled_from([0.0, 0.5]),
    frequency_penalty=st.sampled_from([0.0, 0.2]),
    penalty_last_n=st.sampled_from([-1, 0, 8, 64]),
)


@settings(max_examples=300, deadline=None)
@given(samplings, st.integers(0, 10_000), st.sampled_from([8, 300, 3000]), st.sampled_from([0.5, 3.0, 8.0]))
def test_chain_equals_the_plain_statement(s: Sampling, seed: int, size: int, spread: float) -> None:
    rng = np.random.default_rng(seed)
    row = rng.normal(0, spread, size).astype(np.float32)
    tokens = rng.integers(0, size, 30).tolist()
    chain = Chain(s, size)
    history = chain.history(tokens)
    window = tokens if s.penalty_last_n < 0 else tokens[len(tokens) - min(len(tokens), s.penalty_last_n) :]
    counts = {t: window.count(t) for t in set(window)}
    dist = chain.dist(row, history)
    np.testing.assert_allclose(dist.at(None, size), slow_chain(row, s, counts), atol=2e-6)
    assert dist.probs.sum() == pytest.approx(1.0)
    assert dist.of(dist.top()[0]) == pytest.approx(dist.top()[1])


@st.composite
def dists(draw: st.DrawFn, size: int = 6) -> Dist:
    weights = np.array(draw(st.lists(st.floats(0.01, 1), min_size=size, max_size=size)))
    if draw(st.booleans()):
        return Dist(None, weights / weights.sum())
    ids = np.array(sorted(draw(st.sets(st.integers(0, size - 1), min_size=1))))
    return Dist(ids, weights[: len(ids)] / weights[: len(ids)].sum())


@given(dists(), dists())
def test_overlap_and_residual_by_definition(p: Dist, q: Dist) -> None:
    full_p, full_q = p.at(None, 6), q.at(None, 6)
    assert overlap(p, q) == pytest.approx(np.minimum(full_p, full_q).sum())
    rest = np.maximum(full_p - full_q, 0)
    if rest.sum() > 1e-9:
        np.testing.assert_allclose(
            residual(p, Proposal(0, q, q)).at(None, 6), rest / rest.sum(), atol=1e-9
        )


@given(dists(), dists(), st.sampled_from([0.0, 0.5, 1.0, 1.25]))
def test_kept_plus_residual_is_p(p: Dist, q: Dist, tau: float) -> None:
    """Σ over drawn tokens of q·min(1, p/q), plus the rejected mass spread as the residual, is exactly p."""
    q = q.sharpened(tau)
    full_p, full_q = p.at(None, 6), q.at(None, 6)
    kept = np.minimum(full_p, full_q)
    if 1 - kept.sum() > 1e-9:
        kept = kept + (1 - kept.sum()) * residual(p, Proposal(0, q, q)).at(None, 6)
    np.testing.assert_allclose(kept, full_p, atol=1e-9)


def test_draw_follows_probs() -> None:
    dist = Dist(np.array([3, 9]), np.array([0.25, 0.75]))
    rng = np.random.default_rng(0)
    drawn = [dist.draw(rng) for _ in range(4000)]
    assert set(drawn) == {3, 9}
    assert drawn.count(9) / 4000 == pytest.approx(0.75, abs=0.04)
