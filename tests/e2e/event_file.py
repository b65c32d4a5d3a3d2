"""A reader of TensorBoard's event files that checks lengths and checksums: TFRecord, and the wire format of Protocol Buffers."""
import pathlib
import struct


def crc32c_table():
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
        table.append(byte)
    return table


TABLE = crc32c_table()


def masked_crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ TABLE[(crc ^ byte) & 255]
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def records(data):
    """The records of a whole file; ValueError where one is damaged or cut off."""
    at = 0
    while at < len(data):
        if len(data) - at < 16:
            raise ValueError(f"{len(data) - at} bytes at the end")
        length, of_length = struct.unpack_from("<QI", data, at)
        if of_length != masked_crc32c(data[at:at + 8]):
            raise ValueError(f"the checksum of the length at {at}")
        record, at = data[at + 12:at + 12 + length], at + 16 + length
        if at > len(data) or struct.unpack_from("<I", data, at - 4)[0] != masked_crc32c(record):
            raise ValueError(f"the checksum of the record that ends at {at}")
        yield record


def varint(data, at):
    value = shift = 0
    while True:
        value |= (data[at] & 127) << shift
        shift, at = shift + 7, at + 1
        if data[at - 1] < 128:
            return value, at


def fields(data):
    """{field: [value]}: varints as int, fixed ones and texts as bytes."""
    found, at = {}, 0
    while at < len(data):
        key, at = varint(data, at)
        wire = key & 7
        if wire == 0:
            value, at = varint(data, at)
        else:
            length, at = {1: (8, at), 5: (4, at)}.get(wire) or varint(data, at)
            if wire not in (1, 2, 5) or at + length > len(data):
                raise ValueError(f"field {key >> 3} of type {wire}")
            value, at = data[at:at + length], at + length
        found.setdefault(key >> 3, []).append(value)
    return found


def float64(data):
    return struct.unpack("<d", data)[0]


class Events:
    """What a directory of event files holds, in its order."""

    def __init__(self, directory):
        self.files = sorted(pathlib.Path(directory).glob("*tfevents*"))
        self.wall_times, self.versions, self.sessions, self.graphs = [], [], [], []
        self.scalars, self.histograms = {}, {}  # by tag: [(step, value)]
        for file in self.files:
            for record in records(file.read_bytes()):
                self.add(fields(record))

    def add(self, event):
        step = event.get(2, [0])[0]
        self.wall_times.append(float64(event[1][0]))
        self.versions += event.get(3, [])
        self.graphs += event.get(4, [])
        self.sessions += [(step, fields(log)[1][0]) for log in event.get(7, [])]
        for summary in event.get(5, []):
            for value in map(fields, fields(summary)[1]):
                tag = value[1][0].decode()
                if 2 in value:
                    self.scalars.setdefault(tag, []).append((step, struct.unpack("<f", value[2][0])[0]))
                else:
                    self.histograms.setdefault(tag, []).append((step, self.histogram(fields(value[5][0]))))

    @staticmethod
    def histogram(message):
        numbers = {name: float64(message[i + 1][0]) for i, name in enumerate(("min", "max", "num", "sum", "sum_squares"))}
        doubles = [struct.unpack(f"<{len(message[field][0]) // 8}d", message[field][0]) for field in (6, 7)]
        return {**numbers, "limits": doubles[0], "counts": doubles[1]}

    def nodes(self):
        """{name: (op, inputs)} of the graph."""
        nodes = {}
        for node in map(fields, fields(self.graphs[0])[1]):
            nodes[node[1][0].decode()] = (node[2][0].decode(), [text.decode() for text in node.get(3, [])])
        return nodes
