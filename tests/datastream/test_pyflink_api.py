"""Every name, method and argument of PyFlink 2.2.1's DataStream API is here, under the same module path.

`pyflink_api.json` was written by `inspect` from the installed package: module, class, method, arguments with simple
defaults; what takes or gives handles of Java objects was left out.
"""

import ast
import inspect
import json
from importlib import import_module
from pathlib import Path

import pytest

API = json.loads(Path(__file__).with_name("pyflink_api.json").read_text())
CLASSES = [(module, name) for module, classes in API["modules"].items() for name in classes]
NAMES = [(package, name) for package, names in API["exports"].items() for name in names]

# Methods whose arguments are not PyFlink's, and why. A line that is no longer needed fails.
OTHERWISE = {
    "datastream.functions.SinkFunction.__init__": "it may be derived from: what it wraps has a default",
    "datastream.functions.SourceFunction.__init__": "it may be derived from: what it wraps has a default",
    "datastream.slot_sharing_group.MemorySize.__init__": "PyFlink's takes a Java object",
    "datastream.window.ContinuousEventTimeTrigger.register_next_fire_timestamp": "a step inside of the trigger",
    "datastream.window.ContinuousProcessingTimeTrigger.register_next_fire_timestamp": "a step inside of the trigger",
    "datastream.window.TimeWindow.__init__": "compiled: it shows no names, but takes start and end",
    **{
        f"common.typeinfo.{name}TypeInfo.{method}_internal_type": "values are obj, for every type"
        for name in ("Date", "Time", "Timestamp")
        for method in ("to", "from")
    },
    "common.types.Row.of_kind": "the kind is given by position, so that a field may be called row_kind",
    "common.time.Instant.__init__": "nanos may be left out",
    "common.restart_strategy.RestartStrategies.FailureRateRestartStrategyConfiguration.__init__": "None is refused",
    "common.restart_strategy.RestartStrategies.FixedDelayRestartStrategyConfiguration.__init__": "None is refused",
}


def find(module, name):
    found = import_module(f"flinkbuf.{module}")
    for part in name.split("."):
        found = getattr(found, part)
    return found


def arguments_of(function):
    stars = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    return [
        stars.get(each.kind, "") + each.name + default_of(each)
        for each in inspect.signature(function).parameters.values()
        if each.name not in ("self", "cls")
    ]


def default_of(parameter):
    if parameter.default is parameter.empty:
        return ""
    is_simple = isinstance(parameter.default, (int, float, str, bool, type(None)))
    return f"={parameter.default!r}" if is_simple else "=..."


def differs(ours, theirs):
    """Ours may have more arguments, but none that has to be given; nobody sees how *args is called."""
    ours, theirs = (
        [each.rstrip("abcdefghijklmnopqrstuvwxyz_") if each[0] == "*" else each for each in both]
        for both in (ours, theirs)
    )
    more = ours[len(theirs) :]
    return ours[: len(theirs)] != theirs or any("=" not in each and "*" not in each for each in more)


@pytest.mark.parametrize(("module", "name"), CLASSES, ids=lambda part: part)
def test_class_has_pyflinks_methods_and_arguments(module, name):
    found = find(module, name)
    wrong = {}
    for method, theirs in API["modules"][module][name].items():
        path = f"{module}.{name}.{method}"
        if not hasattr(found, method):
            wrong[path] = "missing"
        elif isinstance(theirs, list):
            is_made_by_new = method == "__init__" and found.__init__ is object.__init__
            ours = arguments_of(found if is_made_by_new else getattr(found, method))
            if differs(ours, theirs):
                wrong[path] = f"{ours}, PyFlink: {theirs}"
    expected = {path for path in OTHERWISE if path.rpartition(".")[0] == f"{module}.{name}"}
    assert {path: text for path, text in wrong.items() if path not in expected} == {}
    assert expected <= set(wrong), "no longer otherwise: take the line away"


@pytest.mark.parametrize(("package", "name"), NAMES)
def test_package_exports_pyflinks_names(package, name):
    module = import_module(f"flinkbuf.{package}")
    assert name in module.__all__ and name in dir(module)
    assert getattr(module, name).__name__ == name


@pytest.mark.parametrize("package", ["common", "datastream", "datastream.connectors"])
def test_type_checkers_are_told_the_same_names(package):
    module = import_module(f"flinkbuf.{package}")
    stub = ast.parse(Path(module.__file__).with_suffix(".pyi").read_text())
    imports = [node for node in stub.body if isinstance(node, ast.ImportFrom)]
    told = {alias.asname: node.module for node in imports for alias in node.names}
    assert {name: each for name, each in told.items() if name in module._MODULE_OF} == module._MODULE_OF
    assert all(hasattr(module, name) for name in told)


@pytest.mark.parametrize("package", ["common", "datastream"])
def test_a_name_that_is_not_there_is_an_attribute_error(package):
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        import_module(f"flinkbuf.{package}").Nothing


def test_a_missing_method_or_argument_would_be_found():
    assert differs(["a"], ["a", "b"]) and differs(["b", "a"], ["a", "b"]) and differs(["a=1"], ["a"])
    assert differs(["a", "b"], ["a"]) and not differs(["a", "b=1", "*c"], ["a"])
