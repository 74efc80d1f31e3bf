"""What users' functions take and give, for type checkers: a function that does not say it takes and gives anything."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing_extensions import TypeVar  # checkers know it, installed or not; Python has defaults from 3.13 on

    T = TypeVar("T", default=Any)
    T1 = TypeVar("T1", default=Any)
    T2 = TypeVar("T2", default=Any)
    ACC = TypeVar("ACC", default=Any)
    TXN = TypeVar("TXN", default=Any)
    K = TypeVar("K", default=Any)
    V = TypeVar("V", default=Any)
    A = TypeVar("A", default=Any)
    R = TypeVar("R", default=Any)
    KEY = TypeVar("KEY", default=Any)
    # What takes any tuple takes pairs, too, and what gives pairs gives tuples.
    IN = TypeVar("IN", contravariant=True, default=Any)
    IN1 = TypeVar("IN1", contravariant=True, default=Any)
    IN2 = TypeVar("IN2", contravariant=True, default=Any)
    OUT = TypeVar("OUT", covariant=True, default=Any)
    WINDOW = TypeVar("WINDOW", contravariant=True, default=Any)
else:
    from typing import TypeVar

    T, T1, T2, K, V, A, R = map(TypeVar, ("T", "T1", "T2", "K", "V", "A", "R"))
    ACC, TXN, KEY = map(TypeVar, ("ACC", "TXN", "KEY"))
    IN, IN1, IN2, OUT, WINDOW = map(TypeVar, ("IN", "IN1", "IN2", "OUT", "WINDOW"))
