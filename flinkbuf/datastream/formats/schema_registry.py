"""A registry of schemas, as Confluent's, and the messages that name a schema of it by its number."""

from __future__ import annotations

import base64
import http.client
import json
import ssl
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from flinkbuf.errors import CorruptDataError, FlinkbufError

_MAGIC = 0
_HEADER_BYTES = 5  # the magic one, and four of the number of a schema
_TIMEOUT_S = 10.0
_PAUSES_S = (0.1, 0.5, 2.0)  # before a registry that is away is asked again
_LARGEST_ANSWER = 16 << 20
_CONFIGS = (
    "basic.auth.user.info",
    "bearer.auth.token",
    "ssl.ca.location",
    "ssl.certificate.location",
    "ssl.key.location",
)


@dataclass(frozen=True)
class RegisteredSchema:
    """A schema that a registry knows by a number."""

    text: str
    kind: str  # AVRO, PROTOBUF or JSON
    references: tuple[tuple[str, int], ...] = ()  # subject and version of schemas that it uses by name


class SchemaRegistry:
    """Asks a registry of schemas over HTTP; what it has said is kept, since a number never means anything else.

    Parameters
    ----------
    url : str
        Where it is; several of them, with commas, are tried in turn.
    configs : mapping
        ``basic.auth.user.info`` is user:password, ``bearer.auth.token`` a token; ``ssl.ca.location``,
        ``ssl.certificate.location`` and ``ssl.key.location`` are files.

    Raises
    ------
    ValueError
        A URL that is none, or a property that is not known.
    """

    def __init__(self, url: str, configs: Mapping[str, str]) -> None:
        self._urls = [each.strip().rstrip("/") for each in url.split(",")]
        for each in self._urls:
            if urllib.parse.urlsplit(each).scheme not in ("http", "https"):
                raise ValueError(f"the URL of a schema registry begins with http:// or https://, got {each!r}")
        unknown = sorted(set(configs) - set(_CONFIGS))
        if unknown:
            raise ValueError(f"a schema registry has no property {unknown[0]!r}; it has {', '.join(_CONFIGS)}")
        self._configs = dict(configs)
        self._schemas: dict[int, RegisteredSchema] = {}

    def schema_of(self, number: int) -> RegisteredSchema:
        """Return the schema that a number stands for."""
        if number not in self._schemas:
            self._schemas[number] = _schema_in(self._ask(f"/schemas/ids/{number}"))
        return self._schemas[number]

    def version_of(self, subject: str, version: int) -> RegisteredSchema:
        """Return a version of a subject."""
        return _schema_in(self._ask(f"/subjects/{urllib.parse.quote(subject, '')}/versions/{version}"))

    def register(self, subject: str, schema_text: str) -> int:
        """Have a schema of Avro known as the newest of a subject, unless it is one of its; return its number."""
        body = json.dumps({"schema": schema_text}).encode()
        answer = self._ask(f"/subjects/{urllib.parse.quote(subject, '')}/versions", body)
        number = answer.get("id")
        if not isinstance(number, int) or not 0 <= number < 1 << 31:
            raise FlinkbufError(f"the schema registry at {self._urls[0]} gave no number for a schema: {answer}")
        return number

    def _ask(self, path: str, body: bytes | None = None) -> dict[str, Any]:
        for pause_s in (*_PAUSES_S, None):
            for url in self._urls:
                try:
                    return self._answer_of(url + path, body)
                except urllib.error.HTTPError as error:
                    said = error.read(2_000).decode("utf-8", "replace")
                    if error.code < 500 and error.code != 429:
                        raise FlinkbufError(f"the schema registry refuses {url + path}: {error.code} {said}") from None
                    failure = f"{error.code} {said}"
                except (OSError, http.client.HTTPException) as error:
                    if isinstance(getattr(error, "reason", None), ssl.SSLCertVerificationError):
                        raise FlinkbufError(
                            f"the schema registry at {url} has a certificate that is not trusted: {error}"
                        ) from error
                    failure = str(error)
            if pause_s is not None:
                time.sleep(pause_s)
        raise FlinkbufError(f"the schema registry at {', '.join(self._urls)} does not answer: {failure}")

    def _answer_of(self, url: str, body: bytes | None) -> dict[str, Any]:
        headers = {"Accept": "application/vnd.schemaregistry.v1+json, application/json"}
        if body is not None:
            headers["Content-Type"] = "application/vnd.schemaregistry.v1+json"
        if "basic.auth.user.info" in self._configs:
            user = base64.b64encode(self._configs["basic.auth.user.info"].encode()).decode()
            headers["Authorization"] = f"Basic {user}"
        elif "bearer.auth.token" in self._configs:
            headers["Authorization"] = f"Bearer {self._configs['bearer.auth.token']}"
        context = None
        if url.startswith("https:"):
            context = ssl.create_default_context(cafile=self._configs.get("ssl.ca.location"))
            if "ssl.certificate.location" in self._configs:
                context.load_cert_chain(
                    self._configs["ssl.certificate.location"], self._configs.get("ssl.key.location")
                )
        request = urllib.request.Request(url, body, headers)
        with urllib.request.urlopen(request, timeout=_TIMEOUT_S, context=context) as response:
            data = response.read(_LARGEST_ANSWER)
        try:
            answer = json.loads(data)
        except ValueError as error:
            raise FlinkbufError(f"{url} is no schema registry: it answered {data[:100]!r}") from error
        if not isinstance(answer, dict):
            raise FlinkbufError(f"{url} is no schema registry: it answered {data[:100]!r}")
        return answer


def _schema_in(answer: Mapping[str, Any]) -> RegisteredSchema:
    if not isinstance(answer.get("schema"), str):
        raise FlinkbufError(f"a schema registry answered without a schema: {answer}")
    references = tuple((str(each["subject"]), int(each["version"])) for each in answer.get("references") or ())
    return RegisteredSchema(answer["schema"], answer.get("schemaType", "AVRO"), references)


def numbered(number: int, message: bytes) -> bytes:
    """Return a message behind the number of its schema.

    Examples
    --------
    >>> numbered(258, b"abc")
    b'\\x00\\x00\\x00\\x01\\x02abc'
    """
    return bytes([_MAGIC]) + number.to_bytes(4, "big") + message


def number_of(message: bytes) -> int:
    """Return the number of the schema that a message begins with.

    Raises
    ------
    CorruptDataError
        It begins otherwise.
    """
    if len(message) < _HEADER_BYTES or message[0] != _MAGIC:
        raise CorruptDataError(
            f"{message[:20]!r} does not begin with a byte of 0 and the number of a schema, as messages do that were "
            "written with a schema registry; for others there is AvroRowDeserializationSchema"
        )
    return int.from_bytes(message[1:_HEADER_BYTES], "big")
