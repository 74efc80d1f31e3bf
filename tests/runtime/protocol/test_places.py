"""Where partitions are: tables come back as they were, in few bytes, and what is no table is refused."""

import zlib
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flinkbuf.control.message_codec import MessageCodec
from flinkbuf.errors import CorruptDataError
from flinkbuf.runtime.protocol.deployment import AttemptId, GateDescriptor, TaskDeploymentDescriptor
from flinkbuf.runtime.protocol.messages import KINDS, DeployTasks
from flinkbuf.runtime.protocol.places import PartitionLocation, PartitionTable, Places, partition_id

SESSION, VERTEX = "5e" * 16, "0b" * 16
CODEC = MessageCodec(KINDS)
ADDRESSES = st.lists(st.tuples(st.text(max_size=9), st.integers(0, 65_535)), max_size=6)


@st.composite
def all_places(draw):
    addresses = draw(ADDRESSES)
    tables = []
    for _ in range(draw(st.integers(0, 3)) if addresses else 0):
        managers = draw(st.lists(st.integers(0, len(addresses) - 1), max_size=8))
        numbers = draw(st.lists(st.integers(0, 2**31 - 1), min_size=len(managers), max_size=len(managers)))
        tables.append(PartitionTable(draw(st.sampled_from([VERTEX, "c" * 32])), 3, tuple(managers), tuple(numbers)))
    return Places(SESSION, addresses, tables)


@given(all_places())
def test_tables_come_back_as_they_were(places):
    assert Places.from_bytes(SESSION, places.to_bytes()) == places


def test_every_partition_has_the_name_of_its_attempt_and_the_address_of_its_task_manager():
    table = PartitionTable(VERTEX, 1, (1, 0, 1), (0, 7, 2))
    places = Places.from_bytes(SESSION, Places(SESSION, [("a", 1), ("b", 2)], [table]).to_bytes())
    assert places.locations(0) == (
        PartitionLocation(partition_id(SESSION, VERTEX, 0, 0, 1), "b", 2),
        PartitionLocation(partition_id(SESSION, VERTEX, 1, 7, 1), "a", 1),
        PartitionLocation(partition_id(SESSION, VERTEX, 2, 2, 1), "b", 2),
    )
    assert places.locations(0) is places.locations(0), "all gates share them"


def test_a_port_and_a_host_are_nearly_all_that_a_partition_takes():
    chance = Random(1)
    addresses = [(f"10.0.0.{chance.randrange(160)}", chance.randrange(32_768, 61_000)) for _ in range(2_500)]
    table = PartitionTable(VERTEX, 0, tuple(range(2_500)), (0,) * 2_500)
    assert len(Places(SESSION, addresses, [table]).to_bytes()) < 3.1 * 2_500


@given(all_places(), st.data())
def test_what_is_no_table_is_refused_or_another_one(places, data):
    plain = bytearray(zlib.decompress(places.to_bytes()))
    for _ in range(data.draw(st.integers(1, 3))):
        plain[data.draw(st.integers(0, len(plain) - 1))] = data.draw(st.integers(0, 255))
    try:
        read = Places.from_bytes(SESSION, zlib.compress(bytes(plain)))
    except CorruptDataError:
        return
    assert isinstance(read, Places)


@pytest.mark.parametrize("data", [b"", b"x", zlib.compress(b"{}\n"), zlib.compress(b'{"hosts":[],"managers":-1}\n')])
def test_other_bytes_are_refused(data):
    with pytest.raises(CorruptDataError, match="places of partitions that cannot be read"):
        Places.from_bytes(SESSION, data)


@pytest.mark.parametrize("change", [lambda data: data[:-1], lambda data: data + b"x", lambda data: b"x" + data])
def test_tables_that_are_cut_off_or_longer_are_refused(change):
    with pytest.raises(CorruptDataError):
        Places.from_bytes(SESSION, change(Places(SESSION, [("h", 1)], []).to_bytes()))


# ---- in a message


def deployment(*, table=0):
    places = Places(SESSION, [("h", 4000)], [PartitionTable(VERTEX, 0, (0, 0), (0, 1))])
    gate = GateDescriptor(5, table=table, places=places)
    task = TaskDeploymentDescriptor(AttemptId("c" * 32, 0, 0), "sink", 1, 128, 0, (), (gate,))
    return DeployTasks(SESSION, (task, task), places.to_bytes())


def test_gates_of_a_message_that_has_travelled_know_their_channels():
    sent = deployment()
    assert sent.descriptors is sent.tasks, "nothing is unpacked within a process"
    first, second = CODEC.decode(CODEC.encode(sent)).descriptors
    assert first.gates[0].channels == sent.tasks[0].gates[0].channels
    assert [(each.host, each.port, each.subpartition_index) for each in first.gates[0].channels] == [("h", 4000, 5)] * 2
    assert first.gates[0].locations is second.gates[0].locations


def test_a_gate_of_a_table_that_is_not_there_is_refused():
    with pytest.raises(CorruptDataError, match="a gate reads table 1 of partitions, and there are 1"):
        _ = CODEC.decode(CODEC.encode(deployment(table=1))).descriptors
