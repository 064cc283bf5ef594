"""Protocol buffers in thirty lines, to read what foretrace reads with other eyes, and to write files for it."""

from __future__ import annotations

import struct
from collections.abc import Iterator

Value = int | float | str | bytes


def varint(data: bytes, at: int) -> tuple[int, int]:
    result = shift = 0
    while True:
        byte = data[at]
        at += 1
        result |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return result, at


def fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    at = 0
    while at < len(data):
        tag, at = varint(data, at)
        kind = tag & 7
        if kind == 0:
            value, at = varint(data, at)
            yield tag >> 3, value
        elif kind == 2:
            length, at = varint(data, at)
            yield tag >> 3, data[at : at + length]
            at += length
        else:
            length = {1: 8, 5: 4}[kind]
            yield tag >> 3, data[at : at + length]
            at += length


def message(data: bytes) -> dict[int, list]:
    out: dict[int, list] = {}
    for field, value in fields(data):
        out.setdefault(field, []).append(value)
    return out


def write_varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def write(*pairs: tuple[int, Value | None]) -> bytes:
    """A message of these fields; None is left out."""
    out: list[bytes] = []
    for field, value in pairs:
        if value is None:
            continue
        if isinstance(value, int):
            out += (write_varint(field << 3), write_varint(value))
        elif isinstance(value, float):
            out += (write_varint(field << 3 | 1), struct.pack("<d", value))
        else:
            data = value.encode() if isinstance(value, str) else value
            out += (write_varint(field << 3 | 2), write_varint(len(data)), data)
    return b"".join(out)
