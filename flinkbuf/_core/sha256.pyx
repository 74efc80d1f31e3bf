"""The core's own SHA-256, for tests against Python's: programs take `hashlib`, `hmac` and `secrets`."""

from flinkbuf._core.errors cimport check


def sha256(bytes data not None):
    """Return the digest of `data`, 32 bytes.

    Examples
    --------
    >>> sha256(b"abc").hex()[:16]
    'ba7816bf8f01cfea'
    """
    cdef fb_sha256 state
    cdef uint8_t digest[FB_SHA256_SIZE]
    fb_sha256_open(&state)
    fb_sha256_add(&state, <const char*> data, <size_t> len(data))
    fb_sha256_finish(&state, digest)
    return digest[:FB_SHA256_SIZE]


def hmac_sha256(bytes key not None, bytes data not None):
    """Return the HMAC of `data` under `key`, 32 bytes."""
    cdef fb_sha256_hmac state
    cdef uint8_t digest[FB_SHA256_SIZE]
    fb_sha256_hmac_open(&state, <const char*> key, <size_t> len(key))
    fb_sha256_hmac_add(&state, <const char*> data, <size_t> len(data))
    fb_sha256_hmac_finish(&state, digest)
    return digest[:FB_SHA256_SIZE]


def is_equal(bytes left not None, bytes right not None):
    """Whether two values of one length are the same, in a time that tells nothing about them."""
    if len(left) != len(right):
        raise ValueError(f"values of one length are compared, got {len(left)} and {len(right)} bytes")
    return fb_sha256_is_equal(<const char*> left, <const char*> right, <size_t> len(left))


def random_bytes(size_t size):
    """Return at most 256 bytes that nobody can foretell."""
    cdef uint8_t drawn[256]
    check(fb_sha256_random(drawn, size))
    return drawn[:size]
