from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Document(_message.Message):
    __slots__ = ("json",)
    JSON_FIELD_NUMBER: _ClassVar[int]
    json: bytes
    def __init__(self, json: _Optional[bytes] = ...) -> None: ...

class StatusRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Image(_message.Message):
    __slots__ = ("name", "data")
    NAME_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    name: str
    data: bytes
    def __init__(self, name: _Optional[str] = ..., data: _Optional[bytes] = ...) -> None: ...

class PredictRequest(_message.Message):
    __slots__ = ("images", "product")
    IMAGES_FIELD_NUMBER: _ClassVar[int]
    PRODUCT_FIELD_NUMBER: _ClassVar[int]
    images: _containers.RepeatedCompositeFieldContainer[Image]
    product: str
    def __init__(self, images: _Optional[_Iterable[_Union[Image, _Mapping]]] = ..., product: _Optional[str] = ...) -> None: ...

class EvaluateRequest(_message.Message):
    __slots__ = ("source", "labels", "confusion_png", "skip_bad", "federation")
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    CONFUSION_PNG_FIELD_NUMBER: _ClassVar[int]
    SKIP_BAD_FIELD_NUMBER: _ClassVar[int]
    FEDERATION_FIELD_NUMBER: _ClassVar[int]
    source: str
    labels: _containers.RepeatedScalarFieldContainer[str]
    confusion_png: str
    skip_bad: bool
    federation: bool
    def __init__(self, source: _Optional[str] = ..., labels: _Optional[_Iterable[str]] = ..., confusion_png: _Optional[str] = ..., skip_bad: _Optional[bool] = ..., federation: _Optional[bool] = ...) -> None: ...

class SamplesRequest(_message.Message):
    __slots__ = ("png", "per_label")
    PNG_FIELD_NUMBER: _ClassVar[int]
    PER_LABEL_FIELD_NUMBER: _ClassVar[int]
    png: str
    per_label: int
    def __init__(self, png: _Optional[str] = ..., per_label: _Optional[int] = ...) -> None: ...

class RevokeRequest(_message.Message):
    __slots__ = ("peer", "reason")
    PEER_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    peer: str
    reason: str
    def __init__(self, peer: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class RestoreRequest(_message.Message):
    __slots__ = ("peer",)
    PEER_FIELD_NUMBER: _ClassVar[int]
    peer: str
    def __init__(self, peer: _Optional[str] = ...) -> None: ...

class WithdrawRequest(_message.Message):
    __slots__ = ("label",)
    LABEL_FIELD_NUMBER: _ClassVar[int]
    label: str
    def __init__(self, label: _Optional[str] = ...) -> None: ...

class OverrideRequest(_message.Message):
    __slots__ = ("label", "reason")
    LABEL_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    label: str
    reason: str
    def __init__(self, label: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class ImportClassifierRequest(_message.Message):
    __slots__ = ("file", "model", "labels")
    FILE_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    file: str
    model: str
    labels: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, file: _Optional[str] = ..., model: _Optional[str] = ..., labels: _Optional[_Iterable[str]] = ...) -> None: ...

class LeaveRequest(_message.Message):
    __slots__ = ("reason",)
    REASON_FIELD_NUMBER: _ClassVar[int]
    reason: str
    def __init__(self, reason: _Optional[str] = ...) -> None: ...

class RescanRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class StopRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...
