from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Greeting(_message.Message):
    __slots__ = ("software", "protocols", "contract", "clock_ms", "roster")
    SOFTWARE_FIELD_NUMBER: _ClassVar[int]
    PROTOCOLS_FIELD_NUMBER: _ClassVar[int]
    CONTRACT_FIELD_NUMBER: _ClassVar[int]
    CLOCK_MS_FIELD_NUMBER: _ClassVar[int]
    ROSTER_FIELD_NUMBER: _ClassVar[int]
    software: str
    protocols: _containers.RepeatedScalarFieldContainer[int]
    contract: str
    clock_ms: int
    roster: str
    def __init__(self, software: _Optional[str] = ..., protocols: _Optional[_Iterable[int]] = ..., contract: _Optional[str] = ..., clock_ms: _Optional[int] = ..., roster: _Optional[str] = ...) -> None: ...

class Artifact(_message.Message):
    __slots__ = ("issuer", "digest")
    ISSUER_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    issuer: str
    digest: str
    def __init__(self, issuer: _Optional[str] = ..., digest: _Optional[str] = ...) -> None: ...

class News(_message.Message):
    __slots__ = ("kind", "envelope", "attachments")
    class Kind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        KIND_UNSPECIFIED: _ClassVar[News.Kind]
        KIND_CATALOGUE: _ClassVar[News.Kind]
        KIND_REVOCATION: _ClassVar[News.Kind]
        KIND_RECEIPT: _ClassVar[News.Kind]
        KIND_EVALUATION: _ClassVar[News.Kind]
    KIND_UNSPECIFIED: News.Kind
    KIND_CATALOGUE: News.Kind
    KIND_REVOCATION: News.Kind
    KIND_RECEIPT: News.Kind
    KIND_EVALUATION: News.Kind
    KIND_FIELD_NUMBER: _ClassVar[int]
    ENVELOPE_FIELD_NUMBER: _ClassVar[int]
    ATTACHMENTS_FIELD_NUMBER: _ClassVar[int]
    kind: News.Kind
    envelope: bytes
    attachments: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, kind: _Optional[_Union[News.Kind, str]] = ..., envelope: _Optional[bytes] = ..., attachments: _Optional[_Iterable[bytes]] = ...) -> None: ...

class WatchMessage(_message.Message):
    __slots__ = ("news", "want", "have", "gone", "send")
    NEWS_FIELD_NUMBER: _ClassVar[int]
    WANT_FIELD_NUMBER: _ClassVar[int]
    HAVE_FIELD_NUMBER: _ClassVar[int]
    GONE_FIELD_NUMBER: _ClassVar[int]
    SEND_FIELD_NUMBER: _ClassVar[int]
    news: News
    want: Want
    have: Artifact
    gone: Artifact
    send: Artifact
    def __init__(self, news: _Optional[_Union[News, _Mapping]] = ..., want: _Optional[_Union[Want, _Mapping]] = ..., have: _Optional[_Union[Artifact, _Mapping]] = ..., gone: _Optional[_Union[Artifact, _Mapping]] = ..., send: _Optional[_Union[Artifact, _Mapping]] = ...) -> None: ...

class Want(_message.Message):
    __slots__ = ("artifacts",)
    ARTIFACTS_FIELD_NUMBER: _ClassVar[int]
    artifacts: _containers.RepeatedCompositeFieldContainer[Artifact]
    def __init__(self, artifacts: _Optional[_Iterable[_Union[Artifact, _Mapping]]] = ...) -> None: ...

class Ask(_message.Message):
    __slots__ = ("artifact", "first")
    ARTIFACT_FIELD_NUMBER: _ClassVar[int]
    FIRST_FIELD_NUMBER: _ClassVar[int]
    artifact: Artifact
    first: int
    def __init__(self, artifact: _Optional[_Union[Artifact, _Mapping]] = ..., first: _Optional[int] = ...) -> None: ...

class Part(_message.Message):
    __slots__ = ("offer", "piece")
    OFFER_FIELD_NUMBER: _ClassVar[int]
    PIECE_FIELD_NUMBER: _ClassVar[int]
    offer: Offer
    piece: Piece
    def __init__(self, offer: _Optional[_Union[Offer, _Mapping]] = ..., piece: _Optional[_Union[Piece, _Mapping]] = ...) -> None: ...

class Offer(_message.Message):
    __slots__ = ("artifact", "pieces")
    ARTIFACT_FIELD_NUMBER: _ClassVar[int]
    PIECES_FIELD_NUMBER: _ClassVar[int]
    artifact: Artifact
    pieces: bytes
    def __init__(self, artifact: _Optional[_Union[Artifact, _Mapping]] = ..., pieces: _Optional[bytes] = ...) -> None: ...

class Piece(_message.Message):
    __slots__ = ("index", "data")
    INDEX_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    index: int
    data: bytes
    def __init__(self, index: _Optional[int] = ..., data: _Optional[bytes] = ...) -> None: ...

class ReceiptsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...
