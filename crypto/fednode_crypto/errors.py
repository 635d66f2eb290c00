"""Errors of this package: one sentence on what is wrong, and in `hint` what to do next."""


class CryptoError(Exception):
    """Base of all errors here; none of them ever carries secret bytes."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} {self.hint}".strip()


class PeerIdError(CryptoError):
    """A text is no peer id, or its key must not be trusted."""


class KeyFileError(CryptoError):
    """The key file is missing, already there, unreadable or not private."""


class EnvelopeError(CryptoError):
    """An envelope is malformed, of another type, or carries no valid signature."""


class StrictJsonError(CryptoError):
    """Bytes are no strict JSON, or a value has no canonical form."""


class DigestError(CryptoError):
    """A piece list does not hold together."""
