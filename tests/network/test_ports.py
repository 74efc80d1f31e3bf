"""How all that listens finds a port: which failures let the next one be tried, and what is said if none is free."""

import errno
import socket

import pytest

import flinkbuf as fb
from flinkbuf.network.ports import listen, open_first_free, parse_ports


def refusing(**failures):
    """An `open_at` that fails at some ports, and the list of those it was asked for."""
    asked = []

    def open_at(port):
        asked.append(port)
        if f"p{port}" in failures:
            raise OSError(failures[f"p{port}"], "no")
        return f"open at {port}"

    return open_at, asked


@pytest.mark.parametrize("failure", [errno.EADDRINUSE, errno.EACCES])
def test_a_port_that_is_taken_or_reserved_is_passed_over(failure):
    open_at, asked = refusing(p1=failure, p2=failure)
    assert open_first_free([1, 2, 3, 4], open_at, "the option") == "open at 3"
    assert asked == [1, 2, 3]


def test_a_failure_that_no_other_port_would_help_is_raised_at_once():
    open_at, asked = refusing(p1=errno.EADDRNOTAVAIL)
    with pytest.raises(OSError, match="no") as failure:
        open_first_free([1, 2], open_at, "the option")
    assert failure.value.errno == errno.EADDRNOTAVAIL
    assert asked == [1]


def test_where_none_is_free_the_setting_and_the_number_of_ports_are_named():
    open_at, _ = refusing(p1=errno.EADDRINUSE, p2=errno.EADDRINUSE)
    with pytest.raises(OSError, match="none of the 2 ports of the option can be listened at") as failure:
        open_first_free([1, 2], open_at, "the option")
    assert failure.value.errno == errno.EADDRINUSE
    with pytest.raises(OSError, match=r"\] no$"):
        open_first_free([1], open_at, "the option")
    with pytest.raises(ValueError, match="the option names no port"):
        open_first_free([], open_at, "the option")


def test_a_host_that_is_not_this_machines_is_named_with_the_port():
    with pytest.raises(OSError, match=r"listening at no such host:0: "):
        listen("no such host", 0)
    with listen("127.0.0.1", 0) as taken, pytest.raises(OSError, match=r"listening at 127\.0\.0\.1:\d+: .*in use"):
        listen("127.0.0.1", taken.getsockname()[1])


@pytest.mark.parametrize("is_encrypted", [False, True])
def test_the_data_port_is_found_by_the_same_rule_with_tls_and_without(is_encrypted, tmp_path):
    unread = tmp_path / "not read before the port is found"
    tls = fb.network.TlsConfig(certificate=unread, key=unread, authority=unread) if is_encrypted else None
    with listen("127.0.0.1", 0) as one, listen("127.0.0.1", 0) as two:
        ports = f"{one.getsockname()[1]},{two.getsockname()[1]}"
        with pytest.raises(OSError, match=f"none of the 2 ports of data_port='{ports}' can be listened at"):
            fb.NetworkEnvironment(fb.NetworkConfig(data_port=ports, tls=tls))
        with pytest.raises(OSError, match=f"none of the 2 ports of data_bind_port='{ports}' can be listened at"):
            fb.NetworkEnvironment(fb.NetworkConfig(data_bind_port=ports, tls=tls))


def test_what_is_no_port_is_refused():
    assert list(parse_ports("0")) == [0]
    for wrong in ("7-", "", "a", "9-8", "65536", "-1"):
        with pytest.raises(ValueError, match="port"):
            list(parse_ports(wrong))


def test_a_socket_that_listens_takes_connections():
    with listen("127.0.0.1", 0) as listening, socket.create_connection(listening.getsockname(), 5):
        assert listening.accept()
