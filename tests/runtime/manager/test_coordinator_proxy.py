"""What a source's coordinator says, as it comes to the operator in its mailbox."""

from support.worlds.surroundings import Surroundings

from flinkbuf.datastream.connectors.number_seq import NumberSequenceSource, split_sequence
from flinkbuf.runtime.manager.coordinator_proxy import CoordinatorProxy
from flinkbuf.runtime.protocol.operator_events import ReaderRegistered, decode_event, encode_event
from flinkbuf.streaming.sources.source_events import SplitRequested, SplitsAssigned
from flinkbuf.streaming.sources.source_factories import SourceOperatorFactory
from flinkbuf.streaming.sources.source_operator import SPLITS_STATE
from flinkbuf.streaming.state.state import ListStateDescriptor


def test_a_split_is_in_the_state_of_a_checkpoint_that_was_triggered_after_it_was_assigned():
    told, around = [], Surroundings()
    proxy = CoordinatorProxy(told.append, around.mailbox)
    around.context.coordinator = proxy
    operator = around.open(SourceOperatorFactory(NumberSequenceSource(1, 10))())
    assert list(map(decode_event, told)) == [ReaderRegistered(), SplitRequested()]
    (split,) = split_sequence(1, 10, 1)
    proxy.deliver(encode_event(SplitsAssigned((split,))))
    around.mailbox.submit(lambda: operator.snapshot_state(1))
    around.mailbox.run()
    assert around.context.operator_state.get_list_state(ListStateDescriptor(SPLITS_STATE, None)).get() == [split]
