"""Flink's configuration keys: which of them mean something here, what they hold, and what holds without them.

An option is read by `read`. Every other key is named in one warning when a job starts. Flink: PipelineOptions,
ExecutionOptions, CheckpointingOptions, StateRecoveryOptions, RestartStrategyOptions, HeartbeatManagerOptions,
HighAvailabilityOptions, JobManagerOptions, TaskManagerOptions, …
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

from flinkbuf.common.configuration import (
    JOB_PARAMETERS,
    Configuration,
    boolean_of,
    float_of,
    integer_of,
    map_of,
    unreadable,
)
from flinkbuf.config import network_keys, parse_duration_ms, parse_size
from flinkbuf.streaming.time.latency_stats import GRANULARITIES


def granularity_of(text: str) -> str:
    """Read what shares a histogram of latencies."""
    granularity = text.strip().lower()
    if granularity not in GRANULARITIES:
        raise ValueError(f"it is one of {', '.join(GRANULARITIES)}, got {text!r}")
    return granularity


def directories_of(text: str) -> tuple[str, ...]:
    """Read directories, with a comma, a colon or a vertical bar between them."""
    return tuple(each.strip() for each in re.split(r"[,|:]", text) if each.strip())


def ports_of(text: str) -> tuple[int, ...]:
    """Read ports: one, a range, or several of both; they are tried in this order. 0 is a free one.

    Examples
    --------
    >>> ports_of("8081"), ports_of("50100-50102,0")
    ((8081,), (50100, 50101, 50102, 0))
    """
    ports: list[int] = []
    for part in text.split(","):
        first, dash, last = (each.strip() for each in part.partition("-"))
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise ValueError(f"'{text}' is no port and no range of ports: write 8081 or 50100-50200")
        low, high = int(first), int(last if dash else first)
        if not low <= high <= 65_535:
            raise ValueError(f"'{part.strip()}' is no range of ports, which go from 0 to 65535")
        ports += range(low, high + 1)
    return tuple(ports)


def token_of(text: str) -> str:
    """Read what lets somebody in: short ones could be guessed."""
    if len(text) < 16 or not text.isprintable() or " " in text:
        raise ValueError("it has at least 16 printable characters without spaces")
    return text


def positive_of(text: str) -> int:
    """Read a number of at least 1."""
    number = integer_of(text)
    if number < 1:
        raise ValueError(f"it must be at least 1, got {number}")
    return number


def not_negative_of(text: str) -> int:
    """Read a number of at least 0."""
    number = integer_of(text)
    if number < 0:
        raise ValueError(f"it must not be negative, got {number}")
    return number


def factor_of(text: str) -> float:
    """Read by how much a time grows each time: more than 1."""
    factor = float_of(text)
    if not 1 < factor < float("inf"):
        raise ValueError(f"it must be more than 1, got {text}")
    return factor


def share_of(text: str) -> float:
    """Read a number from 0 to 1."""
    share = float_of(text)
    if not 0 <= share <= 1:
        raise ValueError(f"it must be from 0 to 1, got {text}")
    return share


def list_of(text: str) -> tuple[str, ...]:
    """Read what is separated by commas."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


def maps_of(text: str) -> tuple[dict[str, str], ...]:
    """Read maps that are separated by semicolons, as ``pipeline.cached-files`` has them.

    Examples
    --------
    >>> maps_of("name:airports,path:/data/airports.csv;name:run,path:'/bin/a;b',executable:true")[1]["path"]
    '/bin/a;b'
    """
    parts = re.findall(r"""(?:"(?:[^"]|"")*"|'(?:[^']|'')*'|[^;'"])+""", text)
    return tuple(map_of(part) for part in parts if part.strip())


def one_of(*names: str) -> Callable[[str], str]:
    """Return what reads one of several names, in upper or lower case."""

    def read_name(text: str) -> str:
        name = text.strip().upper()
        if name not in names:
            raise ValueError(f"it is one of {', '.join(names)}, got {text!r}")
        return name

    return read_name


def failures_of(text: str) -> int:
    """Read how many checkpoints in a row may fail; -1: as many as will."""
    number = integer_of(text)
    if number < -1:
        raise ValueError(f"it must be at least 0, or -1 for no limit, got {number}")
    return number


def named_by(names: dict[str, str]) -> Callable[[str], str]:
    """Return what reads one of several names, some of which mean the same."""

    def read_name(text: str) -> str:
        name = names.get(text.strip().lower())
        if name is None:
            raise ValueError(f"it is one of {', '.join(names)}, got {text!r}")
        return name

    return read_name


T = TypeVar("T", covariant=True)


@dataclass(frozen=True)
class Option(Generic[T]):
    """One of Flink's options."""

    key: str
    read: Callable[[str], T]
    default: T
    fallback_keys: tuple[str, ...] = ()


STATE_BACKENDS = {
    **dict.fromkeys(("hashmap", "filesystem", "jobmanager"), "hashmap"),
    "rocksdb": "rocksdb",
}
HA_TYPES = {**dict.fromkeys(("none", "standalone"), "none"), "filesystem": "filesystem"}

PARALLELISM = Option("parallelism.default", integer_of, None)  # None: as many as there are cores
MAX_PARALLELISM = Option("pipeline.max-parallelism", integer_of, -1)
DEFAULT_JOB_NAME = "Flink Streaming Job"
DEFAULT_BATCH_JOB_NAME = "Flink Batch Job"
JOB_NAME = Option("pipeline.name", str, None)
AUTO_WATERMARK_INTERVAL = Option("pipeline.auto-watermark-interval", parse_duration_ms, 200)
BUFFER_TIMEOUT = Option("execution.buffer-timeout.interval", parse_duration_ms, 100, ("execution.buffer-timeout",))
BUFFER_TIMEOUT_ENABLED = Option("execution.buffer-timeout.enabled", boolean_of, True)
OPERATOR_CHAINING = Option("pipeline.operator-chaining.enabled", boolean_of, True, ("pipeline.operator-chaining",))
CHAIN_DIFFERENT_MAX_PARALLELISM = Option(
    "pipeline.operator-chaining.chain-operators-with-different-max-parallelism", boolean_of, True
)
OBJECT_REUSE = Option("pipeline.object-reuse", boolean_of, False)
GENERATES_UIDS = Option("pipeline.auto-generate-uids", boolean_of, True)
GLOBAL_JOB_PARAMETERS: Option[dict[str, str]] = Option(JOB_PARAMETERS, map_of, {})
CLOSURE_CLEANER = Option("pipeline.closure-cleaner-level", str, "RECURSIVE")  # cloudpickle takes what is needed
LATENCY_INTERVAL = Option("metrics.latency.interval", parse_duration_ms, 0)
LATENCY_GRANULARITY = Option("metrics.latency.granularity", granularity_of, "operator")
LATENCY_HISTORY_SIZE = Option("metrics.latency.history-size", positive_of, 128)
TARGETS = ("embedded", "local", "spark")
TARGET = Option("execution.target", named_by({name: name for name in TARGETS}), None)  # None: what is there decides
PROGRESS = Option("pipeline.progress", named_by({"auto": "auto", "true": "on", "false": "off"}), "auto")
LOG_FORMAT = Option("log.format", one_of("TEXT", "JSON"), None)  # None: the program's own process logs as it likes
RUNTIME_MODE = Option("execution.runtime-mode", one_of("STREAMING", "BATCH", "AUTOMATIC"), "STREAMING")
BATCH_SHUFFLE_MODE = Option(
    "execution.batch-shuffle-mode",
    one_of("ALL_EXCHANGES_BLOCKING", "ALL_EXCHANGES_PIPELINED"),
    "ALL_EXCHANGES_BLOCKING",
)
SORTED_INPUTS_MEMORY = Option("execution.sorted-inputs.memory", parse_size, 128 * 1024**2)
CANCELLATION_INTERVAL = Option("task.cancellation.interval", parse_duration_ms, 30_000)
CANCELLATION_TIMEOUT = Option("task.cancellation.timeout", parse_duration_ms, 180_000)
TERMINATION_MODE = Option(  # Flink suspends; it has no such options
    "execution.termination.mode", one_of("SUSPEND", "CANCEL", "SAVEPOINT", "NONE"), "SUSPEND"
)
TERMINATION_DRAINS = Option("execution.termination.drain", boolean_of, False)
TERMINATION_GRACE = Option("execution.termination.grace-period", parse_duration_ms, 25_000)

RESTART_STRATEGY = Option(
    "restart-strategy.type",
    named_by(
        {
            **dict.fromkeys(("none", "off", "disable"), "none"),
            **dict.fromkeys(("fixed-delay", "fixeddelay"), "fixed-delay"),
            **dict.fromkeys(("failure-rate", "failurerate"), "failure-rate"),
            **dict.fromkeys(("exponential-delay", "exponentialdelay"), "exponential-delay"),
        }
    ),
    None,
    ("restart-strategy",),
)
FIXED_DELAY_ATTEMPTS = Option("restart-strategy.fixed-delay.attempts", not_negative_of, 1)
FIXED_DELAY = Option("restart-strategy.fixed-delay.delay", parse_duration_ms, 1_000)
FAILURE_RATE_MAX = Option("restart-strategy.failure-rate.max-failures-per-interval", positive_of, 1)
FAILURE_RATE_INTERVAL = Option("restart-strategy.failure-rate.failure-rate-interval", parse_duration_ms, 60_000)
FAILURE_RATE_DELAY = Option("restart-strategy.failure-rate.delay", parse_duration_ms, 1_000)
EXPONENTIAL_INITIAL = Option("restart-strategy.exponential-delay.initial-backoff", parse_duration_ms, 1_000)
EXPONENTIAL_MAX = Option("restart-strategy.exponential-delay.max-backoff", parse_duration_ms, 60_000)
EXPONENTIAL_FACTOR = Option("restart-strategy.exponential-delay.backoff-multiplier", factor_of, 1.5)
EXPONENTIAL_RESET = Option("restart-strategy.exponential-delay.reset-backoff-threshold", parse_duration_ms, 3_600_000)
EXPONENTIAL_JITTER = Option("restart-strategy.exponential-delay.jitter-factor", share_of, 0.1)
EXPONENTIAL_ATTEMPTS = Option(
    "restart-strategy.exponential-delay.attempts-before-reset-backoff", positive_of, None
)  # None: as many as it takes

HEARTBEAT_INTERVAL = Option("heartbeat.interval", parse_duration_ms, 10_000)
HEARTBEAT_TIMEOUT = Option("heartbeat.timeout", parse_duration_ms, 50_000)
SLOT_LIMIT = Option("slotmanager.number-of-slots.max", positive_of, None)  # None: as many as a job needs
SLOT_REQUEST_TIMEOUT = Option("slot.request.timeout", parse_duration_ms, 300_000)
REST_ENABLED = Option("rest.enabled", named_by({"auto": "auto", "true": "on", "false": "off"}), "auto")
REST_PORT: Option[tuple[int, ...]] = Option(
    "rest.port", ports_of, (0,), ("rest.bind-port",)
)  # Flink: 8081; here each program has its own
REST_BIND_ADDRESS = Option("rest.bind-address", str, "127.0.0.1", ("rest.address",))
REST_TOKEN = Option("rest.token", token_of, None)  # None: only links bring one along
REST_TOKEN_FILE = Option("rest.token-file", str, None)
REST_LINGER = Option("rest.linger-timeout", parse_duration_ms, 60_000)
REPORTERS: Option[tuple[str, ...]] = Option("metrics.reporters", list_of, ())
ARCHIVE_DIRECTORY = Option("jobmanager.archive.fs.dir", str, None)
TEMPORARY_DIRECTORIES: Option[tuple[str, ...]] = Option(
    "io.tmp.dirs", directories_of, ()
)  # empty: SPARK_LOCAL_DIRS, or the system's
MANAGED_MEMORY = Option("taskmanager.memory.managed.size", parse_size, 128 * 1024**2)

PYTHON_FILES: Option[tuple[str, ...]] = Option("python.files", list_of, ())
PYTHON_ARCHIVES: Option[tuple[str, ...]] = Option("python.archives", list_of, ())
CACHED_FILES: Option[tuple[dict[str, str], ...]] = Option("pipeline.cached-files", maps_of, ())

CHECKPOINT_INTERVAL = Option("execution.checkpointing.interval", parse_duration_ms, -1)
CHECKPOINTING_MODE = Option("execution.checkpointing.mode", one_of("EXACTLY_ONCE", "AT_LEAST_ONCE"), "EXACTLY_ONCE")
CHECKPOINT_TIMEOUT = Option("execution.checkpointing.timeout", parse_duration_ms, 600_000)
CHECKPOINT_MIN_PAUSE = Option("execution.checkpointing.min-pause", parse_duration_ms, 0)
MAX_CONCURRENT_CHECKPOINTS = Option("execution.checkpointing.max-concurrent-checkpoints", positive_of, 1)
TOLERABLE_CHECKPOINT_FAILURES = Option("execution.checkpointing.tolerable-failed-checkpoints", failures_of, 0)
CHECKPOINT_RETENTION = Option(
    "execution.checkpointing.externalized-checkpoint-retention",
    one_of("DELETE_ON_CANCELLATION", "RETAIN_ON_CANCELLATION", "NO_EXTERNALIZED_CHECKPOINTS"),
    "NO_EXTERNALIZED_CHECKPOINTS",
    ("execution.checkpointing.externalized-checkpoint-retention.mode",),
)
UNALIGNED_CHECKPOINTS = Option(
    "execution.checkpointing.unaligned.enabled", boolean_of, False, ("execution.checkpointing.unaligned",)
)
FORCED_UNALIGNED_CHECKPOINTS = Option("execution.checkpointing.unaligned.forced", boolean_of, False)  # MEANINGLESS
ALIGNED_CHECKPOINT_TIMEOUT = Option(
    "execution.checkpointing.aligned-checkpoint-timeout",
    parse_duration_ms,
    0,
    ("execution.checkpointing.alignment-timeout",),
)
CHECKPOINTS_AFTER_TASKS_FINISH = Option(
    "execution.checkpointing.checkpoints-after-tasks-finish",
    boolean_of,
    True,
    ("execution.checkpointing.checkpoints-after-tasks-finish.enabled",),
)
SNAPSHOT_COMPRESSION = Option("execution.checkpointing.snapshot-compression", boolean_of, False)
CHECKPOINT_STORAGE = Option(
    "execution.checkpointing.storage",
    named_by({"jobmanager": "jobmanager", "filesystem": "filesystem"}),
    None,
    ("state.checkpoint-storage",),
)  # None: files where a directory was said
CHECKPOINT_DIRECTORY = Option("execution.checkpointing.dir", str, None, ("state.checkpoints.dir",))
SAVEPOINT_DIRECTORY = Option("execution.checkpointing.savepoint-dir", str, None, ("state.savepoints.dir",))
RETAINED_CHECKPOINTS = Option(
    "execution.checkpointing.num-retained", positive_of, 1, ("state.checkpoints.num-retained",)
)
INCREMENTAL_CHECKPOINTS = Option(
    "execution.checkpointing.incremental", boolean_of, False, ("state.backend.incremental",)
)
INLINE_THRESHOLD = Option(
    "execution.checkpointing.data-inline-threshold", parse_size, 20_480, ("state.storage.fs.memory-threshold",)
)
CHANGELOG = Option("state.changelog.enabled", boolean_of, None)  # without effect: MEANINGLESS says why
STATE_BACKEND = Option("state.backend.type", named_by(STATE_BACKENDS), "hashmap", ("state.backend",))
ROCKSDB_DIRECTORIES = Option("state.backend.rocksdb.localdir", str, None)  # these three the backend reads itself
ROCKSDB_CACHE_ENTRIES = Option("state.backend.rocksdb.cache.entries", positive_of, 10_000)
ROCKSDB_CACHE_SIZE = Option("state.backend.rocksdb.cache.size", parse_size, 32 << 20)

RECOVERY_PATH = Option("execution.state-recovery.path", str, None, ("execution.savepoint.path",))
RECOVERY_IGNORES_UNCLAIMED = Option(
    "execution.state-recovery.ignore-unclaimed-state",
    boolean_of,
    False,
    ("execution.savepoint.ignore-unclaimed-state",),
)
RECOVERY_FALLS_BACK = Option("execution.state-recovery.fall-back", boolean_of, False)  # Flink has none
RECOVERY_CLAIM_MODE = Option(
    "execution.state-recovery.claim-mode",
    one_of("NO_CLAIM", "CLAIM"),
    "NO_CLAIM",
    ("execution.savepoint-restore-mode",),
)

HA_TYPE = Option("high-availability.type", named_by(HA_TYPES), None, ("high-availability",))
HA_DIRECTORY = Option("high-availability.storageDir", str, None)
HA_CLUSTER = Option("high-availability.cluster-id", str, "default")
HA_LEASE_TIMEOUT = Option("high-availability.lease-timeout", parse_duration_ms, 15_000)  # Flink has leases elsewhere

OPTIONS = {value.key: value for value in tuple(globals().values()) if isinstance(value, Option)}
KNOWN_KEYS = {key for option in OPTIONS.values() for key in (option.key, *option.fallback_keys)}
# Knobs of a reporter of metrics, with its name after the prefix: web_options.py reads them.
REPORTER_PREFIX = "metrics.reporter."
REPORTER_KNOBS = ("factory.class", "interval", "path", "port")
# Knobs of a state backend: those among OPTIONS act.
STATE_BACKEND_PREFIX = "state.backend."
# Knobs of the network stack that are handed to task managers; those of buffer timeouts are read above.
NETWORK_PREFIX = "taskmanager."
# Without effect here, and with reason.
MEANINGLESS = {
    **{key: why for key, why in network_keys().items() if why and key.startswith(NETWORK_PREFIX)},
    "execution.sorted-inputs.enabled": "keyed operators of a batch job always read one key after the other",
    "execution.batch-state-backend.enabled": "keyed state of a batch job is always that of one key at a time",
    "state.changelog.enabled": "state is written at checkpoints only",
    "execution.checkpointing.unaligned.forced": "for iterations, which there are none of",
    "python.requirements": "packages are those of this interpreter, or of Spark's workers",
    "python.executable": "tasks run in this interpreter, or in that of Spark's workers",
    "python.client.executable": "tasks run in this interpreter",
    "taskmanager.numberOfTaskSlots": "a task manager has one slot, so that subtasks do not share an interpreter",
    "pipeline.jars": "there is no JVM that could load them",
    "pipeline.classpaths": "there is no JVM that could load them",
}


def read(configuration: Configuration, option: Option[T]) -> T:
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
                failure = unreadable(key, text, error, f": {error}")
            raise failure
    return option.default


NO_NETWORK = "the whole job runs in the program's process"
NO_KNOB = "the state backends here have no such knob"


def network_options(configuration: Configuration) -> dict[str, str]:
    """Return what was set of the network stack's own knobs, as `NetworkConfig.from_flink` takes it."""
    return {key: text for key, text in configuration.to_dict().items() if key in _network_keys()}


def _network_keys() -> set[str]:
    return {key for key, why in network_keys().items() if why is None and key.startswith(NETWORK_PREFIX)}


def keys_without_effect(keys: Iterable[str], target: str = "") -> list[str]:
    """Return those keys that do nothing here, each with the reason if there is one to give.

    `target` is where the job will run: an embedded one has no use for sockets.
    """
    acting = KNOWN_KEYS - MEANINGLESS.keys() | {key for key in keys if _is_of_reporter(key)}
    if target != "embedded":
        acting |= _network_keys()

    return [f"{key} ({why})" if (why := _reason(key)) else key for key in sorted(keys) if key not in acting]


def _is_of_reporter(key: str) -> bool:
    name, _, knob = key.removeprefix(REPORTER_PREFIX).partition(".")
    return key.startswith(REPORTER_PREFIX) and bool(name) and knob in REPORTER_KNOBS


def _reason(key: str) -> str | None:
    if key in _network_keys():
        return NO_NETWORK
    if key.startswith(STATE_BACKEND_PREFIX):
        return NO_KNOB
    near = difflib.get_close_matches(key, [*KNOWN_KEYS, *_network_keys()], 1, 0.85) if key not in MEANINGLESS else ()
    return f"did you mean {near[0]}?" if near and near[0] != key else MEANINGLESS.get(key)
