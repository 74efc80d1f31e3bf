"""The program for readers."""

import json

from support.programs.program import graph_of, keyed, operator, side_output, sink, source

from flinkbuf.runtime.graph.execution_plan import draw, to_json
from flinkbuf.runtime.graph.job_graph import build_job_graph


def test_json_has_flinks_fields_and_sinks_last():
    doubled = operator("Map", source(), description="doubles")
    printed = sink(doubled, parallelism=2)
    counted = operator("Count", keyed(doubled))
    plan = json.loads(to_json(graph_of(printed, counted)))
    rows = [
        (node["id"], node["type"], node["pact"], node["contents"], node["parallelism"], node.get("predecessors"))
        for node in plan["nodes"]
    ]
    way = {"id": 2, "ship_strategy": "HASH", "side": "second"}
    assert rows == [
        (1, "Source: numbers", "Data Source", "Source: numbers", 1, None),
        (2, "Map", "Operator", "doubles", 1, [{"id": 1, "ship_strategy": "FORWARD", "side": "second"}]),
        (4, "Count", "Operator", "Count", 1, [way]),
        (3, "Sink: Print", "Data Sink", "Sink: Print", 2, [{**way, "ship_strategy": "REBALANCE"}]),
    ]


def test_json_is_printed_as_flink_prints_it():
    text = to_json(graph_of(operator('a "quoted" name', source())))
    assert '"predecessors" : [ {\n      "id" : 1,' in text
    assert '"type" : "a \\"quoted\\" name"' in text


def test_the_drawing_says_tasks_ways_and_side_outputs():
    process = operator("Process", source())
    counted = operator("Count", keyed(process), parallelism=2)
    late = sink(side_output(process, "late"), "Late", parallelism=2)
    text = draw(build_job_graph(graph_of(counted, late, job_name="flights")))
    assert text.splitlines() == [
        "flights: 3 tasks, 5 subtasks, 2 slots",
        "",
        "[1] Source: numbers -> Process  x 1",
        "",
        "[2] Count  x 2",
        "    from [1] by HASH",
        "",
        "[3] Sink: Late  x 2",
        "    from [1] by REBALANCE, side output 'late'",
    ]
