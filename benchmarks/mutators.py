"""Random changes of files, by what the files consist of."""

import io
import random
import re
import struct
import zipfile

NUMBERS = [
    *[b'-1', b'0', b'1e400', b'.nan', b'NaN', b'-.inf', b'1e12', b'true'],
    *[b'7' * 18, b'9' * 400, b'9' * 5000, b'0x7fffffff', b'1_000_000_000'],
    b'100000000',
]
TEXTS = [
    *[b'[' * 100_000, b'{"a":' * 9_000, b'{a: ' * 999, b',' * 20_000],
    *[b'[' * 99 + b']' * 99, b'(' * 500, b'-' * 5000, b'x' * 9000],
    b'"' + b'\\"' * 100_000 + b'\n',
    *[b'\0', b'\n', b'\xff\xfe', b'"', b': ', b'*a', b'!!x ', b'a:b', b'null'],
    *[b'\x1b[2J', '\u202e'.encode(), b'[]', b'{}', b"''", b'&a [*a]', b'- '],
]
INTEGERS = [
    *[0, 1, 2, 7, 8, 12, 14, 99, 127, 128, 255, 2**15, 2**16 - 1],
    *[2**24, 2**31 - 1, 2**31, 2**32 - 1, 2**40, 2**63 - 1, 2**63, 2**64 - 1],
]
METHODS = [*[zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED] * 3, *[zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA]]


def mutate_bytes(data: bytes, other: bytes, chance: random.Random) -> bytes:
    """Change a file in one place to three."""
    for _ in range(chance.choice([1, 1, 2, 3])):
        start, end = sorted(chance.choices(range(len(data) + 1), k=2))
        if chance.random() < 0.7:
            end = min(end, start + chance.randrange(1, 12))
        changed = _change(data[start:end], other, chance)
        end = len(data) if chance.random() < 0.05 else end  # Cut short.
        data = data[:start] + changed + data[end:]
    return data


def _change(part: bytes, other: bytes, chance: random.Random) -> bytes:
    match chance.randrange(9):
        case 0:
            return bytes(byte ^ 1 << chance.randrange(8) for byte in part)
        case 1:
            return b''
        case 2:
            return part * chance.choice([2, 3, 50])
        case 3:
            return chance.randbytes(len(part))
        case 4:
            start = chance.randrange(len(other) or 1)
            return other[start : start + len(part)]
        case 5:
            return chance.choice(TEXTS)
        case 6:
            return chance.choice(INTEGERS).to_bytes(8, 'little')
        case 7:
            return re.sub(rb'\d+', chance.choice(NUMBERS), part, count=3)
    return chance.choice(NUMBERS)


def mutate_text(data: bytes, other: bytes, chance: random.Random) -> bytes:
    """Change whole values or lines of YAML, JSON or a table."""
    if chance.random() < 0.4:
        return mutate_bytes(data, other, chance)
    values = [match.span() for match in re.finditer(rb'[^\s:,\[\]{}"]+', data)]
    lines = data.splitlines(keepends=True)
    if not values or chance.random() < 0.3:
        row, target = chance.randrange(len(lines)), chance.randrange(len(lines))
        lines[target : target + chance.randrange(2)] = [lines[row] * chance.choice([1, 1, 2, 500])]
        return b''.join(lines)
    for _ in range(chance.choice([1, 1, 2])):
        start, end = chance.choice(values)
        swapped = data[slice(*chance.choice(values))]
        value = chance.choice([chance.choice(NUMBERS), chance.choice(TEXTS), swapped])
        data = data[:start] + value + data[end:]
    return data


def mutate_zip(data: bytes, other: bytes, chance: random.Random) -> bytes:
    """Change an archive: its headers, or what it holds with sums that fit."""
    kind = chance.random()
    if kind < 0.3:
        return mutate_bytes(data, other, chance)
    if kind < 0.6:
        return _mutate_headers(data, chance)
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = [(name, archive.read(name)) for name in archive.namelist()]
    chosen = chance.randrange(len(members))
    name, content = members[chosen]
    if chance.random() < 0.6:  # Most of all what is said of an array.
        head, tail = content[:128], content[128:]
        content = mutate_text(head, other, chance) + tail
    else:
        content = mutate_bytes(content, other, chance)
    if chance.random() < 0.1:
        content += bytes(2 ** chance.randrange(10, 24))
    members[chosen] = name, content
    if chance.random() < 0.1:
        members.append(chance.choice(members))
    file = io.BytesIO()
    with zipfile.ZipFile(file, 'w', compresslevel=1) as archive:
        for name, content in members:
            # Without the name being told that it is there twice.
            info = zipfile.ZipInfo(name)
            info.compress_type = chance.choice(METHODS)
            archive.NameToInfo.pop(name, None)
            archive.writestr(info, content)
    return file.getvalue()


def _mutate_headers(data: bytes, chance: random.Random) -> bytes:
    """Overwrite fields of headers of an archive, such as methods and sizes."""
    changed = bytearray(data)
    headers = [
        match.start() for match in re.finditer(rb'PK(\x01\x02|\x03\x04|\x05\x06)', data)
    ] or [0]
    for _ in range(chance.choice([1, 1, 2, 4])):
        position = chance.choice(headers) + chance.randrange(4, 46)
        form = chance.choice('BHI')
        size = struct.calcsize(form)
        value = chance.choice(INTEGERS) % 256**size
        if position + size <= len(changed):
            struct.pack_into(f'<{form}', changed, position, value)
    return bytes(changed)


def mutate_tensors(data: bytes, other: bytes, chance: random.Random) -> bytes:
    """Change the header of tensors, or any bytes."""
    if chance.random() < 0.3:
        return mutate_bytes(data, other, chance)
    size = int.from_bytes(data[:8], 'little')
    header = mutate_text(data[8 : 8 + size], other, chance)
    length = chance.choice(INTEGERS) if chance.random() < 0.1 else len(header)
    return length.to_bytes(8, 'little') + header + data[8 + size :]
