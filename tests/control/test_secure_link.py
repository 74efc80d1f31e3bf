"""Secure links: both ends prove the secret, and nothing but what was said is heard."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flinkbuf.control import secure_link
from flinkbuf.control.secure_link import MESSAGE_LIMIT, ClientLink, ServerLink
from flinkbuf.errors import RemoteTransportError

SECRET = b"s" * 32
PAYLOADS = [b"first", b"", b"second" * 100, b"first"]


def server_link(secret=SECRET, admit=lambda group: True, nonce=b"S" * 32):
    return ServerLink(nonce, lambda group_id: secret, admit)


def client_link(secret=SECRET, group="job", nonce=b"C" * 32):
    return ClientLink(group, secret, nonce)


def talk(server, client, change=lambda turn, data: data):
    """Carry the greeting of both; return how each found it."""
    outcomes = {}
    for turn, (speaker, hearer) in enumerate([(client, server), (server, client), (client, server), (server, client)]):
        try:
            assert hearer.receive(change(turn, speaker.take_output())) == []
        except RemoteTransportError as error:
            outcomes[type(hearer)] = str(error)
    return outcomes


def pair(**options):
    server, client = server_link(**options), client_link()
    assert talk(server, client) == {}
    assert server.is_open and client.is_open and server.group_id == "job"
    return server, client


@pytest.fixture(params=["client says", "server says"])
def ends(request):
    """Who speaks, and who hears."""
    server, client = pair()
    return (client, server) if request.param == "client says" else (server, client)


def test_payloads_arrive_whole_and_in_order_however_they_are_cut(ends):
    speaker, hearer = ends
    said = b"".join(map(speaker.frame, PAYLOADS))
    heard = [payload for byte in said for payload in hearer.receive(bytes([byte]))]
    assert heard == PAYLOADS
    assert hearer.receive(b"".join(map(speaker.frame, PAYLOADS))) == PAYLOADS


@given(st.lists(st.binary(max_size=300), max_size=6), st.data())
def test_payloads_arrive_whole_in_pieces_of_any_size(payloads, data):
    server, client = pair()
    left = b"".join(map(client.frame, payloads))
    heard = []
    while left:
        size = data.draw(st.integers(1, len(left)))
        heard += server.receive(left[:size])
        left = left[size:]
    assert heard == payloads


def refusal(link, data):
    with pytest.raises(RemoteTransportError) as caught:
        link.receive(data)
    with pytest.raises(RemoteTransportError, match="."):  # and for good
        link.receive(b"")
    return str(caught.value)


def test_every_byte_of_a_frame_counts():
    frame = bytearray(pair()[1].frame(b"payload"))
    for place in range(len(frame)):
        for flip in (1, 0x80):
            server, client = pair()
            changed = bytearray(client.frame(b"payload"))
            changed[place] ^= flip
            try:  # a length that grew waits for bytes that the next frame has to give
                assert server.receive(bytes(changed)) == []
                says = refusal(server, client.frame(b"x" * 200_000) * 100)
            except RemoteTransportError as error:
                says = str(error)
            assert "was changed on its way" in says or "at most 67108864 may come" in says


def test_a_frame_that_comes_twice_is_refused(ends):
    speaker, hearer = ends
    frame = speaker.frame(b"once")
    assert hearer.receive(frame) == [b"once"]
    assert "control message 1 was changed" in refusal(hearer, frame)


def test_frames_that_are_swapped_or_left_out_are_refused(ends):
    speaker, hearer = ends
    first, second = speaker.frame(b"a"), speaker.frame(b"b")
    assert "control message 0" in refusal(hearer, second + first)


def test_what_one_says_cannot_be_sent_back_to_it(ends):
    speaker, _ = ends
    assert "was changed on its way" in refusal(speaker, speaker.frame(b"mine"))


@pytest.mark.parametrize("other", ["server", "client"])
def test_a_frame_of_another_connection_is_refused(other):
    recorded = pair()[1].frame(b"cancel the job")
    server, client = server_link(), client_link()
    if other == "server":
        server = server_link(nonce=b"N" * 32)
    else:
        client = client_link(nonce=b"N" * 32)
    assert talk(server, client) == {}
    assert "was changed on its way" in refusal(server, recorded)


def test_a_recorded_greeting_is_worth_nothing():
    client, said = client_link(), []
    talk(server_link(), client, lambda turn, data: said.append(data) or data)
    server = server_link(nonce=b"N" * 32)
    server.receive(said[0])
    assert "does not know the secret" in refusal(server, said[2])


def test_a_huge_length_is_refused_before_it_is_waited_for(ends):
    _, hearer = ends
    assert "at most 67108864 may come" in refusal(hearer, (MESSAGE_LIMIT + 1).to_bytes(4, "big"))


def test_a_payload_that_is_too_long_is_not_sent(ends, monkeypatch):
    monkeypatch.setattr(secure_link, "MESSAGE_LIMIT", 10)
    with pytest.raises(ValueError, match="a control message of 11 bytes; at most 10 can be sent"):
        ends[0].frame(b"x" * 11)


def test_nothing_is_sent_before_the_greeting_is_over():
    for link in (server_link(), client_link()):
        with pytest.raises(ValueError, match="before both ends have proved"):
            link.frame(b"x")


def test_who_does_not_know_the_secret_is_refused():
    outcomes = talk(server_link(), client_link(secret=b"t" * 32))
    assert outcomes[ServerLink] == "the client does not know the secret of 'job'"


def test_a_server_that_does_not_know_the_secret_is_refused():
    impostor = server_link()
    impostor._check_proof = lambda group, nonce, proof: setattr(impostor, "_output", bytearray(b"\1" + bytes(32)))
    assert talk(impostor, client_link()) == {ClientLink: "what listens there does not know the secret of 'job'"}


def test_a_server_that_echoes_is_refused():
    client = client_link()
    client.receive(client.take_output() + b"N" * 32)  # takes its own preface for the server's
    assert "does not know the secret" in refusal(client, b"\1" + client.take_output()[-32:])


def test_the_group_is_part_of_the_proof():
    asked = []
    server = ServerLink(b"S" * 32, lambda group_id: asked.append(group_id) or SECRET, lambda group_id: True)
    outcomes = talk(server, client_link(), lambda turn, data: data.replace(b"job", b"jab"))
    assert asked == ["jab"]
    assert outcomes[ServerLink] == "the client does not know the secret of 'jab'"


def test_a_group_that_is_over_is_said_to_who_has_proved_itself():
    outcomes = talk(server_link(admit=lambda group: False), client_link())
    assert outcomes[ServerLink] == "no job takes clients of 'job' any more"
    assert outcomes[ClientLink].startswith("the job takes no clients of 'job' any more")


def test_a_refusal_cannot_be_made_an_acceptance():
    def change(turn, data):
        return b"\1" + data[1:] if turn == 3 else data

    outcomes = talk(server_link(admit=lambda group: False), client_link(), change)
    assert "does not know the secret" in outcomes[ClientLink]


@pytest.mark.parametrize("link", [server_link, client_link])
def test_another_version_is_refused_with_what_to_do(link):
    says = refusal(link(), b"FBcp\0\2")
    assert "speaks version 2 of the control protocol, this process 1: install the same flinkbuf" in says


@pytest.mark.parametrize("link", [server_link, client_link])
@pytest.mark.parametrize("said", [b"GET / HTTP/1.1\r\n", b"\0", b"FBcq"])
def test_a_stranger_is_refused_at_its_first_wrong_byte(link, said):
    assert "is no end of a control connection of flinkbuf" in refusal(link(), said)


@pytest.mark.parametrize("link", [server_link, client_link])
@pytest.mark.parametrize("said", [b"\x16\x03\x01", b"\x15\x03\x03\0\2"])
def test_an_end_that_speaks_tls_is_told_so(link, said):
    assert "speaks TLS: NetworkConfig(tls=...) must be set on both sides" in refusal(link(), said)


def test_a_greeting_has_a_limit():
    server = server_link()
    assert "a group id of 65535 bytes" in refusal(server, b"FBcp\0\1\xff\xff")
    client = client_link(group="g" * 3000)
    assert talk(server_link(), client) == {}
    assert client.is_open


def test_who_speaks_on_before_it_was_answered_is_refused():
    def change(turn, data):
        return data + b"more" if turn == 2 else data

    says = talk(server_link(), client_link(), change)[ServerLink]
    assert says == "the client went on speaking before it was answered"


def test_a_group_id_that_is_no_text_is_refused():
    server = server_link()
    said = b"FBcp\0\1" + b"\0\2\xff\xff" + bytes(64)
    assert "a group id that is no text" in refusal(server, said)


@given(st.lists(st.binary(max_size=200), max_size=4), st.booleans(), st.booleans())
def test_no_bytes_break_a_link(pieces, is_server, has_greeted):
    if has_greeted:
        link = pair()[0 if is_server else 1]
    else:
        link = server_link() if is_server else client_link()
        pieces = [b"FBcp\0\1", *pieces] if pieces and len(pieces[0]) % 2 else pieces
    try:
        for piece in pieces:
            assert link.receive(piece) == []
    except RemoteTransportError:
        pass
    assert link.is_open == has_greeted


@settings(max_examples=300)
@given(st.integers(0, 3), st.data())
def test_whatever_is_changed_in_a_greeting_nobody_opens_alone_and_hears_something(turn, data):
    def change(now, said):
        if now != turn or not said:
            return said
        place = data.draw(st.integers(0, len(said) - 1))
        kind = data.draw(st.sampled_from(["flip", "cut", "double"]))
        if kind == "flip":
            return said[:place] + bytes([said[place] ^ data.draw(st.integers(1, 255))]) + said[place + 1 :]
        return said[:place] if kind == "cut" else said + said[place:]

    server, client = server_link(), client_link()
    talk(server, client, change)
    assert not client.is_open or turn in (1, 3)
    if client.is_open:  # the last answer was followed by more, which is no frame
        assert client._failure or server.is_open
