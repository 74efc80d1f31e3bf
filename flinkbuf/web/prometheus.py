"""Metrics as Prometheus scrapes them: its text format 0.0.4, with the names that Flink's reporter gives.

Names that are the same once unfit characters are gone are one family, as in Flink. Prometheus refuses all of a text
that has a series twice, or a family of two types: what came later is left out then, and that is said once.
Flink: PrometheusReporter, AbstractPrometheusReporter.
"""

from __future__ import annotations

import math
import re
import socket
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Final

from flinkbuf.log import logger
from flinkbuf.runtime.picture.job_picture import JobPicture
from flinkbuf.runtime.picture.metric_names import NamedMetric, all_metrics
from flinkbuf.runtime.protocol.messages import Json

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
SAID_MAX: Final = 1_000  # families of which it was said that something is left out
_QUANTILES: Final = {"p50": "0.5", "p75": "0.75", "p95": "0.95", "p98": "0.98", "p99": "0.99"}
_UNFIT = re.compile(r"[^a-zA-Z0-9:_]")
_UNFIT_IN_LABEL = re.compile(r"[^a-zA-Z0-9_]")
_said: set[str] = set()


def exposition(pictures: Iterable[JobPicture], figures: Mapping[str, object]) -> str:
    """Return all metrics of some jobs, and the figures of the program; what is no number is left out."""
    host = {"host": socket.gethostname()}
    of_program = (NamedMetric("jobmanager", name, value, host) for name, value in figures.items())
    return exposition_of(chain(of_program, *(all_metrics(picture) for picture in pictures)))


def exposition_of(metrics: Iterable[NamedMetric]) -> str:
    r"""Return metrics as text.

    Examples
    --------
    >>> metrics = [NamedMetric("taskmanager", name, 7, {"host": "here"}) for name in ("a.b", "c")]
    >>> print(exposition_of(metrics), end="")
    # HELP flink_taskmanager_a_b taskmanager_a_b (scope: taskmanager)
    # TYPE flink_taskmanager_a_b gauge
    flink_taskmanager_a_b{host="here"} 7
    # HELP flink_taskmanager_c taskmanager_c (scope: taskmanager)
    # TYPE flink_taskmanager_c gauge
    flink_taskmanager_c{host="here"} 7
    """
    families = _Families()
    for metric in metrics:
        name = _family_name(metric)
        try:
            families.add(name, metric)
        except _LeftOutError as why:
            if name not in _said and len(_said) < SAID_MAX:
                _said.add(name)
                logger.warning("metric %r of %s is left out for Prometheus: %s", metric.name, metric.scope, why)
    return families.text()


class _LeftOutError(Exception):
    """Prometheus would refuse everything because of this one."""


@dataclass
class _Family:
    """What has one name."""

    kind: str
    scope: str
    lines: list[str] = field(default_factory=list)
    series: set[tuple[tuple[str, str], ...]] = field(default_factory=set)


class _Families:
    """All families of a text, by name, each line among its own."""

    def __init__(self) -> None:
        self._families: dict[str, _Family] = {}
        self._owners: dict[str, str] = {}  # of the names of samples
        self._last: tuple[Mapping[str, str], str, tuple[tuple[str, str], ...]] | None = None

    def add(self, name: str, metric: NamedMetric) -> None:
        value, kind = metric.value, "summary" if isinstance(metric.value, Mapping) else "gauge"
        if kind == "gauge" and number_text(value) is None:
            return
        labels, series = self._labels(metric.labels)
        if kind == "summary" and any(key == "quantile" for key, _ in series):
            raise _LeftOutError("a distribution can have no label 'quantile'")
        family = self._family(name, kind, metric)
        if series in family.series:
            raise _LeftOutError(f"another metric is {name}{labels}, too")
        family.series.add(series)
        if kind == "summary":
            family.lines += _summary_lines(name, labels, value)
        else:
            family.lines.append(f"{name}{labels} {number_text(value)}")

    def text(self) -> str:
        texts = []
        for name, family in self._families.items():
            if family.lines:
                texts.append(f"# HELP {name} {name.removeprefix('flink_')} (scope: {family.scope})")
                texts.append(f"# TYPE {name} {family.kind}")
                texts += family.lines
        return "\n".join(texts) + "\n" if texts else ""

    def _family(self, name: str, kind: str, metric: NamedMetric) -> _Family:
        family = self._families.get(name)
        if family is None:
            samples = (name, f"{name}_count", f"{name}_sum") if kind == "summary" else (name,)
            for each in samples:
                if each in self._owners:
                    raise _LeftOutError(f"{each} is a name of {self._owners[each]} already")
            self._owners |= dict.fromkeys(samples, name)
            family = self._families[name] = _Family(kind, _UNFIT.sub("_", metric.scope))
        if family.kind != kind:
            raise _LeftOutError(f"{name} is a {family.kind} already, and this is a {kind}")
        return family

    def _labels(self, labels: Mapping[str, str]) -> tuple[str, tuple[tuple[str, str], ...]]:
        """Return them as text, and in an order of their own; the metrics of a task come one after the other."""
        if self._last is None or self._last[0] is not labels:
            pairs = _label_pairs(labels)
            self._last = (labels, _text_of(pairs), tuple(sorted(pairs.items())))
        return self._last[1:]


def _family_name(metric: NamedMetric) -> str:
    """The name without what groups of a key and a value say: that stands among the labels."""
    name = metric.name
    for key, value in metric.labels.items():
        part = f"{key}.{value}."
        if part in name:
            name = name.replace(part, f"{key}.", 1)
    return _UNFIT.sub("_", f"flink_{metric.scope}_{name}")


def _summary_lines(name: str, labels: str, value: Json) -> Iterator[str]:
    opened = labels[:-1] + "," if labels else "{"
    for part, quantile in _QUANTILES.items():
        if (number := number_text(value.get(part))) is not None:
            yield f'{name}{opened}quantile="{quantile}"}} {number}'
    if (count := number_text(value.get("count"))) is not None:
        yield f"{name}_count{labels} {count}"


def number_text(value: object) -> str | None:
    """Return a number as Prometheus reads it; None for what is none.

    Examples
    --------
    >>> number_text(3), number_text(True), number_text(float("inf")), number_text(-(10**400)), number_text("x")
    ('3', '1', '+Inf', '-Inf', None)
    """
    if not isinstance(value, (int, float)):
        return None
    try:
        number = float(value)
    except OverflowError:  # an int; Prometheus has floats only, and refuses what is none
        number = math.inf if value > 0 else -math.inf
    if not math.isfinite(number):
        return "NaN" if math.isnan(number) else "+Inf" if number > 0 else "-Inf"
    return float.__repr__(value) if isinstance(value, float) else int.__repr__(value)  # others' classes write more


def _label_pairs(labels: Mapping[str, str]) -> dict[str, str]:
    r"""Return names that Prometheus takes, and values as they stand between quotes.

    Examples
    --------
    >>> print(_text_of(_label_pairs({"task_name": 'a "b"\n', "1st key": "x"})))
    {task_name="a \"b\"\n",_1st_key="x"}
    """
    pairs: dict[str, str] = {}
    for key, value in labels.items():
        name = _UNFIT_IN_LABEL.sub("_", key) or "_"
        if name[0].isdigit() or name.startswith("__"):  # two of them are Prometheus' own
            name = "_" + name.lstrip("_")
        if name in pairs:
            raise _LeftOutError(f"two of its labels are called {name!r}")
        text = str(value)
        if not text.isascii():
            text = text.encode(errors="replace").decode()  # what cannot be written in UTF-8
        pairs[name] = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return pairs


def _text_of(pairs: Mapping[str, str]) -> str:
    return "{" + ",".join(f'{name}="{text}"' for name, text in pairs.items()) + "}" if pairs else ""
