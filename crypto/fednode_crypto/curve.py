"""The checks on an Ed25519 public key that signature libraries leave out (RFC 8032, section 5.1).

Rule 1: a key has one encoding; y at or above p, and a sign bit on x = 0, are refused.
Rule 2: a point of small order ([8]A is the identity) is refused: anybody can make signatures under it.
"""

P = 2**255 - 19
D = -121665 * pow(121666, -1, P) % P
SQRT_MINUS_1 = pow(2, (P - 1) // 4, P)
IDENTITY = (0, 1)

Point = tuple[int, int]


def check_public_key(encoding: bytes) -> None:
    """Raise ValueError, whose text completes "the key ...", unless these 32 bytes are a key to trust."""
    point = decompress(encoding)
    for _ in range(3):
        point = add(point, point)
    if point == IDENTITY:
        raise ValueError("is a point of small order")


def decompress(encoding: bytes) -> Point:
    """The point (x, y) of 32 bytes. Raises ValueError if they are no canonical encoding of a point."""
    if len(encoding) != 32:
        raise ValueError("is not 32 bytes long")
    number = int.from_bytes(encoding, "little")
    sign, y = number >> 255, number % 2**255
    if y >= P:
        raise ValueError("has a y that is not canonical")
    x = _square_root((y * y - 1) * pow(D * y * y + 1, -1, P) % P)
    if x == 0 and sign:
        raise ValueError("has a sign that is not canonical")
    return (x if x % 2 == sign else P - x), y


def add(a: Point, b: Point) -> Point:
    """The sum on -x^2 + y^2 = 1 + d x^2 y^2; the formula is complete, so it doubles too."""
    (x1, y1), (x2, y2) = a, b
    product = D * x1 * x2 * y1 * y2
    x3 = (x1 * y2 + x2 * y1) * pow(1 + product, -1, P) % P
    y3 = (y1 * y2 + x1 * x2) * pow(1 - product, -1, P) % P
    return x3, y3


def _square_root(square: int) -> int:
    root = pow(square, (P + 3) // 8, P)
    if root * root % P != square:
        root = root * SQRT_MINUS_1 % P
    if root * root % P != square:
        raise ValueError("is no point of the curve")
    return root
