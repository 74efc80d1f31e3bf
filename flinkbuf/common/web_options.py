"""What the options say to those who show a job: where it is served, and where its metrics go.

Flink: RestOptions, MetricOptions, WebOptions.
"""

from __future__ import annotations

import sys
from typing import Final

from flinkbuf.common import options
from flinkbuf.common.configuration import Configuration
from flinkbuf.config import parse_duration_ms
from flinkbuf.private_files import read_secret
from flinkbuf.web.serving import ReporterConfig, WebConfig

PROMETHEUS: Final = ("prometheus", "org.apache.flink.metrics.prometheus.PrometheusReporterFactory")
JSON: Final = ("json",)
INTERVAL_MS: Final = 10_000
_REST_KEYS: Final = (options.REST_PORT, options.REST_BIND_ADDRESS, options.REST_TOKEN, options.REST_TOKEN_FILE)


def web_config_of(configuration: Configuration, *, is_watched: bool | None = None) -> WebConfig:
    """Return whether and where a job is served, and the files that its metrics go to.

    Parameters
    ----------
    configuration : Configuration
    is_watched : bool, optional
        Whether somebody sits before it; what this process looks like by default.

    Raises
    ------
    ValueError
        A value cannot be read, or a reporter is none that there is.

    Examples
    --------
    >>> web_config_of(Configuration(), is_watched=False).is_served
    False
    >>> web_config_of(Configuration().set_string("rest.port", "8081"), is_watched=False).ports
    (8081,)
    """

    def read(option: options.Option[options.T]) -> options.T:
        return options.read(configuration, option)

    names, files, ports = [], [], read(options.REST_PORT)
    for name in dict.fromkeys(read(options.REPORTERS) or _named(configuration)):
        kind = _text(configuration, name, "factory.class")
        if kind in PROMETHEUS:
            names.append(name)
            if port := _text(configuration, name, "port"):
                ports = options.ports_of(port)
        elif kind in JSON:
            files.append(_file(configuration, name))
        else:
            known = ", ".join((*PROMETHEUS, *JSON))
            raise ValueError(f"{options.REPORTER_PREFIX}{name}.factory.class is one of {known}, got {kind!r}")
    choice = read(options.REST_ENABLED)
    is_asked = bool(names) or any(
        configuration.contains_key(key) for option in _REST_KEYS for key in (option.key, *option.fallback_keys)
    )
    is_optional = choice == "auto" and not is_asked
    is_seen = _is_interactive() if is_watched is None else is_watched
    is_served = is_seen if is_optional else choice != "off"
    token = _token(read(options.REST_TOKEN), read(options.REST_TOKEN_FILE))
    address, linger_ms = read(options.REST_BIND_ADDRESS), read(options.REST_LINGER)
    return WebConfig(is_served, ports, address, token, tuple(files), is_optional, linger_ms)


def web_settings_of(configuration: Configuration) -> dict[str, str]:
    """Return what says where a job is served, for who goes on with it; a token stays with who was given it.

    Examples
    --------
    >>> web_settings_of(Configuration.from_dict({"rest.port": "8081", "rest.token": "correct horse battery"}))
    {'rest.port': '8081'}
    """
    prefixes = ("rest.", "metrics.reporter")
    return {
        key: value
        for key, value in configuration.to_dict().items()
        if key.startswith(prefixes) and key != options.REST_TOKEN.key
    }


def _token(token: str | None, path: str | None) -> str | None:
    if path is None:
        return token
    if token is not None:
        raise ValueError(f"set {options.REST_TOKEN.key} or {options.REST_TOKEN_FILE.key}, not both")
    try:
        return options.token_of(read_secret(path))
    except (OSError, ValueError) as error:
        raise ValueError(f"{options.REST_TOKEN_FILE.key}: {error}") from error


def _named(configuration: Configuration) -> list[str]:
    """Without ``metrics.reporters`` all that something is said of."""
    keys = (key for key in configuration.key_set() if key.startswith(options.REPORTER_PREFIX))
    return sorted({key.removeprefix(options.REPORTER_PREFIX).partition(".")[0] for key in keys})


def _text(configuration: Configuration, name: str, knob: str) -> str | None:
    return configuration.get_string(f"{options.REPORTER_PREFIX}{name}.{knob}", None)


def _file(configuration: Configuration, name: str) -> ReporterConfig:
    path = _text(configuration, name, "path")
    if not path:
        raise ValueError(f"{options.REPORTER_PREFIX}{name}.path is missing: the file that its lines go to")
    interval = _text(configuration, name, "interval")
    interval_ms = INTERVAL_MS if interval is None else parse_duration_ms(interval)
    if interval_ms < 1:
        raise ValueError(f"{options.REPORTER_PREFIX}{name}.interval must be more than 0 ms")
    return ReporterConfig(name, path, interval_ms)


def _is_interactive() -> bool:
    """Whether a person sees what the program says: on a terminal, or in a notebook."""
    is_notebook = "ipykernel" in sys.modules
    return is_notebook or hasattr(sys, "ps1") or (sys.stderr is not None and sys.stderr.isatty())
