"""Pace: how many tokens to draft in each round, or none."""

from slipstream.engine.pace.controller import PaceController
from slipstream.engine.pace.record import PaceRecord
from slipstream.engine.pace.rounds import Candidate, Choice, Guess, Observation

__all__ = ["Candidate", "Choice", "Guess", "Observation", "PaceController", "PaceRecord"]
