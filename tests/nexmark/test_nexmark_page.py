"""The pages say what bench/nexmark/figures.json says, and figures become what was measured."""

import json
import math

import pytest
from nexmark import page


def measured():
    def side(rate):
        return {"events_per_s": 2 * rate, "events_per_cpu_s": rate, "peak_bytes": 2.5e8, "rounds": []}

    queries = {
        "src": {"events": 4_000_000, "flinkbuf": side(1e6), "flink": side(1e6)},
        "q0": {"events": 4_000_000, "flinkbuf": side(1_234_567.0), "flink": side(2_469_134.0)},
        "q1": {"events": 400_000, "flinkbuf": side(800_000.0), "flink": side(400_000.0)},
        "q2": {"events": 400_000, "flinkbuf": side(800_000.0), "flink": side(math.nan)},
        "q6": {"events": 400_000, "flinkbuf": side(1000.0)},
    }
    machine = {"cpus": 2, "python": "3.11.7"}
    settings = {"rate": 10_000, "parallelism": 2, "rounds": 3, "target": "local", "java_options": "-Xmx4g"}
    return {**settings, "machine_before": machine, "queries": queries}


@pytest.fixture
def figures():
    return json.loads(json.dumps(page.kept_of(measured())))


def test_pages_are_what_the_figures_say():
    assert page.main(["--check"]) == 0, "run `python -m nexmark.page` in bench/ after make nexmark"


def test_three_digits_are_kept_and_what_is_not_known_is_none(figures):
    assert figures["queries"]["q0"]["flinkbuf"]["events_per_cpu_s"] == 1_230_000
    assert figures["queries"]["q2"]["flink"]["events_per_s"] is None


def test_a_line_for_each_query(figures):
    lines = {line.split(" | ")[0][2:]: line for line in page.table_of(figures).splitlines()[2:]}
    assert lines["q1"] == "| q1 | 0.4 M | 1,600 | 800 | 2.00 | 800 | 400 | 2.00 | 250 | 250 |"
    assert "| ? | nan |" in lines["q2"] and lines["q6"].endswith("| 1 |  |  | 250 |  |")


def test_means_leave_out_the_source_and_what_is_not_known(figures):
    count, (wall, ahead), (cpu, _) = page.means_of(figures)
    assert count == 3 and ahead == ["q1"]
    assert [wall, cpu] == pytest.approx([1, 1], rel=0.01)


def test_the_chart_has_a_bar_for_each_rate_that_is_known(figures):
    assert page.chart_of(figures).count('height="7"') == 8


def test_a_page_keeps_what_is_outside_its_marks():
    begin, end = page.MARKS
    text = f"before\n{begin}old\n{end}after\n"
    assert page.between_marks(page.PAGE, text, page.MARKS, "new\n") == f"before\n{begin}new\n{end}after\n"


def test_columns_are_a_third_side_once_they_were_measured(figures):
    both = figures["queries"]["q0"]
    both["columns"] = {"events_per_s": 9_876_000, "events_per_cpu_s": 4_938_000, "peak_bytes": 200_000_000}
    head, rule, _, line, *others = page.table_of(figures).splitlines()
    assert line == (
        "| q0 | 4.0 M | 2,470 | 0.50 | 9,876 | 2.00 | 4,940 | 1,230 | 0.50 | 4,938 | 2.00 | 2,470 | 250 | 200 | 250 |"
    )
    assert {text.count("|") for text in (head, rule, line, *others)} == {16}
    assert "1 of them as programs over columns: 2.00 times its events a second" in page.sentence_of(figures).replace(
        "\n", " "
    )
    assert "4.0 times those of flinkbuf's records" in page.summary_of(figures).replace("\n", " ")
    assert page.chart_of(figures).count('height="7"') == 9
