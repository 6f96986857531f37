"""How the next token is drawn. The one place that states the default chain."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Sampling:
    """The sampler chain, applied in this order: penalties, top-k, top-p, min-p, temperature.

    temperature 0 is greedy. top_k 0, top_p 1, min_p 0, repeat_penalty 1 and the other penalties 0 switch
    that step off. `penalty_last_n` is how many of the latest tokens penalties look at (−1: the whole context).
    `seed` None draws a fresh one for every reply. Semantics are those of llama.cpp's samplers
    (src/llama-sampler.cpp: llama_sampler_init_penalties, _top_k, _top_p, _min_p, _temp).
    """

    temperature: float = 0.8
    top_k: int = 40
    top_p: float = 0.95
    min_p: float = 0.05
    repeat_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    penalty_last_n: int = 64
    seed: int | None = None

    @property
    def greedy(self) -> bool:
        return self.temperature <= 0

    @property
    def penalised(self) -> bool:
        return self.penalty_last_n != 0 and (
            self.repeat_penalty != 1.0 or self.presence_penalty != 0.0 or self.frequency_penalty != 0.0
        )
