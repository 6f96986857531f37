"""How many tokens to draft in the next round, or none, so that speculation never costs more than it may.

Pure decisions over measured durations: nothing here reads a clock or a model. Costs are in units (see `costs`).
The exactness rule holds by construction: `go_on` and `draw` see the guesses' confidences, never a token's value.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from slipstream.domain.speculation import Mode, Speculation
from slipstream.engine.pace.budget import GRANT, Budget
from slipstream.engine.pace.calibration import Acceptance, sigmoid
from slipstream.engine.pace.costs import Costs, Robust
from slipstream.engine.pace.drafter import LITTLE_EVIDENCE, Drafter, Plan
from slipstream.engine.pace.lengths import LOOK_AHEAD, best_cut, best_length, worth_more
from slipstream.engine.pace.record import PaceRecord
from slipstream.engine.pace.rounds import Candidate, Choice, Guess, Observation

_HONEST_EVERY = 64  # speculative rounds from one plain step to the next
_HONEST_FIRST = 12  # the same at first, doubling as they bear out what was believed
_HONEST_APART = 6  # at least so many, where speculative rounds call the level in doubt
_HONEST_RUN = 3  # plain steps in a row, once one came out unlike what was believed
_RATE_MEMORY = 0.96  # of recent tokens and units, per round: about 25 rounds
_TYPICAL_REPLY = 256.0  # tokens, before any reply was seen
_PROBE_LENGTH = 4
_OPTIMISM = 1.5  # standard deviations a probe may hope for
_STAKE = 0.5  # of the reply's account, in one round
_FIRST_LENGTH = 4  # tokens, until a record's costs were borne out
_FIRST_ROUNDS = 4
_EXPLORE_EVERY = 24  # rounds of a drafter that wins, from one length never tried to the next
_QUIET = 48  # rounds without a win after which speculation shows as paused


class PaceController:
    """Decides each round. One per loaded pair; `record` is what an earlier run learned of the same pair."""

    def __init__(self, record: PaceRecord | None, speculation: Speculation, max_draft: int) -> None:
        self._max_draft = max(max_draft, 0)
        self._costs = Costs(self._max_draft + 1)
        self._drafters: dict[str, Drafter] = {}
        self._budget = Budget()
        self._typical = _TYPICAL_REPLY
        self._speculation = speculation
        self._spec_rounds = 0
        self._since_explore = 0
        self._restored = record is not None and record.level_s > 0
        if record is not None:
            self._restore(record)
        self._recent_tokens = self._recent_units = 0.0
        self._since_plain = 0
        self._honest_run = 0
        self._honest_every = _HONEST_FIRST
        self._since_win = _QUIET
        self._expected: int | None = None
        self._done = 0
        self._plan: Plan | None = None
        self._fresh = True

    # ------------------------------------------------------------ settings and profiling

    def configure(self, speculation: Speculation) -> None:
        """Take the user's options; what was learned stays."""
        self._speculation = speculation

    def begin_reply(self, expected_tokens: int | None = None) -> None:
        """A reply starts. `expected_tokens`: the most it may have (max_tokens), None where not bounded."""
        if self._done >= 8:
            self._typical *= (self._done / self._typical) ** 0.25  # geometric: one long reply shall not rule
        self._expected = expected_tokens if expected_tokens and expected_tokens > 0 else None
        self._done = 1  # the first token came with the prompt
        self._budget.begin_reply(min(self._typical, self._expected or math.inf))
        self._fresh = True
        self._plan = None

    def profile_rows(self) -> tuple[int, ...]:
        """Row counts worth timing at first load, the most telling first; () when the record has them."""
        top = self._max_draft + 1
        if self._costs.known:
            return ()
        # one row thrice: everything is reckoned by it; five twice: the length most pairs end up at
        return tuple(rows for rows in (1, 5, 1, 3, 9, 1, 2, *((top,) if top > 9 else ()), 5) if rows <= top)

    def observe_verify(self, rows: int, depth: int, seconds: float) -> None:
        """A profiled target decode."""
        self._costs.observe_rows(rows, depth, seconds)

    def observe_draft_steps(self, drafter: str, steps: int, seconds: float) -> None:
        """Profiled draft steps (one call, where the drafter makes a whole block)."""
        if steps > 0 and math.isfinite(seconds) and seconds >= 0:
            self._costs.book(self._costs.drafter(drafter).step, seconds / steps)
            self._costs.book(self._costs.drafter(drafter).block, seconds)

    def observe_catch_up(self, drafter: str, tokens: int, seconds: float) -> None:
        """A profiled feed: the drafter took in `tokens` tokens in one go."""
        if tokens > 0 and math.isfinite(seconds) and seconds >= 0:
            self._costs.book(self._costs.drafter(drafter).fed(tokens), seconds / tokens)

    # ------------------------------------------------------------ choosing

    def choose(self, candidates: Sequence[Candidate], depth: int) -> Choice:
        """What the next round shall be."""
        self._plan = None
        mode = self._speculation.mode
        if mode is Mode.OFF:
            return Choice("", 0, "off")
        usable = [each for each in candidates if self._usable(each)]
        if mode is Mode.ON:
            return self._pinned(usable, depth)
        if not usable or not self._costs.known or self._costs.count(1) < 3:
            return Choice("", 0, "plain")
        if self._honest_due():
            return Choice("", 0, "honest")
        return self._auto(usable, depth)

    def _usable(self, candidate: Candidate) -> bool:
        allowed = self._speculation.drafters
        if allowed and candidate.drafter not in allowed:
            return False
        return min(candidate.k_limit, self._max_draft) > 0 and (not candidate.free or bool(candidate.guesses))

    def _honest_due(self) -> bool:
        """Must a plain step be timed, that the measured cost of one stay true?"""
        if self._fresh:
            return True  # who knows what the machine did since the last reply
        doubted = self._costs.surprised and self._since_plain >= _HONEST_APART
        return self._since_plain >= self._honest_every or doubted or self._honest_run > 0

    def _pinned(self, usable: Sequence[Candidate], depth: int) -> Choice:
        """The pinned length, by the drafter that promises most tokens for its cost."""
        best: Plan | None = None
        best_rate = 0.0
        rows = self._costs.curve(depth)
        for candidate in usable:
            drafter = self._drafter(candidate)
            k = self._limit(candidate, self._speculation.length)
            if k <= 0:
                continue
            tokens = survive = 1.0
            for chance in self._chances(candidate, drafter, k):
                survive *= chance
                tokens += survive
            cost = rows[k + 1] + drafter.costs.draft(k, block=candidate.block, free=candidate.free)
            cost += drafter.costs.feed(candidate.catch_up_tokens) / 32
            if best is None or tokens / cost > best_rate:
                best_rate = tokens / cost
                best = Plan(candidate, drafter, k, "pinned", 0.0, 1.0, rows, 0.0)
        if best is None:
            return Choice("", 0, "plain")
        self._plan = best
        return Choice(best.candidate.drafter, best.k_max, "pinned")

    def _auto(self, usable: Sequence[Candidate], depth: int) -> Choice:
        plain = self._costs.plain()
        rate = self._rate(plain)
        best: Plan | None = None
        best_gain = 0.0
        for candidate in usable:
            drafter = self._drafter(candidate)
            if drafter.trial.paused:
                continue
            plan, gain = self._weigh(candidate, drafter, depth, plain, rate)
            if plan is not None and gain > best_gain:
                best, best_gain = plan, gain
        if best is None:
            best = self._probe(usable, depth, plain, rate)
        if best is None:
            return Choice("", 0, "plain")
        self._plan = best
        return Choice(best.candidate.drafter, best.k_max, best.reason)

    def _weigh(
        self, candidate: Candidate, drafter: Drafter, depth: int, plain: float, rate: float
    ) -> tuple[Plan | None, float]:
        """A plan for a round with this drafter and what it gains over a plain step, in tokens."""
        limit = self._limit(candidate, self._max_draft)
        cost = self._round_costs(candidate, drafter, depth, limit)
        catch_up = drafter.costs.feed(candidate.catch_up_tokens)
        outlay = catch_up > 0 and cost[min(1, limit)] - plain + catch_up > self._budget.balance
        if outlay and not (drafter.trial.proven or self._budget.savings > catch_up + GRANT):
            return None, 0.0
        at_risk = 0.0 if outlay else catch_up
        limit = self._affordable(cost, plain - at_risk, limit)
        if limit <= 0:
            return None, 0.0
        per_token = self._costs.per_sampled_row
        k, value, tokens = best_length(self._chances(candidate, drafter, limit), cost, rate, per_token)
        gain = value + drafter.known_edge - (1.0 - rate * plain)
        if gain <= 0:
            return None, 0.0
        if catch_up > 0:
            # an outlay for all rounds to come: it must be earned back well within what is left of the reply
            horizon = 0.6 * self._remaining()
            saved = (tokens * plain - cost[k] - per_token * tokens) * horizon / tokens
            if drafter.trial.proven:
                saved = min(saved, drafter.trial.net * horizon / tokens)
            if saved < (2.0 if outlay and not drafter.trial.proven else 1.0) * catch_up:
                return None, 0.0
            gain -= rate * catch_up * min(1.0, tokens / horizon)
        rows = self._costs.curve(depth)
        plan = Plan(candidate, drafter, limit, "win", value, rate, rows, per_token)
        plan.outlay = outlay
        if self._since_explore >= _EXPLORE_EVERY and self._budget.balance > GRANT and not candidate.block:
            self._explore(plan, depth, limit, value)
        return plan, gain

    def _explore(self, plan: Plan, depth: int, limit: int, value: float) -> None:
        """While it wins, try a length never timed, if it would be the best were it as cheap as it may be."""
        self._since_explore = 0
        fixed, costs, candidate = self._costs.spec_overhead, plan.drafter.costs, plan.candidate
        rows = self._costs.hopeful(depth)
        cost = [fixed + costs.draft(k, block=False, free=candidate.free) + rows[k + 1] for k in range(limit + 1)]
        chances = self._chances(candidate, plan.drafter, limit)
        k, hoped, _ = best_length(chances, cost, plan.rate, plan.per_token)
        if hoped > value + 0.03 and not self._costs.measured(k + 1):
            plan.k_max, plan.reason = k, "probe"

    def _probe(self, usable: Sequence[Candidate], depth: int, plain: float, rate: float) -> Plan | None:
        """A round to learn from: due, affordable even if nothing is kept, and not hopeless."""
        for candidate in usable:
            drafter = self._drafter(candidate)
            if not drafter.trial.due:
                continue
            limit = self._limit(candidate, self._max_draft)
            cost = self._round_costs(candidate, drafter, depth, limit)
            limit = self._affordable(cost, plain - drafter.costs.feed(candidate.catch_up_tokens), limit)
            if limit <= 0:
                continue
            hope = self._chances(candidate, drafter, limit, _OPTIMISM)
            per_token = self._costs.per_sampled_row
            k, value, _ = best_length(hope, cost, rate, per_token)
            unmeasured = not self._costs.measured(k + 1)
            if value <= 1.0 - rate * plain and not unmeasured:
                continue
            return Plan(
                candidate, drafter, min(k, _PROBE_LENGTH), "probe", value, rate, self._costs.curve(depth), per_token
            )
        return None

    @property
    def _from_record(self) -> bool:
        return self._restored and self._spec_rounds < _FIRST_ROUNDS

    def _limit(self, candidate: Candidate, most: int) -> int:
        limit = min(candidate.k_limit, most, self._max_draft)
        if self._from_record and self._speculation.mode is Mode.AUTO:
            limit = min(limit, _FIRST_LENGTH)
        if candidate.free:
            limit = min(limit, len(candidate.guesses))
        if self._expected is not None and self._speculation.mode is Mode.AUTO:
            limit = min(limit, self._expected - self._done - 1)  # one token of a round is the target's own
        return limit

    def _affordable(self, cost: Sequence[float], allowed: float, limit: int) -> int:
        """The longest draft whose round, all of it rejected, costs half the reply's account at most; one token may
        cost all of it. Staking less as the account shrinks is what keeps a good drafter from being ruined by luck."""
        share = self._costs.per_sampled_row - allowed
        balance = self._budget.balance
        while limit > 0 and cost[limit] + share > (balance if limit == 1 else _STAKE * balance):
            limit -= 1
        return limit

    def _round_costs(self, candidate: Candidate, drafter: Drafter, depth: int, limit: int) -> list[float]:
        """cost[k]: units of a round with k drafted tokens, without what each yielded token adds."""
        rows = self._costs.curve(depth)
        fixed, step = self._costs.spec_overhead, 0.0
        if candidate.block:
            fixed += drafter.costs.draft(1, block=True, free=False)
        elif not candidate.free:
            step = drafter.costs.per_step
        return [fixed + k * step + rows[k + 1] for k in range(max(limit, 0) + 1)]

    @staticmethod
    def _chances(candidate: Candidate, drafter: Drafter, count: int, optimism: float = 0.0) -> Iterator[float]:
        """P(accept | all before kept) of guess 1, 2, …, as far as can be known before drafting."""
        acceptance = drafter.acceptance
        if not candidate.free:
            return acceptance.forecast(acceptance.run, 0, count, optimism)
        extra = optimism * acceptance.seen.spread(0.0, 0.0, 0) if optimism else 0.0
        return (
            sigmoid(acceptance.logit_of(guess, position) + extra)
            for position, guess in enumerate(candidate.guesses[:count])
        )

    def _rate(self, plain: float) -> float:
        """Tokens a unit: the recent rate, or plain decoding's where that is better."""
        recent = self._recent_tokens / self._recent_units if self._recent_units > 0 else 0.0
        return max(recent, 1.0 / plain)

    def _remaining(self) -> float:
        """Tokens the reply may still have."""
        left = max(self._typical - self._done, 0.25 * self._done, 16.0)
        return left if self._expected is None else max(min(left, float(self._expected - self._done)), 1.0)

    # ------------------------------------------------------------ within a round

    def go_on(self, guesses: Sequence[Guess]) -> bool:
        """Before a draft step is paid: is another one worth it, given the guesses so far?"""
        plan = self._plan
        count = len(guesses)
        if plan is None or count >= plan.k_max or self._unsure(plan, guesses):
            return False
        if count == 0 or plan.reason != "win":
            return True
        plan.extend(guesses)
        reach = min(LOOK_AHEAD, plan.k_max - count)
        return worth_more(
            0.0,
            plan.survive[count],
            plan.ahead(count, reach),
            plan.rows,
            count + 1,
            count + 1,
            plan.drafter.costs.per_step,
            plan.rate,
            plan.per_token,
        )

    def draw(self, guesses: Sequence[Guess]) -> bool:
        """The step for `guesses[-1]` is paid, its value not drawn: draw and verify it? False ends the draft."""
        plan = self._plan
        count = len(guesses)
        if plan is None or count == 0 or count > plan.k_max:
            return False
        plan.paid = max(plan.paid, count)
        if self._unsure(plan, guesses):
            return False
        if plan.reason != "win":
            return True
        plan.extend(guesses)
        reach = min(LOOK_AHEAD, plan.k_max - count)
        return worth_more(
            plan.survive[count],
            plan.survive[count],
            plan.ahead(count, reach),
            plan.rows,
            count,
            count + 1,
            plan.drafter.costs.per_step,
            plan.rate,
            plan.per_token,
        )

    def verify_length(self, guesses: Sequence[Guess]) -> int:
        """How many of a finished deterministic draft to verify: drafting is paid, only rows cost."""
        plan = self._plan
        if plan is None:
            return 0
        count = min(len(guesses), plan.k_max)
        if not plan.candidate.free:
            least = self._speculation.min_confidence
            count = next((i for i in range(count) if guesses[i].confidence < least), count)
        if plan.reason != "win":
            return count
        plan.extend(guesses[:count])
        return best_cut(plan.chances[:count], plan.rows, plan.rate, plan.per_token)

    def _unsure(self, plan: Plan, guesses: Sequence[Guess]) -> bool:
        """The user's own bound on confidence (an n-gram match has none)."""
        return bool(guesses) and not plan.candidate.free and guesses[-1].confidence < self._speculation.min_confidence

    # ------------------------------------------------------------ learning

    def observe(self, observation: Observation) -> None:
        """Learn from a round."""
        plan, self._plan = self._plan, None
        plain_round = observation.drafter == ""
        costs = self._costs
        believed_s = costs.level_s
        costs.observe_rows(observation.rows, observation.depth, observation.verify_s)
        costs.observe_overheads(plain_round, observation.python_s, observation.sample_s, observation.accepted + 1)
        tokens = observation.accepted + 1
        self._done += tokens
        if not costs.known:
            return
        plain = costs.plain()
        self._budget.earn(tokens * plain)
        if plain_round:
            self._after_plain(observation, believed_s)
            units = plain
        else:
            units = self._after_speculation(observation, plan, plain)
        for name, drafter in self._drafters.items():
            if name != observation.drafter:
                drafter.pass_by(tokens)
        self._fresh = False
        self._recent_tokens = _RATE_MEMORY * self._recent_tokens + tokens
        self._recent_units = _RATE_MEMORY * self._recent_units + units

    def _after_plain(self, observation: Observation, believed_s: float) -> None:
        unlike = believed_s > 0 and abs(observation.verify_s / believed_s - 1.0) > 0.12
        if self._honest_run > 0:
            self._honest_run -= 1
        elif (self._since_plain > 0 or self._fresh) and unlike:
            self._honest_run = _HONEST_RUN - 1
            self._honest_every = max(self._honest_every // 2, _HONEST_FIRST)
        elif self._since_plain >= self._honest_every:
            self._honest_every = min(2 * self._honest_every, _HONEST_EVERY)
        self._since_plain = 0
        self._since_win += 1

    def _after_speculation(self, observation: Observation, plan: Plan | None, plain: float) -> float:
        """Book a speculative round; returns the units it took, readings out of all proportion tamed."""
        costs = self._costs
        drafter = self._drafters.get(observation.drafter)
        if drafter is None:
            drafter = self._drafters[observation.drafter] = self._new_drafter(observation.drafter, plan)
        level = costs.level_s
        costs.observe_roll_back(observation.roll_back_s)
        catch_up = observation.catch_up_s / level
        self.observe_catch_up(observation.drafter, observation.catch_up_tokens, observation.catch_up_s)
        draft = self._draft_units(observation, plan, drafter)
        rows = costs.curve(observation.depth)[observation.rows] if observation.rows <= self._max_draft + 1 else 0.0
        verify = _tame(observation.verify_s / level, rows, costs.count(observation.rows))
        tokens = observation.accepted + 1
        units = draft + verify + costs.spec_overhead + costs.per_sampled_row * tokens
        gain = tokens * plain - units
        drafter.acceptance.learn(observation.guesses, observation.labels)
        self._since_plain += 1
        self._spec_rounds += 1
        self._since_explore += 1
        reason = plan.reason if plan is not None else "pinned"
        drafter.trial.pass_by(tokens)
        if reason == "win" and plan is not None:
            self._since_win = 0
            drafter.trial.won(gain)
            drafter.foretold(plan.predicted, tokens - plan.rate * units)
        elif reason == "probe":
            self._since_win += 1
            drafter.trial.probed(gain)
        if reason != "pinned":
            if plan is not None and plan.outlay:
                self._budget.invest(catch_up)
                self._budget.settle(gain)
            else:
                self._budget.settle(gain - catch_up)
        return units + catch_up

    def _draft_units(self, observation: Observation, plan: Plan | None, drafter: Drafter) -> float:
        """Units the draft took, and a reading for the tables."""
        units = observation.draft_s / self._costs.level_s
        if not (math.isfinite(units) and units >= 0):
            return 0.0
        block = plan.candidate.block if plan is not None else False
        if plan is not None and plan.candidate.free:
            return units
        steps = 1 if block else max(observation.proposed, plan.paid if plan is not None else 0)
        if steps <= 0:
            return units
        table = drafter.costs.block if block else drafter.costs.step
        known = 0 if table.hearsay else len(table)
        self._costs.book(table, observation.draft_s / steps)
        return steps * _tame(units / steps, table.value or 0.0, known)

    def _drafter(self, candidate: Candidate) -> Drafter:
        found = self._drafters.get(candidate.drafter)
        if found is None:
            found = Drafter(self._costs.drafter(candidate.drafter), Acceptance(candidate.free))
            self._drafters[candidate.drafter] = found
        return found

    def _new_drafter(self, name: str, plan: Plan | None) -> Drafter:
        free = plan.candidate.free if plan is not None else False
        return Drafter(self._costs.drafter(name), Acceptance(free))

    # ------------------------------------------------------------ asking and keeping

    def plain_step_s(self, depth: int) -> float | None:
        """Seconds of a plain step at this depth with its sampling and Python's share; None before one was timed."""
        if not self._costs.known or self._costs.count(1) == 0:
            return None
        return self._costs.plain() * self._costs.level_s

    def break_even(self, drafter: str, k: int, depth: int) -> float | None:
        """The acceptance above which a round of k pays: (C(k) ÷ T_V(1) − 1) ÷ k. None where costs are not known."""
        known = self._drafters.get(drafter)
        if k < 1 or k > self._max_draft or known is None or not self._costs.known:
            return None
        costs = known.costs
        draft = costs.block.value if costs.block.value is not None and costs.step.value is None else None
        if draft is None:
            draft = k * costs.step.value if costs.step.value is not None else 0.0
        total = self._costs.curve(depth)[k + 1] + draft + self._costs.spec_overhead + self._costs.per_sampled_row
        return (total / self._costs.plain() - 1.0) / k

    @property
    def allowance(self) -> float:
        """What this reply may still lose against plain decoding, in plain steps."""
        return self._budget.balance

    @property
    def outlay(self) -> float:
        """What was spent in this reply, beyond that, on feeding drafters a prompt; in plain steps."""
        return self._budget.outlay

    @property
    def state(self) -> str:
        """For the window: "off", "on", "auto" (speculating), "measuring" (too little known), "paused" (it loses)."""
        mode = self._speculation.mode
        if mode is not Mode.AUTO:
            return mode.value
        if self._since_win < _QUIET:
            return "auto"
        known = any(each.acceptance.labels >= LITTLE_EVIDENCE for each in self._drafters.values())
        return "paused" if known else "measuring"

    def record(self) -> PaceRecord:
        """All that was learned, for the next run."""
        costs = self._costs
        return PaceRecord(
            level_s=costs.level_s,
            rows=costs.rows_record(),
            plain_python=costs.plain_python.readings,
            spec_python=costs.spec_python.readings,
            sample_row=costs.sample_row.readings,
            roll_back=costs.roll_back,
            drafters=tuple(each.to_record(name) for name, each in sorted(self._drafters.items())),
            reply_tokens=self._typical,
            savings=self._budget.savings,
        )

    def _restore(self, record: PaceRecord) -> None:
        costs = self._costs
        costs.restore(record.level_s, record.rows)
        if costs.known:
            costs.plain_python = Robust(readings=record.plain_python)
            costs.spec_python = Robust(readings=record.spec_python)
            costs.sample_row = Robust(readings=record.sample_row)
            costs.roll_back = record.roll_back
        for each in record.drafters:
            drafter = Drafter(costs.drafter(each.name), Acceptance())
            drafter.restore(each)
            self._drafters[each.name] = drafter
        self._budget.savings = record.savings
        if record.reply_tokens >= 1:
            self._typical = record.reply_tokens


def _tame(reading: float, usual: float, count: int) -> float:
    """A reading for the account: once a cost is well known, one disturbed reading shall not bankrupt it."""
    if count < 3 or usual <= 0:
        return reading
    return min(max(reading, 0.7 * usual), 1.4 * usual)
