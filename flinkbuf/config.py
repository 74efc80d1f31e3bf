"""Every knob of the network stack that is read, under its Flink name and with Flink's defaults."""

import dataclasses
import difflib
import os
import re
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, TypeVar

T = TypeVar("T")

_SIZES = {"": 1, "b": 1, "bytes": 1}
for _power, _names in enumerate(("k kb kibibytes", "m mb mebibytes", "g gb gibibytes", "t tb tebibytes"), start=1):
    _SIZES.update(dict.fromkeys(_names.split(), 1024**_power))

_NANOSECONDS = {"": 10**6}  # a bare number is milliseconds, as in Flink
for _names, _nanoseconds in (
    ("ns nano nanos nanosecond nanoseconds", 1),
    ("\u00b5s \u03bcs micro micros microsecond microseconds", 10**3),  # micro sign, or Greek mu
    ("ms milli millis millisecond milliseconds", 10**6),
    ("s sec secs second seconds", 10**9),
    ("m min mins minute minutes", 60 * 10**9),
    ("h hour hours", 3600 * 10**9),
    ("d day days", 86400 * 10**9),
):
    _NANOSECONDS.update(dict.fromkeys(_names.split(), _nanoseconds))

_ISO_DURATION = re.compile(r"\s*P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:[.,]\d{0,9})?)S)?)?\s*", re.IGNORECASE)
_NUMBER_AND_UNIT = re.compile(r"\s*(\d+)\s*([^\W\d]*)\s*")
MIN_DEAD_PEER_TIMEOUT_MS = 2000  # systems answer some probes only after a second
MIN_AUTH_SIZE = 16  # bytes of a shared secret: fewer could be guessed from one overheard proof
_LONG_MAX = 2**63 - 1
_UNLIMITED_BYTES = _LONG_MAX  # Flink's MemorySize.MAX_VALUE, its way to say "no limit"
_OURS = ("taskmanager.network.", "taskmanager.memory.network.", "execution.buffer-timeout")


def _scale(text: object, units: Mapping[str, int], what: str) -> int:
    match = _NUMBER_AND_UNIT.fullmatch(str(text))
    if match is None or match[2].lower() not in units:
        raise ValueError(f"expected {what}")
    return _as_long(int(match[1]) * units[match[2].lower()])


def _as_long(number: int) -> int:
    if number > _LONG_MAX:
        raise ValueError("it is too large for 64 bits")
    return number


def parse_size(text: str | int) -> int:
    """Read a Flink memory size, in bytes.

    Parameters
    ----------
    text : str or int
        A whole number and a unit: ``"32kb"``, ``"64 m"``, ``"1 gb"``. Units count in 1024; without one it is bytes.

    Raises
    ------
    ValueError
        If it is not of that form.

    References
    ----------
    Flink ``MemorySize.parse``.

    Examples
    --------
    >>> parse_size("32kb"), parse_size("64 m"), parse_size(4096)
    (32768, 67108864, 4096)
    """
    return _scale(text, _SIZES, 'a memory size such as "32kb" or "64 mb"')


def parse_duration_ms(text: str | int) -> int:
    """Read a Flink duration, in milliseconds.

    Parameters
    ----------
    text : str or int
        A whole number and a unit: ``"100 ms"``, ``"10s"``, ``"5 min"``; without one it is milliseconds. Or ISO 8601:
        ``"PT1M30S"``.

    Raises
    ------
    ValueError
        If it is not of that form, or not a whole number of milliseconds.

    References
    ----------
    Flink ``TimeUtils.parseDuration``.

    Examples
    --------
    >>> parse_duration_ms("100 ms"), parse_duration_ms("10s"), parse_duration_ms(250), parse_duration_ms("PT1M0.5S")
    (100, 10000, 250, 60500)
    """
    milliseconds = _iso_milliseconds(str(text))
    if milliseconds is None:
        milliseconds = Fraction(_scale(text, _NANOSECONDS, 'a duration such as "100 ms", "10 s" or "PT10S"'), 10**6)
    if milliseconds.denominator != 1:
        raise ValueError("expected a whole number of milliseconds")
    return _as_long(int(milliseconds))


def _iso_milliseconds(text: str) -> Fraction | None:
    match = _ISO_DURATION.fullmatch(text)
    if match is None or not any(match.groups()):
        return None
    days, hours, minutes, seconds = (Fraction((part or "0").replace(",", ".")) for part in match.groups())
    return (((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1000


def _parse_int(text: object) -> int:
    try:
        return int(str(text))
    except ValueError:
        raise ValueError("expected a whole number") from None


def _parse_float(text: object) -> float:
    try:
        return float(str(text))
    except ValueError:
        raise ValueError("expected a number") from None


def _parse_flag(text: object) -> bool:
    if str(text).strip().lower() not in ("true", "false"):
        raise ValueError("expected true or false")
    return str(text).strip().lower() == "true"


def _format_size(size: int) -> str:
    for unit, factor in (("tb", 1024**4), ("gb", 1024**3), ("mb", 1024**2), ("kb", 1024)):
        if size and size % factor == 0:
            return f"{size // factor} {unit}"
    return f"{size} bytes"


def _format_duration(milliseconds: int) -> str:
    for unit, factor in (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1000)):
        if milliseconds and milliseconds % factor == 0:
            return f"{milliseconds // factor} {unit}"
    return f"{milliseconds} ms"


@dataclass(frozen=True)
class _Kind:
    """How values of one kind are checked, and how Flink's configuration writes them."""

    python: type
    parse: Callable[[Any], object]
    format: Callable[[Any], str] = str


_FLAG = _Kind(bool, _parse_flag, lambda value: str(value).lower())
_INT = _Kind(int, _parse_int)
_FLOAT = _Kind(float, _parse_float)
_SIZE = _Kind(int, parse_size, _format_size)
_DURATION = _Kind(int, parse_duration_ms, _format_duration)
_WORD = _Kind(str, str)
_INT_MAX = 2**31 - 1  # Flink keeps these knobs in Java ints


@dataclass(frozen=True)
class _Knob:
    """What stands beside a field: its Flink key, its kind, and what it may be."""

    key: str
    kind: _Kind
    low: float = 0
    high: float = _INT_MAX
    words: tuple[str, ...] = ()
    optional: bool = False
    aliases: tuple[str, ...] = ()

    @property
    def range_text(self) -> str:
        if self.words:
            text = "one of " + ", ".join(self.words)
        elif self.kind is _FLAG:
            text = "True or False"
        elif self.kind is _WORD:
            text = "text"
        else:
            text = f"{'a number' if self.kind is _FLOAT else 'an int'} from {self.low} to {self.high}"
        return text + (" or None" if self.optional else "")

    def allows(self, value: object) -> bool:
        if value is None:
            return self.optional
        if self.kind is _FLAG or isinstance(value, bool):
            return self.kind is _FLAG and isinstance(value, bool)
        if self.kind is _WORD:
            return isinstance(value, str) and (not self.words or value in self.words)
        numbers = (int, float) if self.kind is _FLOAT else int
        return isinstance(value, numbers) and self.low <= value <= self.high


def _knob(
    default: T,
    key: str,
    kind: _Kind,
    low: float = 0,
    high: float = _INT_MAX,
    words: tuple[str, ...] = (),
    aliases: tuple[str, ...] = (),
) -> T:
    knob = _Knob(key, kind, low, high, words, default is None, aliases)
    return field(default=default, metadata={"knob": knob})


@dataclass(frozen=True, kw_only=True)
class TlsConfig:
    """The files with which a process shows who it is over TLS on data connections, and by which it knows the others.

    Both sides of every connection show a certificate, and each has to be signed by `authority`: a private one, made
    for this network, for it admits whoever holds a certificate of it. Names in certificates are not compared.

    Data connections are all that is encrypted. The connection of a pipelined exchange's tasks to the driver is not, and
    the texts of failures, which may hold values of records, cross it; see `exchange`.

    Parameters
    ----------
    certificate : path
        PEM file with this process's certificate, followed by those between it and the authority, if any.
    key : path
        PEM file with its private key, not encrypted.
    authority : path
        PEM file with the certificates that peers' certificates must be signed by.

    Raises
    ------
    TypeError
        If one is no path. Whether the files can be read is seen where they are used, in the process that uses them.

    References
    ----------
    Flink ``security.ssl.internal.keystore`` and ``security.ssl.internal.truststore``, which hold the same in Java's
    own format.

    Examples
    --------
    >>> TlsConfig(certificate="worker.pem", key="worker.key", authority="ca.pem")
    TlsConfig(certificate='worker.pem', key='worker.key', authority='ca.pem')
    """

    certificate: str | os.PathLike[str]
    key: str | os.PathLike[str]
    authority: str | os.PathLike[str]

    def __post_init__(self) -> None:
        for item in dataclasses.fields(self):
            value = getattr(self, item.name)
            if not isinstance(value, (str, os.PathLike)):
                raise TypeError(f"{item.name} must be the path of a PEM file, got {value!r}")


@dataclass(frozen=True, kw_only=True)
class NetworkConfig:
    """Every knob of the network stack that flinkbuf reads, with Flink's defaults.

    Each field has the name of its Flink option in Python's case, with the unit where there is one; the option's
    key stands beside it. Sizes are bytes, times milliseconds or, where Flink's own option says so, seconds. None
    means that the option is unset: no limit, or what the operating system does by itself.

    Three fields are no options of Flink. `auth` is a secret, at least 16 random bytes (``secrets.token_bytes(32)``),
    that both sides of a connection prove to know before they say anything else; None speaks plain Flink. It is not
    shown in the config's text. `tls` are the files for encrypted data connections; None does not encrypt. The
    connection of a pipelined exchange's tasks to the driver is not among them: it is never encrypted, see `exchange`.
    `dead_peer_timeout_ms` says after how many milliseconds without any answer another machine counts as gone: pulled
    from the network, cut off or switched off. One whose process is slow or stopped is not: its system answers for it. 0
    leaves it to the operating system, which may take 15 minutes, as it is on systems other than Linux. While nothing is
    under way, systems probe each other (the three ``netty.client.tcp`` knobs, for both sides; 5 s, 2 s and 3 probes
    where they are None). `netty_client_connect_timeout_s` is 120 s where it is None, as in Flink, but 30 s between the
    tasks of a pipelined exchange or a stream job on Spark: all of them run already.

    Raises
    ------
    ValueError
        If a value is not of its kind or out of range; the message names knob, value and what is allowed.
    TypeError
        If `auth` is not bytes, or `tls` no TlsConfig.

    References
    ----------
    Flink ``NettyShuffleEnvironmentOptions``, ``TaskManagerOptions``, ``ExecutionOptions``.

    Examples
    --------
    >>> config = NetworkConfig(buffers_per_channel=4)
    >>> config.segment_size, config.buffers_per_channel
    (32768, 4)
    >>> NetworkConfig.from_flink({"taskmanager.memory.segment-size": "64kb"}).segment_size
    65536
    >>> NetworkConfig(segment_size=5000)
    Traceback (most recent call last):
    ...
    ValueError: segment_size (taskmanager.memory.segment-size) must be a power of two from 4096 bytes up, got 5000
    """

    # Memory: how large a buffer is, and how much of it all there is.
    segment_size: int = _knob(32 * 1024, "taskmanager.memory.segment-size", _SIZE, low=4096, high=2**30)
    min_segment_size: int = _knob(256, "taskmanager.memory.min-segment-size", _SIZE, low=1, high=2**30)
    network_memory_min: int = _knob(
        64 * 1024**2,
        "taskmanager.memory.network.min",
        _SIZE,
        high=_LONG_MAX,
        aliases=("taskmanager.network.memory.min",),
    )
    network_memory_max: int | None = _knob(
        None, "taskmanager.memory.network.max", _SIZE, high=_LONG_MAX, aliases=("taskmanager.network.memory.max",)
    )

    # Buffers: who may hold how many.
    buffers_per_channel: int = _knob(2, "taskmanager.network.memory.buffers-per-channel", _INT)
    floating_buffers_per_gate: int = _knob(8, "taskmanager.network.memory.floating-buffers-per-gate", _INT)
    max_buffers_per_channel: int = _knob(10, "taskmanager.network.memory.max-buffers-per-channel", _INT, low=1)
    max_overdraft_buffers_per_gate: int = _knob(5, "taskmanager.network.memory.max-overdraft-buffers-per-gate", _INT)
    read_buffer_required_per_gate_max: int | None = _knob(
        None, "taskmanager.network.memory.read-buffer.required-per-gate.max", _INT, low=1
    )
    exclusive_buffers_request_timeout_ms: int = _knob(
        30_000,
        "taskmanager.network.memory.buffers-request-timeout",
        _DURATION,
        aliases=("taskmanager.network.memory.exclusive-buffers-request-timeout-ms",),
    )

    # Flushing: how long a record may wait in a buffer that is not full. 0 flushes after every record.
    buffer_timeout_enabled: bool = _knob(True, "execution.buffer-timeout.enabled", _FLAG)
    buffer_timeout_ms: int = _knob(
        100, "execution.buffer-timeout.interval", _DURATION, high=_LONG_MAX, aliases=("execution.buffer-timeout",)
    )

    # Debloating: smaller buffers while the receiver is slow, so that less is under way.
    buffer_debloat_enabled: bool = _knob(False, "taskmanager.network.memory.buffer-debloat.enabled", _FLAG)
    buffer_debloat_period_ms: int = _knob(200, "taskmanager.network.memory.buffer-debloat.period", _DURATION, low=1)
    buffer_debloat_target_ms: int = _knob(1000, "taskmanager.network.memory.buffer-debloat.target", _DURATION, low=1)
    buffer_debloat_samples: int = _knob(20, "taskmanager.network.memory.buffer-debloat.samples", _INT, low=1)
    buffer_debloat_threshold_percentages: int = _knob(
        25, "taskmanager.network.memory.buffer-debloat.threshold-percentages", _INT, high=100
    )

    # Blocking partitions: how they are compressed, how much is collected before it is written, how it is kept and read.
    compression_codec: str = _knob(
        "LZ4", "taskmanager.network.compression.codec", _WORD, words=("NONE", "LZ4", "LZO", "ZSTD")
    )
    batch_shuffle_compression_enabled: bool = _knob(
        True,
        "taskmanager.network.batch-shuffle.compression.enabled",
        _FLAG,
        aliases=("taskmanager.network.blocking-shuffle.compression.enabled",),
    )
    batch_shuffle_read_size: int = _knob(
        64 * 1024**2, "taskmanager.memory.framework.off-heap.batch-shuffle.size", _SIZE, low=1, high=_LONG_MAX
    )
    sort_shuffle_min_buffers: int = _knob(512, "taskmanager.network.sort-shuffle.min-buffers", _INT, low=1)
    sort_shuffle_min_parallelism: int = _knob(1, "taskmanager.network.sort-shuffle.min-parallelism", _INT, low=1)
    blocking_shuffle_type: str = _knob(
        "file", "taskmanager.network.blocking-shuffle.type", _WORD, words=("file", "mmap", "auto")
    )

    # Connections.
    data_port: str = _knob("0", "taskmanager.data.port", _WORD)
    data_bind_port: str | None = _knob(None, "taskmanager.data.bind-port", _WORD)
    data_ssl_enabled: bool = _knob(True, "taskmanager.data.ssl.enabled", _FLAG)
    max_num_tcp_connections: int = _knob(1, "taskmanager.network.max-num-tcp-connections", _INT, low=1)
    tcp_connection_enable_reuse_across_jobs: bool = _knob(
        True, "taskmanager.network.tcp-connection.enable-reuse-across-jobs", _FLAG
    )
    request_backoff_initial_ms: int = _knob(100, "taskmanager.network.request-backoff.initial", _INT)
    request_backoff_max_ms: int = _knob(10_000, "taskmanager.network.request-backoff.max", _INT)
    partition_request_timeout_ms: int = _knob(10_000, "taskmanager.network.partition-request-timeout", _DURATION)
    retries: int = _knob(0, "taskmanager.network.retries", _INT)
    netty_client_connect_timeout_s: int | None = _knob(None, "taskmanager.network.netty.client.connectTimeoutSec", _INT)
    netty_client_tcp_keep_idle_s: int | None = _knob(None, "taskmanager.network.netty.client.tcp.keepIdleSec", _INT)
    netty_client_tcp_keep_interval_s: int | None = _knob(
        None, "taskmanager.network.netty.client.tcp.keepIntervalSec", _INT
    )
    netty_client_tcp_keep_count: int | None = _knob(None, "taskmanager.network.netty.client.tcp.keepCount", _INT)

    dead_peer_timeout_ms: int = 10_000

    # Security: who is let in, and who can listen.
    auth: bytes | None = field(default=None, repr=False)
    tls: TlsConfig | None = None

    def __post_init__(self) -> None:
        self._check_security()
        timeout_ms = self.dead_peer_timeout_ms
        if not isinstance(timeout_ms, int) or (
            timeout_ms != 0 and not MIN_DEAD_PEER_TIMEOUT_MS <= timeout_ms <= _INT_MAX
        ):
            raise ValueError(
                f"dead_peer_timeout_ms must be 0 or an int from {MIN_DEAD_PEER_TIMEOUT_MS} to {_INT_MAX}, "
                f"got {timeout_ms!r}"
            )
        for name, knob in _KNOBS.items():
            value = getattr(self, name)
            if not knob.allows(value):
                raise ValueError(f"{name} ({knob.key}) must be {knob.range_text}, got {value!r}")
        if self.segment_size & (self.segment_size - 1):
            raise ValueError(
                f"segment_size ({_KNOBS['segment_size'].key}) must be a power of two from 4096 bytes up, "
                f"got {self.segment_size}"
            )
        self._check_order("min_segment_size", "segment_size")
        self._check_order("network_memory_min", "network_memory_max")
        self._check_order("request_backoff_initial_ms", "request_backoff_max_ms")

    def _check_security(self) -> None:
        # Never with the value: it would end up in a log.
        if self.auth is not None and not isinstance(self.auth, bytes):
            raise TypeError(f"auth must be bytes or None, got a value of type {type(self.auth).__name__}")
        if self.auth is not None and len(self.auth) < MIN_AUTH_SIZE:
            raise ValueError(f"auth must have at least {MIN_AUTH_SIZE} bytes, got {len(self.auth)}")
        if self.tls is not None and not isinstance(self.tls, TlsConfig):
            raise TypeError(f"tls must be a TlsConfig or None, got {self.tls!r}")

    def _check_order(self, lower: str, upper: str) -> None:
        low, high = getattr(self, lower), getattr(self, upper)
        if high is not None and low > high:
            raise ValueError(f"{lower} ({_KNOBS[lower].key}) must be at most {upper} = {high}, got {low}")

    @property
    def flush_timeout_ms(self) -> int:
        """What a record writer takes: milliseconds, 0 after every record, -1 only when a buffer is full."""
        return self.buffer_timeout_ms if self.buffer_timeout_enabled else -1

    def replace(self, **changes: Any) -> "NetworkConfig":
        """Return a copy with some knobs set anew, checked like a new one.

        Examples
        --------
        >>> NetworkConfig().replace(buffer_timeout_ms=0).flush_timeout_ms
        0
        """
        names = {item.name: item for item in dataclasses.fields(self)}
        unknown = sorted(changes.keys() - names.keys())
        if unknown:
            raise TypeError(f"NetworkConfig has no knob {unknown[0]!r}{_nearest(unknown[0], names)}")
        return dataclasses.replace(self, **changes)

    @classmethod
    def from_flink(cls, options: Mapping[str, object]) -> "NetworkConfig":
        """Read Flink's own keys and spellings, flat or nested as in Flink's ``config.yaml``.

        Parameters
        ----------
        options : mapping
            Values as text (``"32kb"``, ``"100 ms"``, ``"true"``) or already numbers and bools. Keys that belong
            to other parts of Flink are left alone, so a whole Flink configuration may be given.

        Warns
        -----
        UserWarning
            If a key of Flink's network stack that nothing here reads is set to something else than its default; the
            message says why it has no effect.

        Raises
        ------
        ValueError
            If a value cannot be read or is out of range, if one knob is set by two keys, or if a key of the
            network stack has no counterpart here.

        Examples
        --------
        >>> config = NetworkConfig.from_flink({
        ...     "taskmanager.network.memory.buffers-per-channel": 4,
        ...     "execution.buffer-timeout.interval": "10 ms",
        ...     "taskmanager.numberOfTaskSlots": 2,
        ... })
        >>> config.buffers_per_channel, config.buffer_timeout_ms
        (4, 10)
        """
        values: dict[str, Any] = {}
        keys: dict[str, str] = {}
        for key, text in _flatten(options):
            name = _NAMES_BY_KEY.get(key)
            if name is None:
                if key in _UNREAD:
                    if _UNREAD[key].is_set(key, text):
                        warnings.warn(f"{key} = {text!r} has no effect: {_UNREAD[key].why}", UserWarning, stacklevel=2)
                elif key.startswith(_OURS):
                    raise ValueError(f"{key} has no counterpart in flinkbuf{_nearest(key, _NAMES_BY_KEY)}")
                continue
            if name in keys:
                raise ValueError(f"{name} is set twice, by {keys[name]} and by {key}: keep one of them")
            keys[name] = key
            try:
                value = _KNOBS[name].kind.parse(text)
            except ValueError as error:
                raise ValueError(f"{name} ({key}): {error}, got {text!r}") from None
            # Flink writes "no limit" as its largest memory size.
            values[name] = None if name == "network_memory_max" and value == _UNLIMITED_BYTES else value
        return cls(**values)

    def to_flink(self) -> dict[str, str]:
        """Return all knobs that are set, by Flink key and in Flink's spelling; `from_flink` reads it back. What is no
        option of Flink, `auth`, `tls` and `dead_peer_timeout_ms`, is left out.

        Examples
        --------
        >>> NetworkConfig().to_flink()["taskmanager.memory.segment-size"]
        '32 kb'
        """
        values = {name: getattr(self, name) for name in _KNOBS}
        return {knob.key: knob.kind.format(values[name]) for name, knob in _KNOBS.items() if values[name] is not None}


@dataclass(frozen=True)
class _Unread:
    """An option of Flink's network stack that has no field here, since nothing would read it."""

    default: object
    kind: _Kind
    why: str

    def is_set(self, key: str, text: object) -> bool:
        """Whether the value is another one than Flink's default."""
        try:
            return bool(self.kind.parse(text) != self.default)
        except ValueError as error:
            raise ValueError(f"{key}: {error}, got {text!r}") from None


def _unread_options() -> dict[str, _Unread]:
    share = _Unread(0.1, _FLOAT, "memory is not shared out here; taskmanager.memory.network.min sizes the pool")
    one_thread = _Unread(-1, _INT, "one I/O thread serves all connections of a process")
    in_turn = "'rebalance' takes the channels in turn, however full they are"
    return {
        "taskmanager.memory.network.fraction": share,
        "taskmanager.network.memory.fraction": share,
        "taskmanager.network.adaptive-partitioner.enabled": _Unread(False, _FLAG, in_turn),
        "taskmanager.network.adaptive-partitioner.max-traverse-size": _Unread(4, _INT, in_turn),
        "taskmanager.network.detailed-metrics": _Unread(
            False, _FLAG, "NetworkEnvironment.metrics() tells of each channel in any case"
        ),
        "taskmanager.network.netty.num-arenas": _Unread(-1, _INT, "buffers come from one pool, which has no arenas"),
        "taskmanager.network.netty.server.numThreads": one_thread,
        "taskmanager.network.netty.client.numThreads": one_thread,
        "taskmanager.network.netty.server.backlog": _Unread(0, _INT, "128 connections may wait to be accepted"),
        "taskmanager.network.netty.sendReceiveBufferSize": _Unread(
            0, _SIZE, "the operating system sizes the buffers of its sockets by itself"
        ),
        "taskmanager.network.netty.transport": _Unread(
            "auto", _WORD, "epoll is used where there is one, poll elsewhere"
        ),
    }


def network_keys() -> dict[str, str | None]:
    """Return every key of Flink's network stack that is known here: None if it is read, else why it is not.

    Examples
    --------
    >>> network_keys()["taskmanager.memory.segment-size"] is None
    True
    >>> network_keys()["taskmanager.network.detailed-metrics"]
    'NetworkEnvironment.metrics() tells of each channel in any case'
    """
    return {**dict.fromkeys(_NAMES_BY_KEY), **{key: unread.why for key, unread in _UNREAD.items()}}


def _flatten(options: Mapping[str, object], prefix: str = "") -> list[tuple[str, object]]:
    pairs: list[tuple[str, object]] = []
    for key, value in options.items():
        pairs += _flatten(value, f"{prefix}{key}.") if isinstance(value, Mapping) else [(f"{prefix}{key}", value)]
    return pairs


def _nearest(word: str, words: Mapping[str, object]) -> str:
    close = difflib.get_close_matches(word, words, n=1)
    return f"; did you mean {close[0]}?" if close else ""


_KNOBS: dict[str, _Knob] = {
    item.name: item.metadata["knob"] for item in dataclasses.fields(NetworkConfig) if "knob" in item.metadata
}
_NAMES_BY_KEY: dict[str, str] = {key: name for name, knob in _KNOBS.items() for key in (knob.key, *knob.aliases)}
_UNREAD = _unread_options()
