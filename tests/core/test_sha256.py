"""The core's SHA-256 says what Python's says, for random keys and data of random sizes."""

import hashlib
import hmac

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flinkbuf._core.sha256 import hmac_sha256, is_equal, random_bytes, sha256

SIZES = st.one_of(st.integers(0, 300), st.integers(0, 20_000))
DATA = st.builds(lambda size, seed: hashlib.shake_128(seed).digest(size), SIZES, st.binary(max_size=8))


@given(DATA)
def test_digest_is_hashlibs(data):
    assert sha256(data) == hashlib.sha256(data).digest()


@given(DATA, DATA)
def test_proof_is_hmacs(key, data):
    assert hmac_sha256(key, data) == hmac.digest(key, data, "sha256")


@pytest.mark.parametrize("size", [*range(140), 4096, 1_000_001])
def test_every_padding_is_hashlibs(size):
    data = b"\xa5" * size
    assert sha256(data) == hashlib.sha256(data).digest()
    assert hmac_sha256(data, b"x") == hmac.digest(data, b"x", "sha256")


@given(st.binary(max_size=64), st.integers(0, 63), st.integers(1, 255))
def test_equal_means_every_byte(value, at, change):
    assert is_equal(value, bytes(value))
    if value:
        other = bytearray(value)
        other[at % len(value)] ^= change
        assert not is_equal(value, bytes(other))


def test_values_of_two_lengths_are_not_compared():
    with pytest.raises(ValueError, match="got 1 and 2 bytes"):
        is_equal(b"a", b"ab")


def test_random_bytes_do_not_repeat():
    assert len({random_bytes(16) for _ in range(1000)}) == 1000
    assert random_bytes(0) == b""
    with pytest.raises(ValueError):
        random_bytes(257)
