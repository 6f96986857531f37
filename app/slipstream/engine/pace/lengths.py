"""The arithmetic of draft lengths: pure functions over survival and cost. Costs in units, rates in tokens a unit.

S_i = â_1 ⋯ â_i is the chance that guess i is kept; a round of v verified guesses yields E(v) = 1 + Σ_{i≤v} S_i tokens.
In the long run the best policy takes just those steps that yield more than `rate` tokens for each unit they cost,
where `rate` is the best that can be had (renewal-reward; Dinkelbach's method finds it by using the rate so far).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

LOOK_AHEAD = 8
_FAINT = 0.01  # a guess less likely than that to be kept is never worth a row


def best_length(
    chances: Iterable[float], cost: Sequence[float], rate: float, per_token: float
) -> tuple[int, float, float]:
    """(k, value, tokens) of the length that maximises E(k) − rate·C(k), k ≥ 1.

    `chances`: P(accept | all before kept) of guess 1, 2, …; `cost[k]`: units of a round of k, less `per_token` units
    for each token yielded. `value` is −inf where nothing may be drafted.
    """
    best = (0, float("-inf"), 1.0)
    survive, tokens = 1.0, 1.0
    for k, chance in enumerate(chances, 1):
        if k >= len(cost):
            break
        survive *= chance
        if survive < _FAINT and k > 1:
            break
        tokens += survive
        value = tokens - rate * (cost[k] + per_token * tokens)
        if value > best[1]:
            best = (k, value, tokens)
    return best


def worth_more(
    gained: float,
    survive: float,
    chances: Iterable[float],
    rows: Sequence[float],
    stop_rows: int,
    now_rows: int,
    step: float,
    rate: float,
    per_token: float,
) -> bool:
    """Is there a length among the next ones that pays for going on rather than stopping with `stop_rows` rows?

    `gained`: expected tokens that going on yields before another step is paid (0 when the next step is what is
    asked about); `survive`: chance that all so far are kept; `now_rows`: rows to verify if drafting ended after going
    on; `chances`: of the guesses beyond; `step`: units per draft step; `rows[m]`: units to verify m rows.
    """
    worth = 1.0 - rate * per_token
    stop = rows[stop_rows]
    if gained > 0 and gained * worth > rate * (rows[now_rows] - stop):
        return True
    paid = 0.0
    for extra, chance in enumerate(chances, 1):
        if now_rows + extra >= len(rows):
            break
        survive *= chance
        gained += survive
        paid += step
        if gained * worth > rate * (paid + rows[now_rows + extra] - stop):
            return True
    return False


def best_cut(chances: Sequence[float], rows: Sequence[float], rate: float, per_token: float) -> int:
    """How many guesses of a finished deterministic draft to verify: argmax_v E(v) − rate·T_V(v+1)."""
    worth = 1.0 - rate * per_token
    best, best_value = 0, -rate * rows[1]
    survive, gained = 1.0, 0.0
    for v, chance in enumerate(chances, 1):
        if v + 1 >= len(rows):
            break
        survive *= chance
        gained += survive
        value = gained * worth - rate * rows[v + 1]
        if value > best_value:
            best, best_value = v, value
    return best
