"""What the comparison with Flink makes of changes, runs and figures; Flink itself is run by `make nexmark`."""

import math
import subprocess
import sys
import time
from decimal import Decimal

import pytest
from nexmark import compare


def test_a_changed_row_takes_the_place_of_the_earlier_one():
    changes = [
        ["+I", "a", 1],
        ["-U", "a", 1],
        ["+U", "a", 2],
        ["+I", "b", 1],
        ["-D", "b", 1],
        ["+I", "c", 3],
        ["+I", "c", 3],
    ]
    assert sorted(compare.rows_left(changes)) == [("a", 2), ("c", 3), ("c", 3)]


def test_a_change_may_be_taken_back_before_it_comes():
    assert compare.rows_left([["-U", 1], ["+I", 1], ["+I", 2]]) == [(2,)]


def test_decimals_are_equal_however_many_zeros_they_have():
    (theirs,) = compare.rows_left([["+I", {"decimal": "1.500"}]])
    assert compare.comparable("q1", [theirs]) == compare.comparable("q1", [(Decimal("1.5"),)])


def test_lines_of_files_are_equal_however_times_and_texts_are_written():
    ours = ("dt=2020-09-13/hm=12:26", '1,2,3,1600000000040,"a[b"')
    theirs = ("dt=2020-09-13/hm=12%3A26", "1,2,3,2020-09-13 12:26:40.04,a[b")
    assert compare.comparable("q10", [ours]) == compare.comparable("q10", [theirs])


@pytest.mark.parametrize(("text", "expected"), [("2020-09-13 12:26:40", 0), ("2020-09-13T12:26:40.007", 7)])
def test_times_of_files_are_milliseconds(text, expected):
    assert compare.milliseconds_of(text) == str(1_600_000_000_000 + expected)


def run(events, seconds):
    return {"events": events, "wall_s": seconds, "cpu_s": 2 * seconds, "peak_bytes": events}


def test_a_rate_is_that_between_the_sizes_by_medians():
    rounds = [[run(100, 5.0), run(400, each)] for each in (6.0, 90.0, 6.5)]
    found = compare.summarized(rounds)
    assert found == {"events_per_s": 200.0, "events_per_cpu_s": 100.0, "peak_bytes": 400}


def test_a_rate_that_noise_has_turned_round_is_no_number():
    assert math.isnan(compare.summarized([[run(100, 5.0), run(400, 4.0)]])["events_per_s"])


@pytest.mark.parametrize(
    ("events_per_s", "tried", "larger"),
    [
        (500_000, [400_000, 1_600_000], 2_000_000),
        (2_000_000, [400_000, 1_600_000, 6_400_000], 8_000_000),
        (10_000, [400_000], 400_000),
        (1e9, [400_000, 1_600_000, 6_400_000], 20_000_000),
    ],
)
def test_a_query_has_as_many_events_as_it_takes_seconds_for(monkeypatch, events_per_s, tried, larger):
    trials = []

    def trial(options, name, sizes):
        trials.append(sizes[-1])
        return [run(events, 0.6 + events / events_per_s) for events in sizes]

    monkeypatch.setattr(compare, "run_ours", trial)
    assert compare.sizes_of(compare.parsed(["q0", "--seconds", "4"]), "q0") == [larger // 4, larger]
    assert trials == tried
    assert compare.sizes_of(compare.parsed(["q0", "--events", "1000"]), "q0") == [250, 1000]


def result(ratio):
    side = {"events_per_s": 1e6, "events_per_cpu_s": 1e6, "peak_bytes": 1e6}
    return {
        "events": 4e6,
        "flinkbuf": side,
        "flink": side,
        "events_per_s_ratio": ratio,
        "events_per_cpu_s_ratio": ratio,
    }


def test_the_mean_is_geometric_and_leaves_out_the_source_and_what_is_not_known():
    results = {"src": result(100.0), "q0": result(4.0), "q1": result(0.25), "q2": result(math.nan), "q3": result(8.0)}
    assert (
        compare.summary_of(results)[0]
        == "flinkbuf, events a second: 2.00 times Flink's in the geometric mean, ahead in 2 of 3"
    )


def rates(per_s):
    return {"events_per_s": per_s, "events_per_cpu_s": per_s / 2, "peak_bytes": 1e6}


@pytest.mark.parametrize(
    ("found", "most"),
    [
        ({"flinkbuf": rates(3e6), "flink": rates(2e6)}, "flinkbuf"),
        ({"flinkbuf": rates(1e6), "columns": rates(3e6), "flink": rates(2e6)}, "flinkbuf columns"),
        ({"flinkbuf": rates(1e6), "columns": rates(3e6), "flink": rates(4e6)}, "Flink"),
        ({"flinkbuf": rates(math.nan), "flink": rates(2e6)}, "?"),
        ({"flinkbuf": rates(1e6), "columns": rates(3e6)}, "flinkbuf columns"),
    ],
)
def test_a_line_says_who_takes_most(found, most):
    line = compare.line_of("q0", {"events": 4e6, **found, **compare.ratios_of(found)})
    assert line.split("  ")[-1].strip() == most
    assert len(line) - len(most) == len(compare.HEAD.splitlines()[1]) - len("most by CPU")


def test_columns_are_compared_with_flink_and_with_records():
    found = {"flinkbuf": rates(1e6), "columns": rates(6e6), "flink": rates(2e6)}
    results = {
        "q0": {"events": 4e6, **found, **compare.ratios_of(found)},
        "q6": {"events": 4e6, "flinkbuf": rates(1e6)},
    }
    lines = compare.summary_of(results)
    assert lines[2] == "flinkbuf columns, events a second: 3.00 times Flink's in the geometric mean, ahead in 1 of 1"
    assert lines[4] == (
        "flinkbuf columns, events a second: 6.0 times those of its records in the geometric mean, 6.0 to 6.0"
    )


def test_a_query_is_run_by_those_who_can():
    options = compare.parsed(["all"])
    assert compare.contenders_of(options, "q0") == ["flinkbuf", "columns", "flink"]
    assert compare.contenders_of(options, "q6") == ["flinkbuf"]
    ours = compare.parsed(["all", "--contenders", "flinkbuf", "columns"])
    assert compare.contenders_of(ours, "src") == ["flinkbuf", "columns"]


def test_each_query_but_those_that_sql_cannot_say_has_its_text():
    texts = {path.stem for path in compare.FLINK.glob("q*.sql")}
    assert texts | set(compare.NOT_IN_SQL) == set(compare.NAMES) and not texts & set(compare.NOT_IN_SQL)


@pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")
def test_memory_of_children_is_counted():
    many = "import subprocess, sys; held = b'x' * 50_000_000; {}; sys.stdin.read()"
    child = f"subprocess.run([sys.executable, '-c', {many.format('pass')!r}])"
    process = subprocess.Popen([sys.executable, "-c", many.format(child)], stdin=subprocess.PIPE)
    try:
        until = time.monotonic() + 20
        while compare.resident_below(process.pid) < 100_000_000 and time.monotonic() < until:
            time.sleep(0.01)
        assert compare.resident_below(process.pid) >= 100_000_000
    finally:
        process.stdin.close()
        process.wait()


def test_without_jars_it_says_what_to_do(tmp_path):
    options = compare.parsed(["q0", "--flink", str(tmp_path)])
    with pytest.raises(SystemExit, match="make nexmark has both"):
        compare.java_command(options)


@pytest.mark.parametrize("run", [compare.run_ours, compare.run_columns])
def test_our_sides_of_the_comparison_run(run):
    options = compare.parsed(["q0", "--target", "embedded", "--parallelism", "1"])
    (found,) = run(options, "q0", [2_000])
    assert found["events"] == 2_000 and found["wall_s"] > 0
