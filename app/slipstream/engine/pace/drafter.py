"""All the controller knows of one drafter, and its plan for the round at hand."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from slipstream.engine.pace.budget import Trial
from slipstream.engine.pace.calibration import Acceptance, sigmoid
from slipstream.engine.pace.costs import DraftCosts, Robust, restore_catch_up
from slipstream.engine.pace.record import DrafterRecord
from slipstream.engine.pace.rounds import Candidate, Guess

LITTLE_EVIDENCE = 24  # labels below which a drafter counts as unknown
_EDGE_MEMORY = 0.06


@dataclass
class Drafter:
    """Costs, calibration and standing of one drafter.

    `edge`: how much better (tokens a round) its rounds went than foretold, on average. The forecast plans a fixed
    length; stopping on what the draft itself says earns more, and only experience tells how much.
    """

    costs: DraftCosts
    acceptance: Acceptance
    trial: Trial = field(default_factory=Trial)
    edge: float = 0.0
    edge_rounds: int = 0

    @property
    def known_edge(self) -> float:
        return self.edge * self.edge_rounds / (self.edge_rounds + 12.0)

    def foretold(self, predicted: float, realised: float) -> None:
        """A round worth `predicted` tokens turned out at `realised`."""
        self.edge_rounds += 1
        self.edge += max(_EDGE_MEMORY, 1.0 / (self.edge_rounds + 4)) * (realised - predicted - self.edge)

    def pass_by(self, tokens: int) -> None:
        self.acceptance.pass_by(tokens)
        self.trial.pass_by(tokens)
        self.edge *= 0.998**tokens  # a bad run must not be held against it for ever

    def to_record(self, name: str) -> DrafterRecord:
        return DrafterRecord(
            name=name,
            step=self.costs.step.readings,
            block=self.costs.block.readings,
            catch_up=tuple((size, cell.readings) for size, cell in sorted(self.costs.catch_up.items())),
            seen=self.acceptance.seen.to_numbers(),
            ahead=self.acceptance.ahead.to_numbers(),
            usual=self.acceptance.usual,
            labels=self.acceptance.labels,
            rounds=self.trial.rounds,
            net=self.trial.net,
            interval=self.trial.interval,
            paused=self.trial.paused,
        )

    def restore(self, record: DrafterRecord) -> None:
        self.costs.step = Robust(readings=record.step, hearsay=True)
        self.costs.block = Robust(readings=record.block, hearsay=True)
        restore_catch_up(self.costs, dict(record.catch_up))
        self.acceptance.seen.from_numbers(record.seen, doubt=0.1)
        self.acceptance.ahead.from_numbers(record.ahead, doubt=0.1)
        self.acceptance.usual = self.acceptance.run = record.usual
        self.acceptance.labels = record.labels
        self.trial = Trial(interval=record.interval, paused=record.paused, rounds=record.rounds, net=record.net)


class Plan:
    """The round being drafted: follows the guesses as they come and keeps what deciding needs."""

    __slots__ = (
        "candidate", "chances", "drafter", "k_max", "outlay", "paid", "per_token", "predicted", "rate", "reason",
        "rows", "run", "survive",
    )  # fmt: skip

    def __init__(
        self,
        candidate: Candidate,
        drafter: Drafter,
        k_max: int,
        reason: str,
        predicted: float,
        rate: float,
        rows: Sequence[float],
        per_token: float,
    ) -> None:
        self.candidate, self.drafter, self.k_max, self.reason = candidate, drafter, k_max, reason
        self.predicted, self.rate, self.rows, self.per_token = predicted, rate, rows, per_token
        self.run = drafter.acceptance.run
        self.chances: list[float] = []  # of the guesses so far
        self.survive = [1.0]  # survive[i]: chance that the first i are all kept
        self.outlay = False  # its catch-up is more than the reply's own account can pay
        self.paid = 0  # draft steps paid

    def extend(self, guesses: Sequence[Guess]) -> None:
        """Take in the guesses not seen yet."""
        acceptance = self.drafter.acceptance
        for position in range(len(self.chances), len(guesses)):
            own = acceptance.logit_of(guesses[position], position)
            self.run = acceptance.follow(self.run, own)
            chance = sigmoid(own)
            self.chances.append(chance)
            self.survive.append(self.survive[-1] * chance)

    def ahead(self, start: int, count: int) -> Iterator[float]:
        return self.drafter.acceptance.forecast(self.run, start, count)
