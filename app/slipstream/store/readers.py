"""Readers of single settings: each turns a decoded JSON value into the setting's own, or raises ValueError."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any, TypeVar

from slipstream.domain.sampling import Sampling
from slipstream.store.records import sampling_from

E = TypeVar("E", bound=Enum)
Reader = Callable[[object], Any]


def switch(value: object) -> bool:
    if isinstance(value, bool):
        return value
    raise ValueError("must be true or false")


def integer(low: int, high: int) -> Reader:
    def read(value: object) -> int:
        if isinstance(value, int) and not isinstance(value, bool) and low <= value <= high:
            return value
        raise ValueError(f"must be a whole number from {low} to {high}")

    return read


def number(low: float, high: float) -> Reader:
    def read(value: object) -> float:
        if isinstance(value, int | float) and not isinstance(value, bool) and low <= value <= high:
            return float(value)  # NaN fails both comparisons
        raise ValueError(f"must be a number from {low:g} to {high:g}")

    return read


def choice(*allowed: str) -> Reader:
    def read(value: object) -> str:
        if isinstance(value, str) and value in allowed:
            return value
        raise ValueError("must be one of " + ", ".join(allowed))

    return read


def member(kind: type[E]) -> Reader:
    def read(value: object) -> E:
        try:
            return kind(value)
        except ValueError:
            raise ValueError("must be one of " + ", ".join(str(one.value) for one in kind)) from None

    return read


def text(most: int) -> Reader:
    def read(value: object) -> str:
        if isinstance(value, str) and len(value) <= most and "\0" not in value:
            return value
        raise ValueError(f"must be text of at most {most} characters")

    return read


def texts(most: int) -> Reader:
    one = text(4096)

    def read(value: object) -> tuple[str, ...]:
        if isinstance(value, list | tuple) and len(value) <= most:
            return tuple(one(item) for item in value)
        raise ValueError(f"must be a list of at most {most} texts")

    return read


def optional(reader: Reader) -> Reader:
    def read(value: object) -> Any:
        return None if value is None else reader(value)

    return read


def read_sampling(value: object) -> Sampling:
    read = sampling_from(value)
    if read is None:
        raise ValueError("must be an object")
    return read
