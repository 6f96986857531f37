"""Does a sample of sequences come from the joint distribution it should?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from scipy import stats

from slipstream.engine.sampling import Dist

Joint = dict[tuple[int, ...], float]


def joint(prefix: Sequence[int], length: int, n_vocab: int, dist: Callable[[Sequence[int]], Dist]) -> Joint:
    """p of each continuation of `length` tokens, by enumeration."""
    found: Joint = {(): 1.0}
    for _ in range(length):
        longer: Joint = {}
        for done, p in found.items():
            d = dist([*prefix, *done])
            for token in range(n_vocab):
                if (q := d.of(token)) > 0:
                    longer[(*done, token)] = p * q
        found = longer
    return found


def p_value(samples: Sequence[tuple[int, ...]], expected: Joint) -> float:
    """Pearson's chi-square over the cells expected at least 5 times, the rest pooled. 0 where a sample is impossible."""
    counts = Counter(samples)
    if any(cell not in expected for cell in counts):
        return 0.0
    n = len(samples)
    cells = [cell for cell, p in expected.items() if p * n >= 5]
    seen = [counts[cell] for cell in cells]
    wanted = [expected[cell] * n for cell in cells]
    rest = n - sum(wanted)
    if rest >= 5:
        seen.append(n - sum(seen))
        wanted.append(rest)
    scale = sum(seen) / sum(wanted)
    return float(stats.chisquare(seen, [w * scale for w in wanted]).pvalue)


