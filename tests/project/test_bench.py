"""The benchmark harness: what it times, prints and keeps, and that the table judges right."""

import gc
import importlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).resolve().parents[2] / "bench"

pytestmark = pytest.mark.skipif(not BENCH.is_dir(), reason="the benchmarks are not part of this installation")


@pytest.fixture
def bench_module(monkeypatch):
    """Import modules of bench/, and forget them afterwards: their names are too plain to stay around."""
    names = {path.stem for path in BENCH.glob("*.py")}
    monkeypatch.syspath_prepend(str(BENCH))
    yield importlib.import_module
    for name in names & sys.modules.keys():
        del sys.modules[name]


def test_measure_prints_and_returns_one_line_of_json(bench_module, capsys):
    calls = []
    line = bench_module("measure").measure("work.contender", lambda: calls.append(1), 4, "things")
    assert json.loads(capsys.readouterr().out) == line
    assert line.keys() == {"name", "unit", "count", "rate", "ns_per_unit", "min", "median", "max"}
    assert (line["name"], line["unit"], line["count"]) == ("work.contender", "things", 4)
    assert 0 < line["min"] <= line["median"] <= line["max"]
    assert len(calls) > 7


def test_the_rate_is_that_of_the_fastest_repeat(bench_module):
    line = bench_module("measure").summarize("a.b", [0.004, 0.002, 0.009], 1000, "records")
    assert (line["rate"], line["ns_per_unit"]) == (pytest.approx(500_000), pytest.approx(2000))
    assert (line["min"], line["median"], line["max"]) == (0.002, 0.004, 0.009)


def test_measure_finds_the_time_a_call_takes(bench_module):
    import time

    line = bench_module("measure").measure("a.sleep", lambda: time.sleep(0.01), 10, "naps", repeats=2)
    assert line["ns_per_unit"] == pytest.approx(1e6, rel=0.5)
    assert line["ns_per_unit"] >= 1e6


def test_the_collector_is_off_while_the_clock_runs_and_on_again_after(bench_module):
    seen = set()
    bench_module("measure").measure("a.b", lambda: seen.add(gc.isenabled()), 1, "calls", repeats=1)
    assert False in seen
    assert gc.isenabled() and gc.get_freeze_count() == 0


def test_the_collector_is_on_again_after_an_error(bench_module):
    calls = iter([None])  # the warm-up succeeds, the first timed call does not
    with pytest.raises(StopIteration):
        bench_module("measure").measure("a.b", lambda: next(calls), 1, "calls")
    assert gc.isenabled() and gc.get_freeze_count() == 0


def test_no_units_is_an_error(bench_module):
    with pytest.raises(ValueError, match="a.b: count must be at least 1"):
        bench_module("measure").measure("a.b", lambda: None, 0, "calls")


def test_data_is_the_same_every_time_and_no_two_values_share_an_object(bench_module):
    data = bench_module("data")
    assert data.tuples(50) == data.tuples(50)
    assert data.int64s(50) == data.int64s(50)
    assert data.blobs(100, 5) == data.blobs(100, 5)
    assert {(type(a), type(b), type(c), len(b)) for a, b, c in data.tuples(50)} == {(int, str, float, 12)}
    assert len({id(text) for _, text, _ in data.tuples(50)}) <= 50 and len(set(data.tuples(50))) == 50
    assert [len(blob) for blob in data.blobs(100, 5)] == [100] * 5


def test_every_standard_rival_gives_back_what_it_was_given(bench_module):
    contenders, data = bench_module("contenders"), bench_module("data")
    works = {"tuple": data.tuples(2500), "int64": data.int64s(2500), "bytes_100": data.blobs(100, 9)}
    for work, records in works.items():
        for name, contender in contenders.standard_contenders(work).items():
            assert contenders.is_faithful(contender, records), (work, name)


def test_a_contender_that_loses_or_swaps_records_is_found_out(bench_module):
    contenders = bench_module("contenders")
    lossy = contenders.Contender(lambda records: records[1:], iter)
    swapped = contenders.Contender(lambda records: records[::-1], iter)
    assert not contenders.is_faithful(lossy, [1, 2, 3])
    assert not contenders.is_faithful(swapped, [1, 2, 3])
    assert contenders.is_faithful(swapped, [1, 2, 3], is_ordered=False)


@pytest.fixture
def table(bench_module):
    pytest.importorskip("rich", reason="the table is drawn by rich: pip install 'flinkbuf[bench]'")
    return bench_module("table")


@pytest.mark.parametrize(
    ("limits", "our_ns", "rival_ns", "is_met"),
    [
        ({"ratio": 1.2, "max_ns": 150}, 150, 180, True),
        ({"ratio": 1.2, "max_ns": 150}, 151, 500, False),
        ({"ratio": 1.2, "max_ns": 150}, 100, 119, False),
        ({"ratio": 1.2}, 100, None, None),
        ({"ratio": 1.2}, None, 100, None),
        ({"max_ns": 15}, 14, None, True),
        ({"min_rate": 200e6}, 5, 1, True),
        ({"min_rate": 200e6}, 5.1, 100, False),
        ({"max_more_ns": 30}, 130, 100, True),
        ({"max_more_ns": 30}, 131, 100, False),
        ({"max_more_ns": 30}, 131, None, None),
        ({}, 1, 100, None),
    ],
)
def test_a_target_is_met_when_every_limit_it_names_is(table, limits, our_ns, rival_ns, is_met):
    row = table.Row("work", "ours", our_ns, "rival", rival_ns, table.Target("work.ours", "work.rival", **limits))
    assert row.is_met is is_met


def test_the_table_shows_targets_quoted_rivals_and_every_other_comparison(table, tmp_path, capsys, monkeypatch):
    figures = {
        "tuple.flinkbuf_record_writer": 100.0,
        "tuple.msgspec_lists": 190.0,
        "tuple.pickle_lists": 370.0,
        "int64_write.flinkbuf_buffers": 10.0,
        "int64_write.pickle_lists": 25.0,
    }
    report = tmp_path / "bench.json"
    entries = [{"extra_info": {"lines": [{"name": name, "ns_per_unit": ns}]}} for name, ns in figures.items()]
    report.write_text(json.dumps({"benchmarks": [*entries, {"extra_info": {}}]}))
    monkeypatch.setenv("COLUMNS", "150")
    assert table.main([str(report)]) == 0
    text = capsys.readouterr().out
    shown = ["".join(line.split()).replace("│", "|") for line in text.splitlines()]
    for expected in (
        "|tuple|flinkbuf_record_writer|100|10|msgspec_lists|190|1.9|≤150ns,≥1.2×|yes|",
        "|tuple|flinkbuf_record_writer|100|10|PyFlink2.2.1(quoted)|1,235|12.3|≥8×|yes|",
        "|flights|flinkbuf_record_writer|–|–|msgspec_lists|–|–|≤330ns,≥1.3×|–|",
        "|tuple|flinkbuf_record_writer|100|10|pickle_lists|370|3.7||–|",
        "|int64_write|flinkbuf_buffers|10|100|pickle_lists|25|2.5||–|",
    ):
        assert expected in shown, text


@pytest.fixture
def readme(table, bench_module):
    return bench_module("readme")


def test_readme_shows_what_the_benchmarks_measured(readme):
    assert readme.main(["--check"]) == 0, "run: python bench/readme.py"


def test_the_figures_beside_pyflink_are_those_that_its_benchmark_makes(readme, bench_module):
    names = {name for name in readme.used_by(readme.LINES) if name.startswith("pyflink_")}
    assert names and names <= set(bench_module("bench_pyflink").CASES)


def test_the_fastest_rival_stands_beside_us_and_a_goal_that_was_missed_is_told(readme):
    figures = {
        "pyflink_count_100.flinkbuf": 500.0,
        "pyflink_count_100.pyflink_as_shipped": 690_000.0,
        "pyflink_count_100.pyflink_thread": 20_000.0,
        "exchange.flinkbuf": 500.0,
        "exchange.partition_by": 1000.0,
        "frame_wait.flinkbuf_async_map": 41_000.0,
        "frame_wait.map_in_arrow_gather": 30_750.0,
        "tuple.flinkbuf_record_writer": 103.4,
    }
    *lines, _, note = readme.table_of(figures).splitlines()[2:]
    assert note == readme.TUNED
    assert [line.split(" | ", 1)[1] for line in lines] == [
        "2 M/s | PyFlink, tuned 50,000/s | 40 ×, goal of 50 × missed |",
        "24,000/s | `Semaphore` + `gather` in `mapInArrow` 33,000/s | **0.75 ×** |",
        "2 M/s | `partitionBy` 1 M/s | 2 ×, goal of 4 × missed |",
    ]


def test_readme_without_the_marks_is_told(readme):
    with pytest.raises(ValueError, match="needs the lines '<!-- figures of make bench -->'"):
        readme.with_table("no table", "")


@pytest.mark.parametrize("content", [None, "", "{}"])
def test_a_report_that_cannot_be_read_is_told_and_does_not_fail(table, tmp_path, capsys, content):
    report = tmp_path / "bench.json"
    if content is not None:
        report.write_text(content)
    assert table.main([str(report)]) == 0
    assert f"no figures to show: {report}" in capsys.readouterr().err


def test_pytest_runs_a_benchmark_and_keeps_its_lines(tmp_path):
    report = tmp_path / "bench.json"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--smoke", f"--benchmark-json={report}"]
    done = subprocess.run(
        [*command, str(BENCH / "bench_record_batch.py")], capture_output=True, text=True, cwd=BENCH.parent, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr
    entries = json.loads(report.read_text())["benchmarks"]
    lines = {line["name"]: line for entry in entries for line in entry["extra_info"]["lines"]}
    assert {"int64_batch.flinkbuf_emit_batch", "int64_batch.numpy_big_endian"} <= lines.keys()
    assert all(line["ns_per_unit"] > 0 and line["unit"] == "records" for line in lines.values())


def test_a_benchmark_file_is_a_script_too():
    environment = {**os.environ, "FLINKBUF_BENCH_SMOKE": "1", "PYTHONPATH": str(BENCH.parent)}
    command = [sys.executable, str(BENCH / "bench_record_batch.py")]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120)
    assert done.returncode == 0, done.stderr
    names = [json.loads(text)["name"] for text in done.stdout.splitlines()]
    assert names[:2] == ["int64_batch.flinkbuf_emit_batch", "int64_batch.numpy_big_endian"]
