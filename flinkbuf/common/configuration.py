"""Keys and values: what a program, a file or a command line says about how a job shall run.

Flink: Configuration, whose values keep the type they were set with and are read as another one by way of their text.
"""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import TypeVar

T = TypeVar("T")
PROPERTIES_VARIABLE = "FLINKBUF_PROPERTIES"
JOB_PARAMETERS = "pipeline.global-job-parameters"
HIDDEN = "******"
_SENSITIVE = (
    "password",
    "secret",
    "fs.azure.account.key",
    "apikey",
    "api-key",
    "auth-params",
    "service-key",
    "token",
    "basic-auth",
    "jaas.config",
    "http-headers",
)


def is_sensitive(key: str) -> bool:
    """Tell whether the value of a key is shown to nobody. Flink's ``GlobalConfiguration.isSensitive``.

    Examples
    --------
    >>> is_sensitive("s3.secret-key"), is_sensitive("my.Password"), is_sensitive("parallelism.default")
    (True, True, False)
    """
    lower = key.lower()
    return any(word in lower for word in _SENSITIVE)


def hide_sensitive_values(pairs: Mapping[str, str]) -> dict[str, str]:
    """Return pairs as they may be shown. Flink's ``ConfigurationUtils.hideSensitiveValues``.

    Examples
    --------
    >>> hide_sensitive_values({"user": "ada", "password": "12345"})
    {'user': 'ada', 'password': '******'}
    """
    return {key: HIDDEN if is_sensitive(key) else value for key, value in pairs.items()}


_PART = r"""\s*("(?:[^"]|"")*"|'(?:[^']|'')*'|[^,:'"{}]+?)\s*"""
_PAIR = re.compile(_PART + ":" + r"""\s*("(?:[^"]|"")*"|'(?:[^']|'')*'|[^,'"{}]*?)\s*(?:,|$)""")


def double_text(value: float) -> str:
    """Write a float as Java's ``Double.toString`` does: ``0.1``, ``1.0E20``, ``NaN``."""
    if value != value or value in (float("inf"), float("-inf")):
        return "NaN" if value != value else f"{'-' if value < 0 else ''}Infinity"
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(float(value))
    mantissa, _, power = f"{Decimal(repr(float(value))).normalize():e}".partition("e")
    return f"{mantissa if '.' in mantissa else mantissa + '.0'}E{int(power)}"


def value_text(value: object) -> str:
    """Write a value as Flink's configuration files have it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return double_text(value)
    if isinstance(value, (bytes, bytearray)):
        return f"!!binary |-\n  {base64.b64encode(value).decode()}"
    return str(value)


def boolean_of(text: str) -> bool:
    """Read true or false, in any case."""
    if text.lower() not in ("true", "false"):
        raise ValueError(f"Unrecognized option for boolean: {text}. Expected either true or false(case insensitive)")
    return text.lower() == "true"


def integer_of(text: str) -> int:
    """Read a whole number of 64 bits."""
    if not re.fullmatch(r"[+-]?[0-9]+", text) or not -(2**63) <= int(text) < 2**63:
        raise ValueError(f'For input string: "{text}"')
    return int(text)


def float_of(text: str) -> float:
    """Read a number."""
    if "_" in text:
        raise ValueError(f'For input string: "{text}"')
    return float(text)


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


def unreadable(key: str, text: str, cause: ValueError, why: str = "") -> ValueError:
    """Return the error about a value that is not of its key's kind. Of a secret neither it nor its cause says anything.

    Examples
    --------
    >>> unreadable("heartbeat.interval", "soon", ValueError("'soon' is no time"), ": it is no time")
    ValueError("Could not parse value 'soon' for key 'heartbeat.interval': it is no time")
    >>> unreadable("my.password", "12345", ValueError("'12345' is too short"))
    ValueError("Could not parse value '******' for key 'my.password'.")
    """
    is_hidden = is_sensitive(key) or (key == JOB_PARAMETERS and is_sensitive(text))
    said = why if not (is_hidden and text in why) else ""
    error = ValueError(f"Could not parse value '{HIDDEN if is_hidden else text}' for key '{key}'{said or '.'}")
    error.__cause__ = None if is_hidden else cause
    return error


class Configuration:
    """Settings by Flink's keys. Flink's ``Configuration``.

    Parameters
    ----------
    other : Configuration, optional
        What it holds is copied.

    Examples
    --------
    >>> configuration = Configuration().set_integer("parallelism.default", 4)
    >>> configuration.set_string("pipeline.name", "flights").get_string("parallelism.default", "1")
    '4'
    >>> print(configuration)
    {parallelism.default=4, pipeline.name=flights}
    """

    __slots__ = ("_values",)

    def __init__(self, other: Configuration | None = None) -> None:
        self._values: dict[str, object] = {} if other is None else dict(other._values)

    @staticmethod
    def from_dict(map: Mapping[str, str]) -> Configuration:
        """Make a configuration of keys and their texts."""
        configuration = Configuration()
        for key, value in map.items():
            configuration.set_string(key, value)
        return configuration

    def get_string(self, key: str, default_value: str | None) -> str | None:
        """Return the text of a value."""
        return value_text(self._values[key]) if key in self._values else default_value

    def set_string(self, key: str, value: str) -> Configuration:
        """Set a text, which the other getters read as what they give."""
        return self._set(key, value, str)

    def get_integer(self, key: str, default_value: int | None) -> int | None:
        """Return a whole number."""
        return self._get(key, default_value, integer_of)

    def set_integer(self, key: str, value: int) -> Configuration:
        """Set a whole number of 64 bits."""
        if isinstance(value, int) and not -(2**63) <= value < 2**63:
            raise OverflowError(f"the value of {key} has more than 64 bits: {value}")
        return self._set(key, value, int)

    def get_boolean(self, key: str, default_value: bool | None) -> bool | None:
        """Return true or false."""
        return self._get(key, default_value, boolean_of)

    def set_boolean(self, key: str, value: bool) -> Configuration:
        """Set true or false."""
        return self._set(key, value, bool)

    def get_float(self, key: str, default_value: float) -> float:
        """Return a number."""
        return self._get(key, float(default_value), float_of)

    def set_float(self, key: str, value: float) -> Configuration:
        """Set a number."""
        return self._set(key, float(value), float)

    def get_bytearray(self, key: str, default_value: bytearray) -> bytearray:
        """Return bytes; they must have been set as such."""
        value = self._values.get(key, default_value)
        if not isinstance(value, (bytes, bytearray)):
            raise ValueError(f"Configuration cannot evaluate value {value_text(value)} as a byte[] value")
        return bytearray(value)

    def set_bytearray(self, key: str, value: bytearray) -> Configuration:
        """Set bytes."""
        return self._set(key, value, (bytes, bytearray), bytes)

    @staticmethod
    def parse_list_value(value: str | None) -> list[str]:
        """Read a list: ``[a, b]`` or ``a;b``; nothing gives an empty one."""
        if not value:
            return []
        inner = value.strip()
        if inner.startswith("[") and inner.endswith("]"):
            elements = [each.strip() for each in inner[1:-1].split(",")]
            return [each.strip("'\"") for each in elements if each]
        return value.split(";")

    def key_set(self) -> set[str]:
        """Return all keys."""
        return set(self._values)

    def add_all_to_dict(self, target_dict: dict[str, object]) -> None:
        """Put all keys into a dict, each value as it was set."""
        target_dict.update(self._values)

    def add_all(self, other: Configuration, prefix: str | None = None) -> Configuration:
        """Take over all keys of another configuration, each after `prefix`."""
        self._values.update({(prefix or "") + key: value for key, value in other._values.items()})
        return self

    def contains_key(self, key: str) -> bool:
        """Tell whether the key is set."""
        return key in self._values

    def to_dict(self) -> dict[str, str]:
        """Return keys and the texts of their values."""
        return {key: value_text(value) for key, value in self._values.items()}

    def shown(self) -> dict[str, str]:
        """Return keys and texts as they may be shown: secrets are hidden, those among a job's parameters, too.

        Examples
        --------
        >>> Configuration().set_string("rest.token", "correct horse").shown()
        {'rest.token': '******'}
        """
        pairs = self.to_dict()
        if JOB_PARAMETERS in pairs:
            try:
                pairs[JOB_PARAMETERS] = map_text(hide_sensitive_values(map_of(pairs[JOB_PARAMETERS])))
            except ValueError:  # it is no map: whoever reads it is told so
                pairs[JOB_PARAMETERS] = HIDDEN
        return hide_sensitive_values(pairs)

    def remove_config(self, key: str) -> bool:
        """Unset a key; tells whether it was set."""
        return self._values.pop(key, None) is not None

    def _set(
        self, key: str, value: object, kind: type | tuple[type, ...], convert: Callable[..., object] | None = None
    ) -> Configuration:
        if not isinstance(key, str):
            raise TypeError(f"a configuration key is a str, got {key!r}")
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            wanted = " or ".join(each.__name__ for each in (kind if isinstance(kind, tuple) else (kind,)))
            shown = f"a {type(value).__name__}" if is_sensitive(key) else repr(value)
            raise TypeError(f"the value of {key} must be {wanted}, got {shown}")
        self._values[key] = convert(value) if convert else value
        return self

    def _get(self, key: str, default_value: T, read: Callable[[str], T]) -> T:
        if key not in self._values:
            return default_value
        text = value_text(self._values[key])
        try:
            return read(text)
        except ValueError as error:
            failure = unreadable(key, text, error)
        raise failure

    def __deepcopy__(self, memo: object = None) -> Configuration:
        return Configuration(self)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Configuration) and self.to_dict() == other.to_dict()

    def __hash__(self) -> int:
        return hash(frozenset(self.to_dict().items()))

    def __str__(self) -> str:
        return "{" + ", ".join(f"{key}={value}" for key, value in sorted(self.shown().items())) + "}"

    def __repr__(self) -> str:
        return f"Configuration({self})"


def default_configuration() -> Configuration:
    """Return what holds for every program of this process: the pairs in the variable FLINKBUF_PROPERTIES.

    They are ``key: value``, one a line, or separated by semicolons where it is one line; lines that begin with ``#``
    are left out. ``python -m flinkbuf run`` writes them there. Flink: the properties of ``FLINK_PROPERTIES``.

    Raises
    ------
    ValueError
        If a line is no such pair.
    """
    text = os.environ.get(PROPERTIES_VARIABLE, "")
    lines = text.splitlines() if "\n" in text else text.split(";")
    configuration = Configuration()
    for line in lines:
        key, colon, value = line.strip().partition(":")
        if not line.strip() or line.strip().startswith("#"):
            continue
        if not (colon and key.strip()):
            got = HIDDEN if is_sensitive(line) else repr(line.strip())
            raise ValueError(f"the environment variable {PROPERTIES_VARIABLE} needs 'key: value', got {got}")
        configuration.set_string(key.strip(), value.strip())
    return configuration
