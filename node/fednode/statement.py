"""Statements: plain values that are signed. What all kinds share: canonical payload, digest, sealing and reading.

Rule 1: a statement is verified first and parsed from the very bytes that were verified.
Rule 2: each kind has its own payload type, so a statement of one kind never passes for another.
Rule 3: the formats are frozen in `tests/vectors/`; a change of a format is a new version of its payload type.
"""

from collections.abc import Sequence
from typing import Annotated, ClassVar, NewType, Self

from pydantic import AfterValidator, Field, StringConstraints, ValidationError

from fednode.contract import Value
from fednode.errors import PeerError
from fednode_crypto import strict_json
from fednode_crypto.digest import sha256_hex
from fednode_crypto.envelope import open_envelope, seal
from fednode_crypto.errors import CryptoError
from fednode_crypto.identity import Identity, PeerId, public_bytes

MAX_INTEGER = 2**53 - 1
STATEMENT_LIMIT = 64 * 1024

Envelope = NewType("Envelope", bytes)
Digest = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
Seconds = Annotated[int, Field(ge=0, le=MAX_INTEGER)]
MAX_REASON = 500
Reason = Annotated[str, StringConstraints(min_length=1, max_length=MAX_REASON)]


def _canonical(text: PeerId) -> PeerId:
    """Remembered by `public_bytes`: statements name few peers many times, and to check a key takes a third of a millisecond."""
    public_bytes(text)
    return text


PeerIdText = Annotated[PeerId, AfterValidator(_canonical)]


class Statement(Value):
    """Base of all statements: `KIND` names the payload type, `LIMIT` bounds the envelope in bytes."""

    KIND: ClassVar[str]
    LIMIT: ClassVar[int] = STATEMENT_LIMIT

    contract: Digest
    created: Seconds

    @classmethod
    def payload_type(cls) -> str:
        """The DSSE payload type of this kind."""
        return f"application/vnd.fednode.{cls.KIND}.v1+json"

    def payload(self) -> bytes:
        """The canonical JSON bytes that are signed."""
        return strict_json.dumps(self.model_dump(mode="json"))

    @property
    def digest(self) -> str:
        """SHA-256 (hex) of the payload; what other statements refer to."""
        return sha256_hex(self.payload())

    def seal(self, *signers: Identity) -> Envelope:
        """The signed envelope around this statement."""
        return Envelope(seal(self.payload_type(), self.payload(), signers))

    @classmethod
    def read(cls, envelope: bytes) -> tuple[Self, Sequence[PeerId]]:
        """The statement in an envelope, and the peers whose signatures on it are valid (at least one).

        Raises PeerError `bad-statement` if anything about the envelope, its signatures, its JSON or its fields is wrong, or if
        the payload is not in canonical form.
        """
        try:
            opened = open_envelope(envelope, cls.payload_type(), cls.LIMIT)
            strict_json.loads(opened.payload, cls.LIMIT)
            statement = cls.model_validate_json(opened.payload)
        except (CryptoError, ValidationError) as error:
            raise PeerError("bad-statement", f"The {cls.KIND} can't be accepted: {_first_line(error)}.") from error
        if statement.payload() != opened.payload:
            raise PeerError("bad-statement", f"The {cls.KIND} is not in canonical form.")
        return statement, opened.signers


def _first_line(error: Exception) -> str:
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False, include_input=False)[0]
        return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
    return str(error).rstrip(".").splitlines()[0]
