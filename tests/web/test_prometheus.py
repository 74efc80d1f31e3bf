"""What Prometheus scrapes can be read by it, whatever users call their metrics: it would refuse all for one mistake."""

import math
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from flinkbuf.runtime.picture.metric_names import NamedMetric
from flinkbuf.web import prometheus
from flinkbuf.web.prometheus import exposition_of

TASK = "taskmanager.job.task"
OPERATOR = f"{TASK}.operator"
NAME = "flink_taskmanager_job_task_operator"
SAMPLE = re.compile(r'([a-zA-Z_:][\w:]*)(?:\{((?:[a-zA-Z_]\w*="(?:[^"\\\n]|\\["\\n])*",?)*)\})? (\S+)', re.ASCII)


@pytest.fixture(autouse=True)
def _nothing_said(monkeypatch):
    monkeypatch.setattr(prometheus, "_said", set())


def metric(name, value=1, scope=OPERATOR, **labels):
    return NamedMetric(scope, name, value, labels or {"subtask_index": "0"})


def samples_of(metrics):
    """Read the text as Prometheus does: by its own parser, and by what that lets pass and the server does not."""
    text = exposition_of(metrics)
    families = list(text_string_to_metric_families(text))
    assert len({each.name for each in families}) == len(families), "a family is in one place"
    kinds, series, current = {}, set(), None
    for line in text.split("\n")[:-1]:
        if line.startswith("# HELP "):
            current = line.split(" ", 3)[2]
            assert current not in kinds
            kinds[current] = None
        elif line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            assert (name, kinds[name], kind in ("gauge", "summary")) == (current, None, True)
            kinds[name] = kind
        else:
            name, labels, value = SAMPLE.fullmatch(line).groups()
            ours = {current, f"{current}_count"} if kinds[current] == "summary" else {current}
            assert name in ours
            assert not any(
                other != current and kinds[other] == "summary" and name in (f"{other}_count", f"{other}_sum")
                for other in kinds
            )
            pairs = re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', labels or "")
            assert len({key for key, _ in pairs}) == len(pairs), "no label twice"
            key = (name, tuple(sorted(pairs)))
            assert key not in series, "no series twice"
            series.add(key)
            float(value)
    read = {
        (each.name, tuple(sorted(each.labels.items()))): each.value for family in families for each in family.samples
    }
    assert len(read) == len(series)
    return read


def warnings_of(caplog):
    return [each.getMessage() for each in caplog.records if each.levelname == "WARNING"]


def test_names_that_become_the_same_are_one_family(caplog):
    read = samples_of([metric("a.b", 1, subtask_index="0"), metric("x"), metric("a_b", 2, subtask_index="1")])
    assert read[f"{NAME}_a_b", (("subtask_index", "0"),)] == 1
    assert read[f"{NAME}_a_b", (("subtask_index", "1"),)] == 2
    assert warnings_of(caplog) == []


def test_of_two_with_the_same_labels_the_first_stays_and_that_is_said_once(caplog):
    for _ in range(3):  # it is scraped again and again
        read = samples_of([metric("a.b", 1), metric("a_b", 2), metric("a-b", 3), metric("c", 4)])
        assert sorted(read.values()) == [1, 4]
    (text,) = warnings_of(caplog)
    assert "metric 'a_b' of taskmanager.job.task.operator is left out" in text
    assert f'another metric is {NAME}_a_b{{subtask_index="0"}}, too' in text


def test_the_order_of_labels_makes_no_other_series():
    first = NamedMetric(TASK, "a", 1, {"b": "1", "c": "2"})
    second = NamedMetric(TASK, "a", 2, {"c": "2", "b": "1"})
    assert list(samples_of([first, second]).values()) == [1]


DISTRIBUTION = {"p50": 1.0, "p99": 2.5, "count": 3, "mean": 1.5}


@pytest.mark.parametrize(
    ("metrics", "said"),
    [
        ([metric("a", 7), metric("a", DISTRIBUTION)], "is a gauge already, and this is a summary"),
        ([metric("a", DISTRIBUTION), metric("a", 7)], "is a summary already, and this is a gauge"),
        ([metric("a", DISTRIBUTION), metric("a_count", 7)], f"{NAME}_a_count is a name of {NAME}_a already"),
        ([metric("a", DISTRIBUTION), metric("a_sum", 7)], f"{NAME}_a_sum is a name of {NAME}_a already"),
        ([metric("a_count", 7), metric("a", DISTRIBUTION)], f"{NAME}_a_count is a name of {NAME}_a_count already"),
        ([metric("b", 7), metric("a", 7, **{"x.y": "1", "x_y": "2"})], "two of its labels are called 'x_y'"),
        ([metric("b", 7), metric("a", DISTRIBUTION, quantile="x")], "can have no label 'quantile'"),
    ],
)
def test_what_prometheus_would_refuse_everything_for_is_left_out(metrics, said, caplog):
    kept = samples_of(metrics[:1])
    assert samples_of(metrics) == kept != {}
    (text,) = warnings_of(caplog)
    assert said in text


def test_a_family_is_not_taken_by_what_is_no_number():
    assert list(samples_of([metric("a", "text"), metric("a", None), metric("a", DISTRIBUTION)]).values()) == [1, 2.5, 3]


def test_labels_are_what_they_were():
    labels = {"task_name": 'a "b" \\ \n c', "größe": "ü", "": "empty", "1st": "x", "__own": "y", "lone": "\udcff"}
    ((_, read),) = samples_of([metric("a", 1, **labels)])
    assert dict(read) == {
        "task_name": 'a "b" \\ \n c',
        "gr__e": "ü",
        "_": "empty",
        "_1st": "x",
        "_own": "y",
        "lone": "?",
    }


class Whole(int):
    """What numpy and others have: a number that is written another way."""

    __repr__ = __str__ = lambda self: "Whole(5)"


@pytest.mark.parametrize(
    ("value", "read"),
    [(Whole(5), 5), (10**400, math.inf), (-(10**400), -math.inf), (True, 1), (2**63, 2**63), (1e-300, 1e-300)],
)
def test_numbers_are_written_as_prometheus_reads_them(value, read):
    assert list(samples_of([metric("a", value)]).values()) == [read]


def test_groups_of_a_key_and_a_value_are_one_family_with_a_label():
    read = samples_of([metric(f"kind.{each}.seen", 1, kind=each) for each in ("late", "early")])
    assert {name for name, _ in read} == {f"{NAME}_kind_seen"}


TEXTS = st.text(st.sampled_from('ab_.:-" \\\n1ä\udcff'), max_size=3)
VALUES = st.one_of(
    st.integers(),
    st.floats(),
    st.booleans(),
    st.none(),
    TEXTS,
    st.just(DISTRIBUTION),
    st.just({}),
    st.just({"count": 2}),
)
METRICS = st.builds(
    NamedMetric,
    st.sampled_from([TASK, OPERATOR]),
    st.one_of(TEXTS, st.sampled_from(["a", "a_count", "a.count", "a_sum", "operator_a"])),
    VALUES,
    st.dictionaries(st.one_of(TEXTS, st.just("quantile")), TEXTS, max_size=3),
)


@settings(max_examples=60)
@given(st.lists(METRICS, max_size=12))
def test_whatever_they_are_called_they_can_be_read(metrics):
    samples_of(metrics)
