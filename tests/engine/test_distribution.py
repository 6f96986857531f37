"""Speculative output has the target's own joint distribution, whatever drafts, at the pace's own decisions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from slipstream.domain.sampling import Sampling
from slipstream.domain.speculation import Mode, Speculation
from slipstream.engine.drafters import Parts
from slipstream.engine.drafters.model import ModelDrafter
from slipstream.engine.drafters.ngram import NgramDrafter
from slipstream.engine.loop import Loop
from slipstream.engine.pace import Observation, PaceController
from slipstream.engine.sampling import Chain, Dist

from .chi_square import joint, p_value
from .table_model import TableCache, tables

VOCAB = 7
PROMPT = [0, 1, 2, 3, 4, 5, 6, 0, 1, 2, 3, 4]
CHAINS = {
    "default": Sampling(temperature=0.8),
    "untruncated": Sampling(temperature=1.0, top_k=0, top_p=1.0, min_p=0.0),
    "penalised": Sampling(temperature=0.9, top_k=5, repeat_penalty=1.2, presence_penalty=0.2, frequency_penalty=0.1),
}


class SimulatedTimes(PaceController):
    """The real controller, fed the costs of a memory-bound target: its decisions are its own."""

    def observe(self, observation: Observation) -> None:
        super().observe(
            replace(
                observation,
                verify_s=0.1 * (1 + 0.04 * (observation.rows - 1)),
                draft_s=0.004 * observation.proposed if observation.drafter == "model" else 0.0,
                sample_s=0.0,
                python_s=0.0,
                catch_up_s=0.0,
                roll_back_s=0.0,
            )
        )


def controller(speculation: Speculation) -> PaceController:
    pace = SimulatedTimes(None, speculation, 6)
    for rows in range(1, 8):
        pace.observe_verify(rows, 8, 0.1 * (1 + 0.04 * (rows - 1)))
    pace.observe_draft_steps("model", 10, 0.04)
    return pace


def run(drafter_names: Sequence[str], sampling: Sampling, mode: Mode, replies: int, length: int):
    target_table, draft_table = tables(VOCAB, seed=5)
    target, draft = TableCache(target_table), TableCache(draft_table)
    made = {
        "model": lambda: ModelDrafter(draft, Parts(VOCAB, lambda _: False, draft, {})),  # type: ignore[arg-type]
        "ngram": NgramDrafter,
    }
    drafters = [made[name]() for name in drafter_names]
    pace = controller(Speculation(mode, 3))
    chain, rng = Chain(sampling, VOCAB), np.random.default_rng(11)
    samples, speculated = [], 0
    pace.begin_reply()  # one long reply to the controller, or its budget for so short ones is to draft nothing
    for _ in range(replies):
        loop = Loop(target, drafters, pace, chain, rng, lambda _: False, 6)  # type: ignore[arg-type]
        target.reuse(PROMPT)
        target.decode(PROMPT[len(target) :], 1)
        loop.first(PROMPT)
        for step in loop.rounds(length + 3):
            speculated += step.round.verified > 0
            if len(loop.tokens) >= len(PROMPT) + length:
                break
        # rounds yield several tokens: look at the same number of every reply
        samples.append(tuple(loop.tokens[len(PROMPT) : len(PROMPT) + length]))
        loop.settle(len(PROMPT) + length)
        assert target.tokens == loop.tokens[: len(target.tokens)]

    def dist(tokens: Sequence[int]) -> Dist:
        return chain.dist(target_table[tokens[-2], tokens[-1]].astype(np.float32), chain.history(tokens))

    return samples, joint(PROMPT, length, VOCAB, dist), speculated


@pytest.mark.parametrize("chain", CHAINS)
@pytest.mark.parametrize("drafters", [("model",), ("ngram",), ("ngram", "model"), ()], ids="-".join)
@pytest.mark.parametrize("mode", [Mode.AUTO, Mode.ON])
def test_joint_of_four_tokens_is_the_targets(chain: str, drafters: tuple[str, ...], mode: Mode) -> None:
    samples, expected, speculated = run(drafters, CHAINS[chain], mode, 3000, 4)
    assert sum(expected.values()) == pytest.approx(1.0)
    assert not drafters or speculated > 300, "too little was drafted to show anything"
    assert p_value(samples, expected) > 1e-4


def test_the_test_can_fail() -> None:
    """Samples of the draft's own distribution are told apart from the target's."""
    samples, _, _ = run((), CHAINS["default"], Mode.OFF, 6000, 4)
    _, other = tables(VOCAB, seed=5)
    chain = Chain(CHAINS["default"], VOCAB)
    wrong = joint(
        PROMPT, 4, VOCAB, lambda t: chain.dist(other[t[-2], t[-1]].astype(np.float32), chain.history(t))
    )
    assert p_value(samples, wrong) < 1e-4
