"""Configuration: values, their texts, and Flink's keys."""

import copy
import struct
import traceback

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flinkbuf.common import ConfigOption, ConfigOptions, Configuration
from flinkbuf.common import options as flink_options
from flinkbuf.common.configuration import default_configuration, double_text, is_sensitive, map_of, map_text
from flinkbuf.config import parse_duration_ms


def configured(**values):
    return Configuration.from_dict(values)


def test_values_are_read_as_any_kind_by_way_of_their_text():
    configuration = Configuration().set_integer("i", 3).set_boolean("b", True).set_float("f", 1)
    configuration.set_string("s", "12")
    assert [configuration.get_string(key, "") for key in "ibfs"] == ["3", "true", "1.0", "12"]
    assert configuration.get_integer("s", 0) == 12 and configuration.get_float("s", 0) == 12.0
    assert configuration.get_float("i", 0.5) == 3.0 and configuration.get_boolean("b", False) is True


def test_what_is_not_set_has_the_default():
    configuration = Configuration()
    assert configuration.get_string("k", None) is None and configuration.get_integer("k", 7) == 7
    assert configuration.get_boolean("k", True) is True and configuration.get_float("k", 2) == 2.0
    assert configuration.get_bytearray("k", bytearray(b"q")) == b"q"


@pytest.mark.parametrize("text", ["", " 12 ", "1.5", "1e3", "0x10", "true", "1_000", str(2**63), "١٢"])
def test_an_integer_is_read_strictly(text):
    with pytest.raises(ValueError, match="Could not parse value .* for key 'k'"):
        configured(k=text).get_integer("k", 1)


@pytest.mark.parametrize(("text", "value"), [("-3", -3), ("99999999999999", 99999999999999), ("+1", 1)])
def test_an_integer_may_have_a_sign_and_64_bits(text, value):
    assert configured(k=text).get_integer("k", 0) == value


@pytest.mark.parametrize("text", ["yes", "on", "1", "", " true"])
def test_a_boolean_is_true_or_false(text):
    with pytest.raises(ValueError, match="Could not parse value"):
        configured(k=text).get_boolean("k", False)
    assert configured(k="TRUE").get_boolean("k", False) is True
    assert configured(k="False").get_boolean("k", True) is False


@pytest.mark.parametrize(
    ("setter", "value"),
    [("set_string", 1), ("set_string", None), ("set_integer", "x"), ("set_integer", True), ("set_boolean", 1)],
)
def test_a_setter_refuses_what_is_not_of_its_kind(setter, value):
    configuration = Configuration()
    with pytest.raises(TypeError, match="the value of k must be"):
        getattr(configuration, setter)("k", value)
    assert not configuration.contains_key("k")


def test_an_integer_of_more_than_64_bits_is_refused_and_the_old_value_stays():
    configuration = Configuration().set_integer("k", 1)
    with pytest.raises(OverflowError, match="64 bits"):
        configuration.set_integer("k", 2**63)
    assert configuration.get_integer("k", 0) == 1


def test_bytes_are_kept_as_bytes():
    configuration = Configuration().set_bytearray("k", bytearray(b"ab"))
    assert configuration.get_bytearray("k", bytearray()) == bytearray(b"ab")
    assert configuration.to_dict() == {"k": "!!binary |-\n  YWI="}
    with pytest.raises(ValueError, match="byte"):
        configured(k="ab").get_bytearray("k", bytearray())


def test_configurations_are_copied_compared_merged_and_printed():
    one = configured(b="2", a="1")
    other = Configuration(one).set_string("a", "3")
    assert one.to_dict() == {"a": "1", "b": "2"} and str(one) == "{a=1, b=2}"
    assert one == configured(a="1", b="2") and hash(one) == hash(copy.deepcopy(one))
    assert one != other and Configuration() != one and one != {"a": "1", "b": "2"}
    assert Configuration().add_all(one, "p.").key_set() == {"p.a", "p.b"}
    target = {}
    Configuration().set_integer("i", 3).add_all_to_dict(target)
    assert target == {"i": 3}


def test_removing_tells_whether_there_was_something():
    configuration = configured(a="1")
    assert configuration.remove_config("a") and not configuration.remove_config("a")


@pytest.mark.parametrize(
    ("text", "elements"),
    [(None, []), ("", []), ("a;b", ["a", "b"]), ("[a, b]", ["a", "b"]), ("['a', \"b\"]", ["a", "b"]), ("[]", [])],
)
def test_lists_have_two_forms(text, elements):
    assert Configuration.parse_list_value(text) == elements


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.1, "0.1"),
        (1e20, "1.0E20"),
        (1e7, "1.0E7"),
        (1e-5, "1.0E-5"),
        (100.0, "100.0"),
        (123456.789, "123456.789"),
        (float("inf"), "Infinity"),
        (-float("inf"), "-Infinity"),
        (float("nan"), "NaN"),
        (-0.0, "-0.0"),
    ],
)
def test_floats_are_written_as_in_java(value, text):
    assert double_text(value) == text


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_the_text_of_a_float_is_that_float(value):
    assert struct.pack(">d", float(double_text(value))) == struct.pack(">d", value)


def test_times_are_read_as_those_of_the_network_stack():
    for option in (flink_options.CHECKPOINT_INTERVAL, flink_options.HEARTBEAT_TIMEOUT, flink_options.FIXED_DELAY):
        assert option.read is parse_duration_ms
    configuration = Configuration().set_string("heartbeat.timeout", "1500 ns")
    with pytest.raises(ValueError, match="value '1500 ns' for key 'heartbeat.timeout': .* whole number of millisec"):
        flink_options.read(configuration, flink_options.HEARTBEAT_TIMEOUT)


@given(st.dictionaries(st.text(min_size=1), st.text()))
def test_maps_are_read_as_they_were_written(pairs):
    assert map_of(map_text(pairs)) == pairs


def test_a_map_may_be_written_by_hand():
    assert map_of("{a: 1, b: 'x:y'}") == {"a": "1", "b": "x:y"}
    with pytest.raises(ValueError, match="is no map"):
        map_of("a")


def test_an_option_is_found_by_its_older_names_too():
    assert flink_options.read(configured(**{"execution.buffer-timeout": "5 ms"}), flink_options.BUFFER_TIMEOUT) == 5
    assert flink_options.read(Configuration(), flink_options.BUFFER_TIMEOUT) == 100


def test_keys_without_effect_are_named_with_their_reason():
    keys = ["parallelism.default", "execution.checkpointing.interval", "restart-strategy.type", "taskmanager.foo"]
    keys += ["pipeline.jars", "taskmanager.numberOfTaskSlots", "taskmanager.network.detailed-metrics"]
    keys += ["state.backend.rocksdb.block.cache-size", "state.changelog.enabled"]
    keys += ["state.backend", "state.backend.incremental", "state.backend.rocksdb.localdir"]
    keys += ["execution.checkpointing.storage", "execution.checkpointing.unaligned.forced"]
    without = flink_options.keys_without_effect(keys, "local")
    assert without == [
        "execution.checkpointing.unaligned.forced (for iterations, which there are none of)",
        "pipeline.jars (there is no JVM that could load them)",
        "state.backend.rocksdb.block.cache-size (the state backends here have no such knob)",
        "state.changelog.enabled (state is written at checkpoints only)",
        "taskmanager.foo",
        "taskmanager.network.detailed-metrics (NetworkEnvironment.metrics() tells of each channel in any case)",
        "taskmanager.numberOfTaskSlots (a task manager has one slot, so that subtasks do not share an interpreter)",
    ]


def test_knobs_of_the_network_act_where_there_is_one():
    keys = ["taskmanager.memory.segment-size", "taskmanager.data.port", "execution.buffer-timeout"]
    assert flink_options.keys_without_effect(keys, "spark") == []
    assert flink_options.keys_without_effect(keys, "embedded") == [
        "taskmanager.data.port (the whole job runs in the program's process)",
        "taskmanager.memory.segment-size (the whole job runs in the program's process)",
    ]


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        ("execution.target", "Local", "local"),
        ("restart-strategy", "off", "none"),
        ("restart-strategy.type", "FixedDelay", "fixed-delay"),
        ("restart-strategy.fixed-delay.attempts", "0", 0),
        ("restart-strategy.exponential-delay.backoff-multiplier", "1.01", 1.01),
        ("restart-strategy.exponential-delay.jitter-factor", "1", 1.0),
        ("taskmanager.memory.managed.size", "1 mb", 1024**2),
        ("python.files", "a.py, b.py,", ("a.py", "b.py")),
        ("pipeline.progress", "TRUE", "on"),
    ],
)
def test_options_of_jobs_are_read(key, text, value):
    option = next(each for each in flink_options.OPTIONS.values() if key in (each.key, *each.fallback_keys))
    assert flink_options.read(configured(**{key: text}), option) == value


@pytest.mark.parametrize(
    ("key", "text", "reason"),
    [
        ("execution.target", "yarn-session", "it is one of embedded, local, spark, got 'yarn-session'"),
        ("restart-strategy.type", "sometimes", "it is one of none, off, disable, fixed-delay"),
        ("restart-strategy.fixed-delay.attempts", "-1", "must not be negative"),
        ("restart-strategy.failure-rate.max-failures-per-interval", "0", "at least 1"),
        ("restart-strategy.exponential-delay.backoff-multiplier", "1", "more than 1"),
        ("restart-strategy.exponential-delay.jitter-factor", "1.1", "from 0 to 1"),
        ("taskmanager.memory.managed.size", "much", "memory size"),
        ("pipeline.progress", "maybe", "it is one of auto, true, false"),
    ],
)
def test_values_that_make_no_sense_are_refused_with_what_would(key, text, reason):
    with pytest.raises(ValueError, match=reason):
        flink_options.read(configured(**{key: text}), flink_options.OPTIONS[key])


@pytest.mark.parametrize(
    ("text", "pairs"),
    [
        ("", {}),
        ("a: 1", {"a": "1"}),
        ("a: 1; b:2;", {"a": "1", "b": "2"}),
        ("# defaults\na: x;y\n\n b : 2:3 \n", {"a": "x;y", "b": "2:3"}),
    ],
)
def test_defaults_of_a_process_come_from_its_environment(monkeypatch, text, pairs):
    monkeypatch.setenv("FLINKBUF_PROPERTIES", text)
    assert default_configuration().to_dict() == pairs


def test_a_default_that_is_no_pair_is_refused(monkeypatch):
    monkeypatch.setenv("FLINKBUF_PROPERTIES", "a: 1; nothing")
    with pytest.raises(ValueError, match="FLINKBUF_PROPERTIES needs 'key: value', got 'nothing'"):
        default_configuration()


def test_options_of_a_program_have_a_kind_and_a_default():
    option = ConfigOptions.key("k").int_type().default_value(3)
    assert option == ConfigOption("k", int, 3) and "Key: 'k'" in str(option)
    kinds = [getattr(ConfigOptions.key("k"), f"{name}_type")() for name in ("boolean", "long", "float", "string")]
    assert [each.no_default_value().kind for each in kinds] == [bool, int, float, str]
    assert ConfigOptions.key("k").double_type().default_value(1.5).default_value == 1.5


@pytest.mark.parametrize("key", ["execution.runtime-mode", "execution.checkpointing.mode"])
def test_a_name_that_is_none_of_an_option_s_is_refused_with_those_there_are(key):
    with pytest.raises(ValueError, match=f"Could not parse value 'FOO' for key '{key}'") as caught:
        flink_options.read(configured(**{key: "FOO"}), flink_options.OPTIONS[key])
    assert "it is one of" in str(caught.value.__cause__)
    for name in ("streaming", "AT_LEAST_ONCE"):
        if name.upper() in str(caught.value.__cause__):
            assert flink_options.read(configured(**{key: name}), flink_options.OPTIONS[key]) == name.upper()


# ---- secrets

FLINKS = [
    "password",
    "secret",
    "fs.azure.account.key",
    "apikey",
    "api-key",
    "auth-params",
    "service-key",
    "token",
    "basic-auth",
]
FLINKS += ["jaas.config", "http-headers"]


@pytest.mark.parametrize("word", FLINKS)
def test_what_flink_hides_is_hidden_in_texts_and_errors(word):
    key = f"my.{word.upper()}.store"
    assert is_sensitive(key)
    configuration = configured(**{key: "12345x", "user": "ada"})
    assert configuration.shown() == {key: "******", "user": "ada"}
    assert "12345x" not in str(configuration) + repr(configuration)
    assert configuration.to_dict()[key] == configuration.get_string(key, "") == "12345x", "who reads it gets it"
    with pytest.raises(ValueError, match="Could not parse value '\\*") as caught:
        configuration.get_integer(key, 1)
    assert "12345x" not in "".join(traceback.format_exception(caught.value))
    with pytest.raises(TypeError, match="must be int, got a str") as wrong:
        Configuration().set_integer(key, "12345x")
    assert "12345x" not in str(wrong.value)


def test_secrets_among_the_parameters_of_a_job_are_hidden():
    key = flink_options.GLOBAL_JOB_PARAMETERS.key
    pairs = {"user": "ada", "db.password": "it's 12345x", "a,b": "c"}
    configuration = configured(**{key: map_text(pairs)})
    assert map_of(configuration.shown()[key]) == {**pairs, "db.password": "******"}
    assert "12345x" not in str(configuration)
    broken = configured(**{key: "password 12345x"})
    assert broken.shown() == {key: "******"}
    with pytest.raises(ValueError, match="for key 'pipeline.global-job-parameters'") as caught:
        flink_options.read(broken, flink_options.GLOBAL_JOB_PARAMETERS)
    assert "12345x" not in "".join(traceback.format_exception(caught.value))


def test_a_token_that_is_refused_is_not_repeated(monkeypatch):
    with pytest.raises(ValueError, match=r"key 'rest.token': it has at least 16") as caught:
        flink_options.read(configured(**{"rest.token": "12345x"}), flink_options.REST_TOKEN)
    assert "12345x" not in str(caught.value)
    monkeypatch.setenv("FLINKBUF_PROPERTIES", "rest.token=12345x")
    with pytest.raises(ValueError, match="needs 'key: value'") as caught:
        default_configuration()
    assert "12345x" not in str(caught.value)
