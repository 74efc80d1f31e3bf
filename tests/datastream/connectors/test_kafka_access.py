"""The few requests that are made over the protocol of Kafka: how brokers are reached, and what they may answer."""

import contextlib
import socket
import struct
import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

library = pytest.importorskip("confluent_kafka", reason="confluent-kafka is not installed")

from flinkbuf.errors import FlinkbufError  # noqa: E402
from flinkbuf.streaming.sinks import kafka_endings, kafka_sink  # noqa: E402
from flinkbuf.streaming.sinks.kafka_coordinators import KafkaCoordinators, TransactionState  # noqa: E402
from flinkbuf.streaming.sinks.kafka_endings import KnownEnding, KnownEndings  # noqa: E402
from flinkbuf.streaming.sinks.kafka_group import CoordinatedMarks, LibraryMarks, marks_of, was_committed  # noqa: E402
from flinkbuf.streaming.sinks.sink import CommitRequest, CommitState  # noqa: E402
from flinkbuf.streaming.sources.kafka_access import (  # noqa: E402
    API_VERSIONS,
    SASL_AUTHENTICATE,
    SASL_HANDSHAKE,
    BrokerAnswer,
    KafkaAccess,
    KafkaConnection,
    compact_count,
    compact_text,
    int16,
    int32,
    int64,
    scram_messages,
    text,
)
from flinkbuf.streaming.sources.kafka_client import KafkaTopicPartition  # noqa: E402

PLACE = KafkaTopicPartition("t", 0)


class Broker:
    """A server on a thread: `answers(api, body)` gives what it answers, None closes the connection.

    Every request is kept. An answer that is bytes goes out behind the number of the request.
    """

    def __init__(self, answers):
        self.requests, self._answers = [], answers
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = self._listener.getsockname()
        threading.Thread(target=self._serve, daemon=True).start()

    def access(self, **properties):
        given = {"bootstrap.servers": f"127.0.0.1:{self.address[1]}", **properties}
        return KafkaAccess.of({key.replace("_", "."): value for key, value in given.items()})

    def _serve(self):
        while True:
            try:
                connection = self._listener.accept()[0]
            except OSError:
                return
            with connection, contextlib.suppress(ConnectionError):
                self._talk(connection)

    def _talk(self, connection):
        while (size := connection.recv(4, socket.MSG_WAITALL)) and len(size) == 4:
            request = connection.recv(int.from_bytes(size, "big"), socket.MSG_WAITALL)
            api, _, number, length = struct.unpack_from(">hhih", request)
            self.requests.append((api, request[10 + length :]))
            answer = self._answers(*self.requests[-1])
            if answer is None:
                return
            connection.sendall(int32(4 + len(answer)) + int32(number) + answer)

    def close(self):
        self._listener.close()


@pytest.fixture
def coordinators():
    """Makes coordinators, whose connections are closed in the end."""
    with contextlib.ExitStack() as stack:
        yield lambda *arguments: stack.enter_context(contextlib.closing(KafkaCoordinators(*arguments)))


@pytest.fixture
def broker():
    brokers = []

    def make(answers):
        brokers.append(Broker(answers))
        return brokers[-1]

    yield make
    for each in brokers:
        each.close()


# What properties say


def test_servers_are_read_as_the_client_library_reads_them():
    access = KafkaAccess.of({"bootstrap.servers": "a:1, SASL_SSL://b.example:2,[::1]:3,c"})
    assert access.servers == (("a", 1), ("b.example", 2), ("::1", 3), ("c", 9092))
    assert access.mechanism == "" and access.tls is None
    assert KafkaAccess.of({"bootstrap.servers": "a:port"}) is None
    assert KafkaAccess.of({}) is None


@pytest.mark.parametrize(
    "properties",
    [
        {"security.protocol": "SASL_SSL"},  # GSSAPI, unless it is said
        {"security.protocol": "sasl_plaintext", "sasl.mechanisms": "OAUTHBEARER"},
        {"security.protocol": "ssl", "ssl.keystore.location": "k.p12"},
        {"plugin.library.paths": "x"},
    ],
)
def test_what_only_the_client_library_understands_is_left_to_it(properties):
    properties = {"bootstrap.servers": "127.0.0.1:1", **properties}
    assert KafkaAccess.of(properties) is None


def test_a_file_of_certificates_that_is_not_there_is_told_with_its_property(tmp_path):
    given = {"bootstrap.servers": "a:1", "security.protocol": "ssl", "ssl.ca.location": str(tmp_path / "none.pem")}
    with pytest.raises(library.KafkaException, match="certificates cannot be used .ssl.ca.location=.*none.pem"):
        KafkaAccess.of(given)
    broken = tmp_path / "broken.pem"
    broken.write_text("-----BEGIN NOTHING-----")
    with pytest.raises(library.KafkaException, match="broken.pem"):
        KafkaAccess.of({**given, "ssl.ca.location": str(broken)})


# Logins


def test_scram_says_what_its_standard_says():
    """The example of RFC 7677."""
    messages = scram_messages("sha256", "user", "pencil", "rOprNGfwEbeRWgbNEkqO")
    assert next(messages) == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    both = "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    final = messages.send(f"r={both},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096".encode())
    assert final == f"c=biws,r={both},p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=".encode()
    with pytest.raises(StopIteration):
        messages.send(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=")


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (b"r=nonce,s=AAAA,i=4096", "did not add"),
        (b"r=other,s=AAAA,i=4096", "did not add"),
        (b"r=nonce1,s=AAAA,i=1", "hashed '1' times"),
        (b"r=nonce1,s=AAAA,i=99999999999", "hashed '99999999999' times"),
        (b"r=nonce1,s=AAAA,i=-5", "hashed '-5' times"),
        (b"r=nonce1,s=A,i=4096", "not of base 64"),
        (b"\xff\xfe", "did not add"),
    ],
)
def test_a_server_of_scram_that_says_what_it_may_not_is_left(answer, words):
    messages = scram_messages("sha256", "a=b,c", "pencil", "nonce")
    assert next(messages) == b"n,,n=a=3Db=2Cc,r=nonce"
    with pytest.raises(ValueError, match=words):
        messages.send(answer)


def test_a_server_that_does_not_know_the_password_is_not_trusted(broker):
    def answers(api, body):
        if api == SASL_HANDSHAKE:
            return int16(0) + int32(0)
        said = body[4:].decode()
        nonce = said.partition("r=")[2]
        answer = f"r={nonce}1,s=AAAA,i=4096" if said.startswith("n,,") else "v=AAAA"
        return int16(0) + int16(-1) + int32(len(answer)) + answer.encode()

    access = broker(answers).access(security_protocol="sasl_plaintext", sasl_mechanisms="SCRAM-SHA-512")
    with pytest.raises(library.KafkaException, match="cannot be trusted: it does not know the password itself"):
        KafkaConnection(access.servers[0], access, time.monotonic() + 10)


def test_a_wrong_password_and_a_mechanism_that_is_not_offered_are_told_at_once(broker, coordinators):
    def answers(api, body):
        if api == SASL_HANDSHAKE:
            return int16(33 if b"SCRAM" in body else 0) + int32(1) + text("PLAIN")
        assert api == SASL_AUTHENTICATE and body[4:] == b"\0me\0secret"
        return int16(58) + text("no such user") + int32(0)

    for mechanism, words in (
        ("PLAIN", "does not let in user 'me' by PLAIN: no such user"),
        ("SCRAM-SHA-256", "offers PLAIN and not"),
    ):
        server = broker(answers)
        access = server.access(
            security_protocol="sasl_plaintext", sasl_mechanisms=mechanism, sasl_username="me", sasl_password="secret"
        )
        with pytest.raises(library.KafkaException, match=words) as told:
            coordinators(access).are_understood()
        assert told.value.args[0].code() == library.KafkaError._AUTHENTICATION
        assert "secret" not in str(told.value)


# What brokers answer


@given(
    st.binary(max_size=40),
    st.lists(
        st.sampled_from(
            ["int8", "int16", "int32", "int64", "text", "data", "count", "compact_text", "compact_count", "skip_tags"]
        ),
        max_size=12,
    ),
)
def test_whatever_bytes_come_values_are_read_within_them_or_refused(data, reads):
    answer = BrokerAnswer(data)
    try:
        for read in reads:
            getattr(answer, read)()
    except ValueError as error:
        assert "the answer of a broker of Kafka" in str(error)


def test_lengths_of_the_newer_form_take_as_many_bytes_as_they_need():
    for length in (0, 1, 126, 127, 128, 16_382, 16_383):
        assert BrokerAnswer(compact_text("x" * length)).compact_text() == "x" * length
    with pytest.raises(ValueError, match="more than 5 bytes"):
        BrokerAnswer(b"\xff" * 9).compact_text()


REQUESTS = (3, 9, 10, 24, 25, 26, 28, 61, 65)
KNOWN = b"".join(int16(api) + int16(0) + int16(9) for api in REQUESTS)
ALL_KNOWN = int16(0) + int32(len(REQUESTS)) + KNOWN


def coordinator_at(broker_box):
    return int32(0) + int16(0) + text("") + int32(1) + text("127.0.0.1") + int32(broker_box[0].address[1])


def described(producer_id, epoch, name="Empty", partitions=()):
    state = int16(0) + compact_text("id") + compact_text(name) + int32(0) + int64(0) + int64(producer_id)
    places = b"\x02" + compact_text("t") + bytes([1 + len(partitions)]) + b"".join(map(int32, partitions)) + b"\0"
    return b"\0" + int32(0) + b"\x02" + state + int16(epoch) + (places if partitions else b"\x01") + b"\0\0"


def offset_answer(said, code=0):
    place = int32(0) + int64(7) + int32(-1) + compact_text(said) + int16(code) + b"\0"
    return b"\0" + int32(0) + b"\x02" + compact_text("t") + b"\x02" + place + b"\0" + int16(0) + b"\0"


def working(box, errors=()):
    """What a broker answers that is every coordinator; of each kind of request the first get these errors."""
    left = {api: list(codes) for api, codes in dict(errors).items()}

    def answers(api, body):
        code = left[api].pop(0) if left.get(api) else 0
        if code is None:
            return None
        return {
            API_VERSIONS: lambda: ALL_KNOWN,
            10: lambda: (
                coordinator_at(box)
                if not code
                else int32(0) + int16(code) + text("") + int32(-1) + text("") + int32(-1)
            ),
            65: lambda: described(4_000, 3) if not code else b"\0" + int32(0) + b"\x02" + int16(code),
            9: lambda: offset_answer("said", code),
            25: lambda: int32(0) + int16(code),
            28: lambda: int32(0) + int32(1) + text("t") + int32(1) + int32(0) + int16(code),
        }[api]()

    return answers


def test_a_mark_is_read_and_written_as_the_producer_of_the_transactional_id(broker):
    box = []
    box.append(broker(working(box)))
    marks = marks_of({"bootstrap.servers": f"127.0.0.1:{box[0].address[1]}"}, "id", None)
    assert isinstance(marks, CoordinatedMarks)
    marks.begin()
    assert marks.read(PLACE) == "said"
    marks.write(PLACE, 5, "new")
    sent = dict(box[0].requests)
    owner = int64(4_000) + int16(3)
    assert sent[25] == text("id") + owner + text("id")
    place = int32(1) + text("t") + int32(1) + int32(0)
    assert sent[28] == text("id") + text("id") + owner + place + int64(5) + int32(-1) + text("new")
    marks.close()


@pytest.mark.parametrize("api", [9, 10, 25, 28, 65])
def test_a_coordinator_that_is_away_or_another_one_is_asked_again(broker, api, coordinators):
    box = []
    box.append(broker(working(box, {api: [16, None, 15, 14, None, 51, 7]})))
    marks = CoordinatedMarks(coordinators(box[0].access(), 10), "id", KnownEndings())
    marks.begin()
    marks.write(PLACE, 5, "new")
    assert marks.read(PLACE) == "said"
    assert [each for each, _ in box[0].requests].count(api) >= 8
    marks.close()


@pytest.mark.parametrize(("api", "code"), [(65, 53), (25, 47), (25, 90), (28, 48), (9, 30), (28, 12), (10, 30)])
def test_what_a_broker_refuses_is_told_with_its_code(broker, api, code, coordinators):
    box = []
    box.append(broker(working(box, {api: [code]})))
    with pytest.raises(library.KafkaException) as told:
        marks = CoordinatedMarks(coordinators(box[0].access(), 10), "id", KnownEndings())
        marks.begin()
        marks.write(PLACE, 5, "new")
        marks.read(PLACE)
    assert told.value.args[0].code() == code


def test_a_broker_that_is_never_there_is_left_in_time(broker, coordinators):
    server = broker(lambda api, body: None)
    began = time.monotonic()
    with pytest.raises(library.KafkaException, match="did not do in 0.3 s .* has closed the connection"):
        coordinators(server.access(), 0.3).are_understood()
    server.close()
    with pytest.raises(library.KafkaException, match="did not do in 0.3 s"):
        coordinators(server.access(), 0.3).are_understood()
    assert time.monotonic() - began < 5


def test_a_broker_that_says_nothing_is_left_in_time(coordinators):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        access = KafkaAccess.of({"bootstrap.servers": f"127.0.0.1:{silent.getsockname()[1]}"})
        with pytest.raises(library.KafkaException, match="did not do in 0.3 s"):
            coordinators(access, 0.3).are_understood()


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (b"\x15\x03\x03\x00\x02\x02\x46", "it speaks TLS, and security.protocol is plaintext"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "is it one of Kafka"),
        (int32(2) + b"ab", "is it one of Kafka"),
        (int32(8) + int32(1) + int16(0) + int16(0), "within a value of 4 bytes"),
        (int32(10) + int32(1) + int16(0) + int32(9), "claims 9 values"),
    ],
)
def test_what_is_no_broker_of_kafka_is_told_at_once(raw, words):
    with socket.create_server(("127.0.0.1", 0)) as other:

        def answer():
            connection = other.accept()[0]
            with connection, contextlib.suppress(ConnectionError):
                connection.recv(1_000)
                connection.sendall(raw)
                connection.recv(1_000)

        thread = threading.Thread(target=answer)
        thread.start()
        access = KafkaAccess.of({"bootstrap.servers": f"127.0.0.1:{other.getsockname()[1]}"})
        with contextlib.closing(KafkaCoordinators(access, 10)) as asked:
            with pytest.raises(library.KafkaException, match=words):
                asked.are_understood()
        thread.join(10)


def test_a_connection_whose_answer_was_left_unread_is_not_used_again(broker, coordinators):
    answers = [bytes(1 << 20), ALL_KNOWN]
    asked = coordinators(broker(lambda api, body: answers.pop(0)).access(), 10)
    with pytest.raises(library.KafkaException, match="announced an answer of 1048580 bytes"):
        asked.are_understood()
    assert asked.are_understood()


def test_older_brokers_and_other_logins_are_left_to_the_client_library(broker):
    old = int16(0) + int32(len(REQUESTS) - 1) + KNOWN[:-6]
    # The client library, too, asks what the broker knows, and does not survive whatever it answers: then it is away.
    server = broker(lambda api, body: old if len(server.requests) == 1 else None)
    marks = marks_of({"bootstrap.servers": f"127.0.0.1:{server.address[1]}"}, "id", None)
    assert isinstance(marks, LibraryMarks)
    marks.close()


# Transactions whose markers brokers have lost


class LostMarkers:
    """A broker whose coordinator takes a transaction for ended, of which a group and partitions have not heard."""

    def __init__(self, name, is_unstable=True, open_at=(), refuses=0, others=1):
        self.name, self.epoch, self.others = name, 3, others
        self.away = set()  # partitions without a leader
        self.is_unstable, self.open_at, self.refuses = is_unstable, set(open_at), refuses
        self.sent = []  # add a group, add partitions, end
        self.box = []

    def begin(self):
        """A producer begins; what is open is aborted."""
        self.epoch += 2 if self.name == "Ongoing" else 1
        self.name = "Empty"

    def answers(self, api, body):
        if api in (24, 25):
            self.name = "Ongoing"
            self.sent.append((api, body))
            place = int32(1) + text("t") + int32(1) + int32(0)
            return int32(0) + (place if api == 24 else b"") + int16(0)
        if api == 26:
            self.sent.append((api, bool(body[-1])))
            self.name, self.is_unstable = "CompleteCommit" if body[-1] else "CompleteAbort", False
            if any(each == 24 for each, _ in self.sent):
                self.open_at.clear()
            return int32(0) + int16(0)
        if api == 3:
            return self.metadata()
        if api == 61:
            return self.producers()
        if api == 65:
            return described(4_000, self.epoch, self.name)
        if api == 9:
            return offset_answer("said", 88 if self.is_unstable else 0)
        return working(self.box)(api, body)

    def metadata(self):
        port = self.box[0].address[1]
        broker = int32(1) + int32(7) + text("127.0.0.1") + int32(port) + int16(-1)
        leaders = [-1 if number in self.away else 7 for number in (0, 1)]
        replicas = 2 * (int32(1) + int32(7))
        partitions = [int16(0) + int32(number) + int32(leader) + replicas for number, leader in enumerate(leaders)]
        topic = int32(1) + int16(0) + text("t") + b"\0" + int32(2) + b"".join(partitions)
        return int32(0) + broker + int16(-1) + int32(7) + topic

    def producers(self):
        answer = b""
        for number in (0, 1):
            others = int64(5) + int32(0) + int32(0) + int64(0) + int32(0) + int64(17) + b"\0"
            begins = 30 if number in self.open_at else -1
            ours = int64(4_000) + int32(2) + int32(0) + int64(0) + int32(0) + int64(begins) + b"\0"
            some = compact_count(self.others + 1) + self.others * others + ours if not self.refuses else b"\x01"
            answer += int32(number) + int16(self.refuses) + b"\0" + some + b"\0"
        return b"\0" + int32(0) + b"\x02" + compact_text("t") + b"\x03" + answer + b"\0\0"

    def access(self, broker):
        self.box.append(broker(self.answers))
        return self.box[0].access()


def begun(lost, broker, coordinators, endings=None, timeout_s=10):
    marks = CoordinatedMarks(coordinators(lost.access(broker), timeout_s), "id", endings or KnownEndings())
    lost.begin()
    marks.begin()
    return marks


@pytest.mark.parametrize(
    ("name", "is_committed"),
    [("PrepareCommit", True), ("CompleteCommit", True), ("CompleteAbort", False), ("Ongoing", False)],
)
def test_a_mark_whose_marker_was_lost_is_settled_as_its_transaction_ended(broker, coordinators, name, is_committed):
    lost = LostMarkers(name)
    marks = begun(lost, broker, coordinators)
    assert marks.read(PLACE) == "said"
    owner = text("id") + int64(4_000) + int16(lost.epoch)
    assert lost.sent == [(25, owner + text("id")), (26, is_committed)]


@pytest.mark.parametrize(("name", "is_committed"), [("CompleteCommit", True), ("PrepareAbort", False)])
def test_records_whose_marker_was_lost_are_settled_as_their_transaction_ended(broker, coordinators, name, is_committed):
    lost = LostMarkers(name, is_unstable=False, open_at=[1])
    marks = begun(lost, broker, coordinators)
    marks.settle_topic("t")
    owner = text("id") + int64(4_000) + int16(lost.epoch)
    places = int32(1) + text("t") + int32(1) + int32(1)
    assert lost.sent == [(24, owner + places), (25, owner + text("id")), (26, is_committed)]


def test_a_partition_may_have_many_other_producers(broker, coordinators):
    lost = LostMarkers("CompleteCommit", is_unstable=False, open_at=[1], others=30_000)
    assert len(lost.producers()) > 2 << 20
    marks = begun(lost, broker, coordinators)
    marks.settle_topic("t")
    assert lost.sent[-1] == (26, True)


def test_a_transaction_that_all_have_heard_of_is_left_alone(broker, coordinators):
    lost = LostMarkers("CompleteCommit", is_unstable=False)
    marks = begun(lost, broker, coordinators)
    assert marks.read(PLACE) == "said"
    marks.settle_topic("t")
    assert lost.sent == []


def test_who_may_not_see_the_producers_of_a_topic_goes_on(broker, coordinators):
    lost = LostMarkers("CompleteCommit", is_unstable=False, open_at=[0], refuses=29)
    begun(lost, broker, coordinators).settle_topic("t")
    assert lost.sent == []


@pytest.mark.parametrize("what", ["mark", "records"])
def test_what_is_not_known_is_not_settled_and_told_with_what_can_be_done(broker, coordinators, what):
    lost = LostMarkers("Empty", is_unstable=what == "mark", open_at=[0] if what == "records" else ())
    marks = begun(lost, broker, coordinators, timeout_s=0.3)
    if what == "mark":
        words = "offset of group 'id' .*KAFKA-20734.*kafka-transactions.sh .*find-hanging.*producer id 4000.*twice"
        with pytest.raises(FlinkbufError, match=words):
            marks.read(PLACE)
    else:
        with pytest.raises(FlinkbufError, match="written last into t-0 waits .*abort --topic .* are gone"):
            marks.settle_topic("t")
    assert lost.sent == []


def test_what_a_session_has_known_the_next_one_knows(broker, coordinators):
    lost, endings = LostMarkers("CompleteCommit"), KnownEndings()
    begun(lost, broker, coordinators, endings).close()  # before it has settled anything
    assert endings.get("id") == KnownEnding(4_000, 4, True)
    assert lost.name == "Empty"
    marks = CoordinatedMarks(coordinators(lost.box[0].access()), "id", endings)
    lost.begin()
    marks.begin()
    assert marks.read(PLACE) == "said"
    assert lost.sent[-1] == (26, True)


def commit_in(lost, marks):
    """A transaction, whose records are the client library's, is committed into partition 0, and confirmed."""
    marks.begin_transaction()
    lost.name = "CompleteCommit"
    marks._was_committed, marks._places = None, (PLACE,)
    marks.confirm(PLACE)


@pytest.mark.parametrize("times", [1, 2])
def test_a_partition_without_a_leader_does_not_stop_records_of_others_if_nothing_can_wait_there(
    broker, coordinators, times
):
    lost, endings = LostMarkers("CompleteCommit", is_unstable=False), KnownEndings()
    marks = begun(lost, broker, coordinators, endings)
    marks.settle_topic("t")
    commit_in(lost, marks)
    lost.away = {1}
    for _ in range(times):  # also behind a session that has committed nothing
        marks.close()
        marks = CoordinatedMarks(coordinators(lost.box[0].access(), 0.3), "id", endings)
        lost.begin()
        marks.begin()
        marks.settle_topic("t")
    commit_in(lost, marks)
    assert lost.sent == []


@pytest.mark.parametrize("name", ["CompleteCommit", "CompleteAbort"])
def test_a_partition_without_a_leader_is_waited_for_if_a_transaction_was_not_followed_up(broker, coordinators, name):
    """Its records, too, would be ended by the next one, which may end in another way."""
    lost, endings = LostMarkers("CompleteCommit", is_unstable=False), KnownEndings()
    marks = begun(lost, broker, coordinators, endings)
    marks.settle_topic("t")
    marks.begin_transaction()
    lost.name, lost.away, lost.open_at = name, {1}, {1}  # it ended, and the marker for this partition is lost
    for _ in range(2):
        marks.close()
        marks = CoordinatedMarks(coordinators(lost.box[0].access(), 0.3), "id", endings)
        lost.begin()
        marks.begin()
        with pytest.raises(library.KafkaException, match="partition 1 of 't' has no leader"):
            marks.settle_topic("t")
    assert lost.sent == []
    lost.away = set()
    marks.settle_topic("t")
    assert lost.sent[-1] == (26, name == "CompleteCommit")


def test_the_first_producer_of_an_id_has_nothing_to_settle(broker, coordinators):
    lost, endings = LostMarkers("Empty", is_unstable=False), KnownEndings()
    lost.epoch, lost.away = -1, {1}
    marks = begun(lost, broker, coordinators, endings, timeout_s=0.3)
    marks.settle_topic("t")
    commit_in(lost, marks)
    assert endings.get("id") == KnownEnding(4_000, 0, True, settled=frozenset("t"))
    assert lost.sent == []


class Beginning:
    """A producer that only begins."""

    def __init__(self, lost):
        self.init_transactions = lambda timeout: lost.begin()

    def purge(self):
        """Do nothing: it has no records."""


def test_what_an_attempt_of_a_job_has_known_the_next_one_in_the_process_knows(broker, monkeypatch):
    lost = LostMarkers("CompleteCommit", is_unstable=False, open_at=[0])
    properties = {"bootstrap.servers": f"127.0.0.1:{lost.access(broker).servers[0][1]}"}
    monkeypatch.setattr(kafka_sink, "make_producer", lambda given: Beginning(lost))
    lost.refuses = library.KafkaError.CLUSTER_AUTHORIZATION_FAILED
    transaction = kafka_sink.KafkaTransaction("id", "said", (("t", None, b"a", None),))
    with contextlib.closing(kafka_sink.KafkaCommitter(properties)) as committer:
        with pytest.raises(FlinkbufError, match="cannot be committed: .*which producers write to partition 0 of 't'"):
            committer.commit([CommitRequest(transaction)])
    assert lost.name == "Empty" and lost.sent == []
    lost.refuses = 0
    with contextlib.closing(kafka_sink.KafkaCommitter(properties)) as committer:
        request = CommitRequest(transaction)
        committer.commit([request])
    assert request.state is CommitState.COMMITTED
    assert lost.sent[-1] == (26, True)


def test_endings_are_known_of_so_many_ids_and_by_brokers(monkeypatch):
    monkeypatch.setattr(kafka_endings, "_MOST_KNOWN", 2)
    endings = KnownEndings()
    for name in ("a", "b", "a", "c"):
        endings.note(name, KnownEnding(1, 0, True))
    assert [endings.get(name) is None for name in ("a", "b", "c")] == [False, True, False]
    endings.forget(("a", 2, 9))  # of another producer
    endings.forget(("c", 1, 0))
    assert [endings.get(name) is None for name in ("a", "c")] == [False, True]
    servers = (("none.example", 1), ("none.example", 2))
    assert kafka_endings.endings_at(servers) is kafka_endings.endings_at(servers[::-1])
    assert kafka_endings.endings_at(servers) is not kafka_endings.endings_at(servers[:1])


def test_a_settling_that_was_not_finished_is_ended_in_the_same_way(broker, coordinators):
    lost = LostMarkers("Ongoing")
    endings = KnownEndings()
    endings.note("id", KnownEnding(4_000, 3, True, is_being_settled=True))
    begun(lost, broker, coordinators, endings)
    assert lost.sent == [(26, True)]


def test_a_commit_is_told_when_all_have_heard_of_it(broker, coordinators):
    lost = LostMarkers("CompleteAbort", is_unstable=False)
    endings = KnownEndings()
    marks = begun(lost, broker, coordinators, endings)
    lost.name, lost.is_unstable = "CompleteCommit", True  # as the client library has had it committed
    marks.confirm(PLACE)
    assert lost.sent[-1] == (26, True)
    assert endings.get("id") == KnownEnding(4_000, lost.epoch, True)
    lost.epoch += 1
    with pytest.raises(library.KafkaException, match="another producer has begun as 'id'"):
        marks.confirm(PLACE)


def test_how_a_transaction_ended_is_concluded_from_its_state_and_the_epoch():
    def state(name, epoch, producer_id=4_000):
        return TransactionState(name, producer_id, epoch, ())

    now = state("Empty", 7)
    assert was_committed(None, now, None) is None
    assert was_committed(state("CompleteCommit", 6, 3_999), now, None) is None  # there are no epochs left for that one
    assert was_committed(state("PrepareCommit", 6), now, None) is True
    assert was_committed(state("PrepareAbort", 6), now, None) is False
    assert was_committed(state("Ongoing", 5), now, None) is False  # aborted, and begun anew
    assert was_committed(state("Ongoing", 6), now, None) is None  # its owner ended it, nobody knows how
    assert was_committed(state("Empty", 6), now, None) is None
    assert was_committed(state("Empty", 6), now, KnownEnding(4_000, 6, True)) is True
    assert was_committed(state("Empty", 6), now, KnownEnding(4_000, 5, True)) is None
    assert was_committed(state("Dead", 6), now, None) is None
    for name in ("CompleteCommit", "CompleteAbort"):
        assert was_committed(state(name, 5), now, None) is None  # something came in between
