"""Flink's configuration keys: which of them mean something here, what they hold, and what holds without them.

An option that acts is read by `read`. Those of what is still to come (checkpoints, restarts, state backends) are kept
and read back. Every other key is named in one warning when a job starts. Flink: PipelineOptions, ExecutionOptions, …
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from typing import Any

from flinkbuf.common.configuration import Configuration, boolean_of, integer_of
from flinkbuf.streaming.latency_stats import GRANULARITIES

_UNITS_MS: dict[str, Fraction] = {
    unit: Fraction(milliseconds)
    for units, milliseconds in {
        "d day days": "86400000",
        "h hour hours": "3600000",
        "m min minute minutes": "60000",
        "s sec secs second seconds": "1000",
        "ms milli millis millisecond milliseconds": "1",
        "µs micro micros microsecond microseconds": "1/1000",
        "ns nano nanos nanosecond nanoseconds": "1/1000000",
    }.items()
    for unit in units.split()
}
_ISO_DURATION = re.compile(r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?", re.IGNORECASE)


def duration_ms_of(text: str) -> int:
    """Read a time: ``50 ms``, ``3 s``, ``PT3S``, or a bare number of milliseconds. Flink's ``TimeUtils``.

    Examples
    --------
    >>> duration_ms_of("2 min"), duration_ms_of("100"), duration_ms_of("PT1M0.5S")
    (120000, 100, 60500)
    """
    number = re.fullmatch(r"\s*(\d+)\s*([a-zµ]*)\s*", text.lower())
    if number is not None and (number[2] or "ms") in _UNITS_MS:
        return int(int(number[1]) * _UNITS_MS[number[2] or "ms"])
    parts = _ISO_DURATION.fullmatch(text.strip())
    if parts is not None and any(parts.groups()):
        days, hours, minutes, seconds = (Fraction(part or 0) for part in parts.groups())
        return int((((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1000)
    raise ValueError(f"'{text}' is no time: write a number and a unit, such as 50 ms, 3 s or 2 min")


_PART = r"""\s*("(?:[^"]|"")*"|'(?:[^']|'')*'|[^,:'"{}]+?)\s*"""
_PAIR = re.compile(_PART + ":" + r"""\s*("(?:[^"]|"")*"|'(?:[^']|'')*'|[^,'"{}]*?)\s*(?:,|$)""")


def map_of(text: str) -> dict[str, str]:
    """Read keys and values: ``a:1,b:2`` or ``{a: 1, b: 2}``; quotes keep what would be a sign.

    Examples
    --------
    >>> map_of("airport:JFK,'a,b':'it''s'")
    {'airport': 'JFK', 'a,b': "it's"}
    """
    inner = text.strip()
    if inner.startswith("{") and inner.endswith("}"):
        inner = inner[1:-1].strip()
    pairs: dict[str, str] = {}
    position = 0
    while position < len(inner):
        pair = _PAIR.match(inner, position)
        if pair is None:
            raise ValueError(f"'{text}' is no map: write key:value,key:value")
        pairs[_unquoted(pair[1])] = _unquoted(pair[2])
        position = pair.end()
    return pairs


def map_text(pairs: dict[str, str]) -> str:
    """Write keys and values so that `map_of` reads them."""
    return ",".join(f"{_quoted(key)}:{_quoted(value)}" for key, value in pairs.items())


def _quoted(text: str) -> str:
    return text if re.fullmatch(r"[\w.\-/]+", text) else "'" + text.replace("'", "''") + "'"


def _unquoted(text: str) -> str:
    quote = text[:1]
    return text[1:-1].replace(quote * 2, quote) if quote in ("'", '"') else text


def granularity_of(text: str) -> str:
    """Read what shares a histogram of latencies."""
    granularity = text.strip().lower()
    if granularity not in GRANULARITIES:
        raise ValueError(f"it is one of {', '.join(GRANULARITIES)}, got {text!r}")
    return granularity


def positive_of(text: str) -> int:
    """Read a number of at least 1."""
    number = integer_of(text)
    if number < 1:
        raise ValueError(f"it must be at least 1, got {number}")
    return number


def one_of(*names: str) -> Callable[[str], str]:
    """Return what reads one of several names, in upper or lower case."""

    def read_name(text: str) -> str:
        name = text.strip().upper()
        if name not in names:
            raise ValueError(f"it is one of {', '.join(names)}, got {text!r}")
        return name

    return read_name


class Effect(Enum):
    """What a key does."""

    ACTS = "acts"
    KEPT = "kept"  # for what is still to come


@dataclass(frozen=True)
class Option:
    """One of Flink's options."""

    key: str
    read: Callable[[str], Any]
    default: Any
    fallback_keys: tuple[str, ...] = ()
    effect: Effect = Effect.ACTS


PARALLELISM = Option("parallelism.default", integer_of, None)  # None: as many as there are cores
MAX_PARALLELISM = Option("pipeline.max-parallelism", integer_of, -1)
JOB_NAME = Option("pipeline.name", str, None)
AUTO_WATERMARK_INTERVAL = Option("pipeline.auto-watermark-interval", duration_ms_of, 200)
BUFFER_TIMEOUT = Option("execution.buffer-timeout.interval", duration_ms_of, 100, ("execution.buffer-timeout",))
BUFFER_TIMEOUT_ENABLED = Option("execution.buffer-timeout.enabled", boolean_of, True)
OPERATOR_CHAINING = Option("pipeline.operator-chaining.enabled", boolean_of, True, ("pipeline.operator-chaining",))
CHAIN_DIFFERENT_MAX_PARALLELISM = Option(
    "pipeline.operator-chaining.chain-operators-with-different-max-parallelism", boolean_of, True
)
OBJECT_REUSE = Option("pipeline.object-reuse", boolean_of, False)  # values always go by reference within a chain
GENERATES_UIDS = Option("pipeline.auto-generate-uids", boolean_of, True)
GLOBAL_JOB_PARAMETERS = Option("pipeline.global-job-parameters", map_of, {})
CLOSURE_CLEANER = Option("pipeline.closure-cleaner-level", str, "RECURSIVE")  # cloudpickle takes what is needed
LATENCY_INTERVAL = Option("metrics.latency.interval", duration_ms_of, 0)
LATENCY_GRANULARITY = Option("metrics.latency.granularity", granularity_of, "operator")
LATENCY_HISTORY_SIZE = Option("metrics.latency.history-size", positive_of, 128)
TARGET = Option("execution.target", str, "embedded")
RUNTIME_MODE = Option("execution.runtime-mode", one_of("STREAMING", "BATCH", "AUTOMATIC"), "STREAMING")
CANCELLATION_INTERVAL = Option("task.cancellation.interval", duration_ms_of, 30_000)
CANCELLATION_TIMEOUT = Option("task.cancellation.timeout", duration_ms_of, 180_000, effect=Effect.KEPT)

CHECKPOINT_INTERVAL = Option("execution.checkpointing.interval", duration_ms_of, -1, effect=Effect.KEPT)
CHECKPOINTING_MODE = Option(
    "execution.checkpointing.mode", one_of("EXACTLY_ONCE", "AT_LEAST_ONCE"), "EXACTLY_ONCE", effect=Effect.KEPT
)
CHECKPOINT_TIMEOUT = Option("execution.checkpointing.timeout", duration_ms_of, 600_000, effect=Effect.KEPT)
CHECKPOINT_MIN_PAUSE = Option("execution.checkpointing.min-pause", duration_ms_of, 0, effect=Effect.KEPT)
MAX_CONCURRENT_CHECKPOINTS = Option(
    "execution.checkpointing.max-concurrent-checkpoints", integer_of, 1, effect=Effect.KEPT
)
TOLERABLE_CHECKPOINT_FAILURES = Option(
    "execution.checkpointing.tolerable-failed-checkpoints", integer_of, 0, effect=Effect.KEPT
)
CHECKPOINT_RETENTION = Option(
    "execution.checkpointing.externalized-checkpoint-retention", str, "NO_EXTERNALIZED_CHECKPOINTS", effect=Effect.KEPT
)
UNALIGNED_CHECKPOINTS = Option("execution.checkpointing.unaligned.enabled", boolean_of, False, effect=Effect.KEPT)
FORCED_UNALIGNED_CHECKPOINTS = Option("execution.checkpointing.unaligned.forced", boolean_of, False, effect=Effect.KEPT)
ALIGNED_CHECKPOINT_TIMEOUT = Option(
    "execution.checkpointing.aligned-checkpoint-timeout", duration_ms_of, 0, effect=Effect.KEPT
)
SNAPSHOT_COMPRESSION = Option("execution.checkpointing.snapshot-compression", boolean_of, False, effect=Effect.KEPT)
SAVEPOINT_DIRECTORY = Option(
    "execution.checkpointing.savepoint-dir", str, None, ("state.savepoints.dir",), effect=Effect.KEPT
)
CHANGELOG = Option("state.changelog.enabled", boolean_of, None, effect=Effect.KEPT)

OPTIONS = {value.key: value for value in tuple(globals().values()) if isinstance(value, Option)}
KNOWN_KEYS = {key for option in OPTIONS.values() for key in (option.key, *option.fallback_keys)}
# Groups that are kept as a whole for what is still to come.
KEPT_PREFIXES = ("execution.checkpointing.", "restart-strategy.", "state.backend.", "state.checkpoint")
# Without effect here, and with reason: Python code is found by import, and there is no JVM that takes jars.
MEANINGLESS = {
    "python.files": "modules are found as every Python program finds them",
    "python.requirements": "packages are those of this interpreter",
    "python.archives": "files are opened where they lie",
    "python.executable": "tasks run in this interpreter",
    "python.client.executable": "tasks run in this interpreter",
    "task.cancellation.timeout": "a task that does not end is interrupted again; no process is killed",
    "pipeline.jars": "there is no JVM that could load them",
    "pipeline.classpaths": "there is no JVM that could load them",
}


def read(configuration: Configuration, option: Option) -> Any:
    """Return what an option holds: its own key, else one of its older names, else its default.

    Raises
    ------
    ValueError
        If its text is not of the option's kind.
    """
    for key in (option.key, *option.fallback_keys):
        text = configuration.get_string(key, None)
        if text is not None:
            try:
                return option.read(text)
            except ValueError as error:
                raise ValueError(f"Could not parse value '{text}' for key '{key}'.") from error
    return option.default


NOT_YET = "kept for checkpoints and restarts, which are still to come"


def keys_without_effect(keys: Iterable[str]) -> list[str]:
    """Return those keys that do nothing here, or nothing yet, each with the reason if there is one to give."""
    acting = {
        key
        for option in OPTIONS.values()
        if option.effect is Effect.ACTS
        for key in (option.key, *option.fallback_keys)
    }
    return [f"{key} ({why})" if (why := _reason(key)) else key for key in sorted(keys) if key not in acting]


def _reason(key: str) -> str | None:
    is_kept = key in KNOWN_KEYS or key == "restart-strategy" or key.startswith(KEPT_PREFIXES)
    return MEANINGLESS.get(key, NOT_YET if is_kept else None)
