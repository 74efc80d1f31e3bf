"""Descriptors and time to live, as programs for PyFlink write them."""

import pickle

import pytest
from support.models.aggregates import Total

from flinkbuf.streaming.state.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from flinkbuf.streaming.state.state_ttl import StateTtlConfig
from flinkbuf.types.duration import Duration, Time
from flinkbuf.types.types import Types


def test_descriptors_name_and_type_their_state():
    assert ValueStateDescriptor("v", Types.LONG()).type_info == Types.LONG()
    assert ListStateDescriptor("l", Types.LONG()).type_info == Types.LIST(Types.LONG())
    assert MapStateDescriptor("m", Types.STRING(), Types.LONG()).type_info == Types.MAP(Types.STRING(), Types.LONG())
    assert ReducingStateDescriptor("r", max, Types.LONG()).get_reduce_function() is max
    function = Total()
    assert AggregatingStateDescriptor("a", function, Types.LONG()).get_agg_function() is function
    assert [each("x", None).get_name() for each in (ValueStateDescriptor, ListStateDescriptor)] == ["x", "x"]


@pytest.mark.parametrize("name", ["", None, 5])
def test_a_state_has_a_name(name):
    with pytest.raises(TypeError, match="the name of a state is a string"):
        ValueStateDescriptor(name, Types.LONG())


@pytest.mark.parametrize("type_info", [int, "INT", 5])
def test_a_state_has_a_type_of_flink_s(type_info):
    with pytest.raises(TypeError, match="the type of the state 'v' must be a TypeInformation"):
        ValueStateDescriptor("v", type_info)


def test_functions_are_looked_at_when_they_are_named():
    with pytest.raises(TypeError, match="must be a ReduceFunction or a callable function!"):
        ReducingStateDescriptor("r", 5, Types.LONG())
    with pytest.raises(TypeError, match="must be an AggregateFunction with create_accumulator"):
        AggregatingStateDescriptor("a", max, Types.LONG())


def test_a_descriptor_travels_with_its_time_to_live():
    descriptor = ValueStateDescriptor("v", Types.LONG())
    descriptor.enable_time_to_live(StateTtlConfig.new_builder(Time.seconds(5)).build())
    again = pickle.loads(pickle.dumps(descriptor))
    assert (again.name, again.type_info, again.ttl_config.get_ttl()) == ("v", Types.LONG(), Time.seconds(5))
    with pytest.raises(TypeError, match="expected a StateTtlConfig, got 5"):
        descriptor.enable_time_to_live(5)


def test_the_defaults_are_flink_s():
    config = StateTtlConfig.new_builder(Time.seconds(1)).build()
    cleanup = config.get_cleanup_strategies()
    incremental = cleanup.get_incremental_cleanup_strategy()
    assert (
        config.get_update_type(),
        config.get_state_visibility(),
        config.get_ttl_time_characteristic(),
        config.is_enabled(),
        cleanup.is_cleanup_in_background(),
        cleanup.in_full_snapshot(),
        incremental.get_cleanup_size(),
        incremental.run_cleanup_for_every_record(),
        cleanup.get_rocksdb_compact_filter_cleanup_strategy().get_query_time_after_num_entries(),
    ) == (
        StateTtlConfig.UpdateType.OnCreateAndWrite,
        StateTtlConfig.StateVisibility.NeverReturnExpired,
        StateTtlConfig.TtlTimeCharacteristic.ProcessingTime,
        True,
        True,
        False,
        5,
        False,
        1000,
    )


def test_everything_can_be_set():
    builder = StateTtlConfig.new_builder(Time.seconds(1)).set_ttl(Duration.of_seconds(2)).use_processing_time()
    builder = builder.update_ttl_on_read_and_write().return_expired_if_not_cleaned_up()
    builder = builder.cleanup_full_snapshot().cleanup_incrementally(10, True).cleanup_in_rocksdb_compact_filter(7)
    config = builder.disable_cleanup_in_background().build()
    cleanup = config.get_cleanup_strategies()
    assert config.get_ttl() == Duration.of_seconds(2) and cleanup.in_full_snapshot()
    assert config.get_update_type() is StateTtlConfig.UpdateType.OnReadAndWrite
    assert config.get_state_visibility() is StateTtlConfig.StateVisibility.ReturnExpiredIfNotCleanedUp
    assert cleanup.get_incremental_cleanup_strategy().get_cleanup_size() == 10
    assert cleanup.get_incremental_cleanup_strategy().run_cleanup_for_every_record()
    compaction = cleanup.get_rocksdb_compact_filter_cleanup_strategy()
    assert compaction.get_periodic_compaction_time() == Duration.of_days(30)
    assert repr(config) == (
        "StateTtlConfig(PT2S, UpdateType.OnReadAndWrite, StateVisibility.ReturnExpiredIfNotCleanedUp, "
        "TtlTimeCharacteristic.ProcessingTime)"
    )
    assert repr(pickle.loads(pickle.dumps(config))) == repr(config)


def test_nothing_is_cleaned_up_in_the_background_if_that_is_switched_off():
    cleanup = (
        StateTtlConfig.new_builder(Time.seconds(1)).disable_cleanup_in_background().build().get_cleanup_strategies()
    )
    assert cleanup.get_incremental_cleanup_strategy() is None
    assert cleanup.get_rocksdb_compact_filter_cleanup_strategy() is None


def test_a_disabled_time_to_live_is_none():
    descriptor = ValueStateDescriptor("v", None)
    builder = StateTtlConfig.new_builder(Time.seconds(1)).set_update_type(StateTtlConfig.UpdateType.Disabled)
    descriptor.enable_time_to_live(builder.build())
    assert descriptor.ttl_config is None


@pytest.mark.parametrize("ttl", [Time.milliseconds(0), Time.milliseconds(-1)])
def test_a_time_to_live_is_positive(ttl):
    with pytest.raises(ValueError, match="a time to live is greater than zero, got"):
        StateTtlConfig.new_builder(ttl).build()


def test_a_cleanup_looks_at_no_negative_number_of_entries():
    with pytest.raises(ValueError, match="cannot be negative, got -1"):
        StateTtlConfig.new_builder(Time.seconds(1)).cleanup_incrementally(-1, False)
