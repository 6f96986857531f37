"""A simulated pair: costs, acceptance and a clock, for judging the pace controller.

`python pace_sim.py` prints a table.

Regret is reckoned with true costs and the tokens really yielded, while the controller sees only a noisy clock.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from slipstream.domain.speculation import Speculation
from slipstream.engine.pace import Candidate, Guess, Observation, PaceController, PaceRecord

MAX_DRAFT = 16


def curve(points: dict[int, float]) -> tuple[float, ...]:
    """Plain steps for m = 0 (unused) .. 17 rows, straight between the points (the truth, not an estimate)."""
    known = sorted(points.items())
    out = [0.0]
    for rows in range(1, MAX_DRAFT + 2):
        below = max((p for p in known if p[0] <= rows), key=lambda p: p[0])
        above = min((p for p in known if p[0] >= rows), key=lambda p: p[0], default=None)
        if above is None:
            out.append(below[1] * rows / below[0])
        elif above[0] == below[0]:
            out.append(below[1])
        else:
            out.append(below[1] + (above[1] - below[1]) * (rows - below[0]) / (above[0] - below[0]))
    return tuple(out)


Q4 = curve({1: 1, 2: 1.66, 3: 2.06, 4: 2.60, 5: 3.07, 6: 3.66, 8: 5.6, 16: 6.8, 17: 7.2})
F16 = curve({1: 1, 2: 1.25, 3: 1.46, 4: 1.50, 5: 1.61, 6: 1.70, 8: 2.18, 16: 3.33, 17: 3.5})
GPU = curve({1: 1, 2: 1.02, 4: 1.06, 8: 1.15, 9: 1.25, 16: 1.4, 17: 1.8})


@dataclass(frozen=True)
class Kind:
    """A sort of text: how often the draft is right, in logits, and in what bursts."""

    sure: float = 3.0
    sure_spread: float = 0.8
    dip: float = -0.5
    dip_spread: float = 1.0
    to_dip: float = 0.10  # chance per token of entering a dip, and of leaving it
    from_dip: float = 0.5


CODE = Kind()
STORY = Kind(sure=0.9, sure_spread=1.0, dip=-0.8, to_dip=0.25, from_dip=0.4)
FLAT = Kind(sure=1.4, sure_spread=0.0, to_dip=0.0)
BAD = Kind(sure=-2.0, sure_spread=0.7, to_dip=0.0)
SUPERB = Kind(sure=4.5, sure_spread=0.5, dip=1.0, to_dip=0.03)


@dataclass(frozen=True)
class Pair:
    """A pair on a machine. Costs in plain steps unless named otherwise."""

    name: str = ""
    rows: tuple[float, ...] = Q4
    step: float | None = 0.37  # a draft step; None: no model drafter
    feed: float = 0.09  # catch-up per token
    ngram: bool = False
    ngram_start: float = 0.02  # chance per token that a match begins
    ngram_mean: float = 12.0  # its mean length
    ngram_slope: float = 1.0  # how far a match's quality tells its chance (1: calibrated)
    ngram_offset: float = 0.0
    kinds: tuple[Kind, ...] = (CODE,)  # one after the other over a reply
    slope: float = 1.0  # the draft's confidence: σ(slope·z + offset + noise)
    offset: float = 0.0
    conf_noise: float = 0.5
    greedy: bool = False
    plain_s: float = 0.12
    noise: float = 0.04
    outliers: float = 0.01
    slow_at: float = 0.0  # 0: never; else from this share of the reply on the machine is 1.5 times slower
    prompt: int = 40
    one_hot: bool = False
    block: float | None = None  # a block drafter: cost of its call
    per_row_sample: float = 0.01
    python: float = 0.005


@dataclass
class Result:
    tokens: int = 0
    cost: float = 0.0  # true, plain steps at the reply's own depth
    plain: float = 0.0
    rounds: int = 0
    spec: int = 0
    probes: int = 0
    reasons: dict[str, int] = field(default_factory=dict)
    lengths: dict[int, int] = field(default_factory=dict)
    outlay: float = 0.0  # catch-up beyond what the reply's own account could pay
    worst: float = 0.0  # the most it was ever behind plain

    @property
    def regret(self) -> float:
        return self.cost / self.plain - 1.0

    @property
    def kept_regret(self) -> float:
        """Regret without such outlays."""
        return (self.cost - self.outlay) / self.plain - 1.0

    @property
    def speed(self) -> float:
        return self.plain / self.cost


class Text:
    """What each token of one reply would be for the draft: chances, confidences, n-gram matches."""

    def __init__(self, pair: Pair, tokens: int, rng: random.Random) -> None:
        size = tokens + 2 * MAX_DRAFT + 2
        self.chance: list[float] = []
        self.guess: list[Guess] = []
        dipped = False
        for at in range(size):
            kind = pair.kinds[min(at * len(pair.kinds) // max(tokens, 1), len(pair.kinds) - 1)]
            if rng.random() < (kind.from_dip if dipped else kind.to_dip):
                dipped = not dipped
            z = rng.gauss(kind.dip, kind.dip_spread) if dipped else rng.gauss(kind.sure, kind.sure_spread)
            self.chance.append(_sigmoid(z))
            confidence = _sigmoid(pair.slope * z + pair.offset + rng.gauss(0, pair.conf_noise))
            self.guess.append(Guess(confidence, 3.0 * (1 - confidence)))
        self.match: list[tuple[float, Guess] | None] = [None] * size
        self.match_end: list[int] = [0] * size
        at = 0
        while pair.ngram and at < size:
            if rng.random() < pair.ngram_start:
                length = 1 + int(rng.expovariate(1 / pair.ngram_mean))
                quality = rng.choice((0.4, 0.6, 0.8, 0.9, 0.97))
                chance = _sigmoid(pair.ngram_slope * math.log(quality / (1 - quality)) + pair.ngram_offset)
                for inside in range(at, min(at + length, size)):
                    self.match[inside] = (chance, Guess(quality, 0.0))
                    self.match_end[inside] = at + length
                at += length
            else:
                at += 1


def _sigmoid(z: float) -> float:
    return 1 / (1 + math.exp(-z))


class Clock:
    def __init__(self, pair: Pair, rng: random.Random) -> None:
        self._pair, self._rng = pair, rng
        self.slow = 1.0

    def __call__(self, units: float) -> float:
        noisy = units * self._pair.plain_s * self.slow * math.exp(self._rng.gauss(0, self._pair.noise))
        return noisy * (3.0 if self._rng.random() < self._pair.outliers else 1.0)


class Machine:
    """Keeps what outlives a reply: the drafter's cache and the random numbers."""

    def __init__(self, pair: Pair, seed: int) -> None:
        self.pair = pair
        self.rng = random.Random(seed)
        self.clock = Clock(pair, self.rng)
        self.texts = random.Random(seed + 77)  # of their own, so that every policy meets the same texts

    def profile(self, pace: PaceController) -> None:
        for rows in pace.profile_rows():
            pace.observe_verify(rows, 10, self.clock(self.pair.rows[rows]))
        if self.pair.step is not None:
            pace.observe_draft_steps("model", 6, sum(self.clock(self.pair.step) for _ in range(6)))
            pace.observe_catch_up("model", 40, self.clock(40 * self.pair.feed))

    def label(self, chance: float) -> float:
        if self.pair.greedy:
            return float(self.rng.random() < chance)
        if self.rng.random() < 0.8 * chance:
            return 1.0
        return 0.2 * chance / (1 - 0.8 * chance)

    def reply(self, pace: PaceController, tokens: int, told: bool = False) -> Result:
        """One reply of `tokens` tokens; `told`: the controller knows its length."""
        pair, rng, clock = self.pair, self.rng, self.clock
        text = Text(pair, tokens, random.Random(self.texts.random()))
        pace.begin_reply(tokens if told else None)
        done, fed = 1, -pair.prompt
        result = Result()
        believed_outlay = 0.0
        while done < tokens:
            clock.slow = 1.5 if pair.slow_at and done > pair.slow_at * tokens else 1.0
            depth = pair.prompt + done
            stretch = 1 + depth / 16000
            offers = []
            left = min(MAX_DRAFT, tokens - done - 1) if told else MAX_DRAFT
            if pair.step is not None or pair.block is not None:
                deterministic = pair.one_hot or pair.block is not None
                offers.append(Candidate("model", deterministic, pair.block is not None, False, (), done - fed, left))
            if pair.ngram and text.match[done] is not None:
                end = min(done + left, len(text.match))
                quality = text.match[done]
                assert quality is not None
                offers.append(Candidate("ngram", True, False, True, (quality[1],) * (end - done), 0, end - done))
            choice = pace.choose(offers, depth)
            result.reasons[choice.reason] = result.reasons.get(choice.reason, 0) + 1
            chances: list[float] = []
            guesses: list[Guess] = []
            steps = 0
            catch_up = 0
            offer = next((each for each in offers if each.drafter == choice.drafter), None)
            if choice.drafter == "ngram":
                assert offer is not None
                guesses = list(offer.guesses[: choice.k_max])
                match = text.match[done]
                assert match is not None
                inside = text.match_end[done] - done
                chances = [match[0] if i < inside else 0.02 for i in range(len(guesses))]
            elif offer is not None and pair.block is not None:
                catch_up, fed = done - fed, done
                guesses = text.guess[done : done + choice.k_max]
                chances = text.chance[done : done + choice.k_max]
            elif offer is not None:
                catch_up, fed = done - fed, done
                while steps < choice.k_max and (steps == 0 or pace.go_on(guesses)):
                    steps += 1
                    offered = [*guesses, text.guess[done + len(guesses)]]
                    if not pace.draw(offered):
                        break
                    guesses = offered
                    chances.append(text.chance[done + len(guesses) - 1])
            proposed = len(guesses)
            if offer is not None and offer.deterministic:
                guesses = guesses[: pace.verify_length(guesses)]
            verified = len(guesses)
            labels: list[float] = []
            accepted = 0
            for chance in chances[:verified]:
                label = self.label(chance)
                labels.append(label)
                if rng.random() >= label:
                    break
                accepted += 1
            if choice.drafter == "model":
                fed = min(done + accepted + 1, done + max(verified, 1))  # it has seen its own guesses
            draft_units = (
                (pair.block or 0.0)
                if pair.block is not None and choice.drafter == "model"
                else (steps * (pair.step or 0.0))
            )
            feed_units = catch_up * pair.feed if catch_up > 1 else 0.0
            verify_units = pair.rows[verified + 1] * stretch
            sample_units = (accepted + 1) * pair.per_row_sample
            pace.observe(
                Observation(
                    choice.drafter,
                    proposed,
                    verified,
                    accepted,
                    tuple(guesses),
                    tuple(labels),
                    verified + 1,
                    depth,
                    clock(draft_units) if draft_units else 0.0,
                    clock(verify_units),
                    clock(sample_units),
                    clock(pair.python),
                    catch_up,
                    clock(feed_units) if feed_units else 0.0,
                )
            )
            result.cost += draft_units + feed_units + verify_units + sample_units + pair.python
            kept = min(accepted + 1, tokens - done)
            result.plain += kept * (pair.rows[1] * stretch + pair.per_row_sample + pair.python)
            done += kept
            result.tokens += kept
            if pace.outlay > believed_outlay:
                believed_outlay = pace.outlay
                result.outlay += feed_units
            result.rounds += 1
            result.spec += verified > 0
            result.lengths[verified] = result.lengths.get(verified, 0) + 1
            result.worst = max(result.worst, result.cost - result.plain)
        return result


def total(results: Sequence[Result]) -> Result:
    out = Result()
    for each in results:
        out.tokens += each.tokens
        out.cost += each.cost
        out.plain += each.plain
        out.rounds += each.rounds
        out.spec += each.spec
        for reason, count in each.reasons.items():
            out.reasons[reason] = out.reasons.get(reason, 0) + count
        for length, count in each.lengths.items():
            out.lengths[length] = out.lengths.get(length, 0) + count
    return out


def fixed(pair: Pair, length: int, replies: int, tokens: int, seed: int) -> Result:
    """What peers ship: always `length` tokens, no controller. A sure n-gram match goes before the model."""
    machine = Machine(pair, seed)
    rng, out = machine.rng, Result()
    has_model = pair.step is not None or pair.block is not None
    for _ in range(replies):
        text = Text(pair, tokens, random.Random(machine.texts.random()))
        done = 1
        out.cost += pair.feed * pair.prompt
        while done < tokens:
            stretch = 1 + (pair.prompt + done) / 16000
            match = text.match[done] if pair.ngram else None
            if match is not None and (match[1].confidence > 0.7 or not has_model):
                inside = text.match_end[done] - done
                chances = [match[0] if i < inside else 0.02 for i in range(length)]
            else:
                chances = text.chance[done : done + length] if has_model else []
                out.cost += pair.block if pair.block is not None else len(chances) * (pair.step or 0.0)
            accepted = 0
            for chance in chances:
                if rng.random() >= chance:
                    break
                accepted += 1
            kept = min(accepted + 1, tokens - done)
            out.cost += pair.rows[len(chances) + 1] * stretch + (accepted + 1) * pair.per_row_sample + pair.python
            out.plain += kept * (pair.rows[1] * stretch + pair.per_row_sample + pair.python)
            out.tokens += kept
            done += kept
    return out


def best_fixed(
    pair: Pair, replies: int, tokens: int, seed: int, lengths: Sequence[int] = range(1, 17)
) -> tuple[int, float]:
    """(length, speed-up over plain) of the best pinned length, catch-up of the prompt included; (0, 1.0): plain."""
    speeds = [(fixed(pair, length, replies, tokens, seed).speed, length) for length in lengths]
    speed, length = max(speeds)
    return (length, speed) if speed > 1 else (0, 1.0)


def auto(
    pair: Pair,
    replies: int,
    tokens: int = 256,
    seed: int = 0,
    profiled: bool = True,
    record: PaceRecord | None = None,
    between: Callable[[Machine, int], None] | None = None,
) -> tuple[list[Result], PaceController]:
    """Replies one after the other with one controller on auto."""
    pace = PaceController(record, Speculation(), MAX_DRAFT)
    machine = Machine(pair, seed)
    if profiled:
        machine.profile(pace)
    results = []
    for number in range(replies):
        if between is not None:
            between(machine, number)
        results.append(machine.reply(pace, tokens))
    return results, pace


def random_pair(rng: random.Random) -> Pair:
    """Any pair: good or bad drafts, smooth or jagged costs, sure of themselves or not, on a noisy desktop or not."""
    base = rng.choice((Q4, F16, GPU, None))
    if base is None:  # jagged: every row adds something else, now and then a jump
        points, units = {1: 1.0}, 1.0
        for rows in range(2, MAX_DRAFT + 2):
            units += rng.choice((0.0, 0.02, 0.1, 0.5, 1.2)) * rng.random()
            points[rows] = units if rng.random() < 0.9 else units * 0.95
        base = curve(points)
    kinds = [CODE, STORY, FLAT, BAD, SUPERB, Kind(sure=rng.uniform(-1, 3), to_dip=rng.uniform(0, 0.3))]
    model = rng.random() < 0.85
    block = rng.uniform(0.1, 0.8) if model and rng.random() < 0.2 else None
    step = rng.choice((0.03, 0.1, 0.13, 0.2, 0.37, 0.6)) if model and block is None else None
    return Pair(
        "random",
        base,
        step,
        feed=(step or block or 0.0) * rng.choice((0.02, 0.1, 0.25)),
        ngram=not model or rng.random() < 0.4,
        ngram_start=rng.choice((0.005, 0.02, 0.1)),
        ngram_mean=rng.choice((2.0, 6.0, 20.0)),
        ngram_slope=rng.choice((0.3, 1.0, 1.5)),
        ngram_offset=rng.uniform(-2, 1),
        kinds=tuple(rng.choice(kinds) for _ in range(rng.choice((1, 1, 2, 3)))),
        slope=rng.choice((0.3, 0.7, 1.0, 1.5)),
        offset=rng.uniform(-1, 1.5),
        conf_noise=rng.choice((0.2, 0.6, 1.5)),
        greedy=rng.random() < 0.4,
        plain_s=rng.choice((0.01, 0.12)),
        noise=rng.choice((0.01, 0.04, 0.12)),
        outliers=rng.choice((0.0, 0.01, 0.05)),
        slow_at=rng.choice((0.0, 0.0, 0.5)),
        prompt=rng.choice((10, 60, 400, 2000)),
        one_hot=rng.random() < 0.3,
        block=block,
        per_row_sample=rng.choice((0.002, 0.01, 0.02)),
    )


STANDARD = (
    Pair("Q4 code", Q4, 0.37, 0.09, kinds=(CODE,)),
    Pair("Q4 superb", Q4, 0.37, 0.09, kinds=(SUPERB,)),
    Pair("Q4 story", Q4, 0.37, 0.09, kinds=(STORY,)),
    Pair("Q4 n-gram", Q4, None, ngram=True, ngram_start=0.03),
    Pair("Q4 both", Q4, 0.37, 0.09, ngram=True, ngram_start=0.03),
    Pair("F16 code", F16, 0.13, 0.03, kinds=(CODE,)),
    Pair("F16 code greedy", F16, 0.13, 0.03, kinds=(CODE,), greedy=True),
    Pair("F16 story", F16, 0.13, 0.03, kinds=(STORY,)),
    Pair("F16 flat", F16, 0.13, 0.03, kinds=(FLAT,)),
    Pair("F16 drift", F16, 0.13, 0.03, kinds=(CODE, BAD, CODE)),
    Pair("F16 both", F16, 0.13, 0.03, kinds=(CODE, STORY), ngram=True),
    Pair("F16 bad", F16, 0.13, 0.03, kinds=(BAD,)),
    Pair("F16 prompt 500", F16, 0.13, 0.03, prompt=500),
    Pair("F16 noisy slow", F16, 0.13, 0.03, noise=0.12, outliers=0.05, slow_at=0.5),
    Pair("GPU code", GPU, 0.1, 0.002, plain_s=0.01, prompt=500),
    Pair("GPU story", GPU, 0.1, 0.002, kinds=(STORY,), plain_s=0.01, prompt=500),
    Pair("GPU bad", GPU, 0.1, 0.002, kinds=(BAD,), plain_s=0.01, prompt=500),
    Pair("GPU block", GPU, None, 0.002, kinds=(CODE,), plain_s=0.01, block=0.25),
    Pair("F16 one-hot", F16, 0.13, 0.03, kinds=(CODE,), one_hot=True),
)


def main() -> None:
    print(
        f"{'pair':17} {'cold %':>7} {'worst %':>8} {'outlay %':>9} {'warm':>6} {'best fixed':>11} {'ratio':>6} "
        " lengths verified, % of rounds"
    )
    for pair in STANDARD:
        colds = [auto(pair, 1, seed=seed, profiled=seed % 4 > 0)[0][0] for seed in range(8)]
        results, _ = auto(pair, 30, seed=99)
        late = total(results[15:])
        everything = [*colds, *results]
        length, speed = best_fixed(pair, 30, 256, 99)
        shares = ((k, n * 100 // late.rounds) for k, n in sorted(late.lengths.items()))
        print(
            f"{pair.name:17} {sum(each.regret for each in colds) / len(colds) * 100:7.2f} "
            f"{max(each.kept_regret for each in everything) * 100:8.2f} "
            f"{max(each.outlay / each.plain for each in everything) * 100:9.2f} {late.speed:6.3f} "
            f"{speed:7.3f} @{length:2d} {late.speed / speed:6.3f}  "
            + " ".join(f"{k}:{share}" for k, share in shares if share > 1),
            flush=True,
        )


def sweep(count: int, seed: int = 0) -> list[tuple[float, Pair, int]]:
    """Regret of random cold and warm replies, worst first."""
    rng = random.Random(seed)
    out = []
    for number in range(count):
        pair = random_pair(rng)
        results, _ = auto(pair, 3, seed=number, profiled=rng.random() < 0.6)
        for i, each in enumerate(results):
            out.append((each.kept_regret, replace(pair, name=f"random {number}.{i}"), number))
    return sorted(out, key=lambda each: -each[0])


if __name__ == "__main__":
    main()
