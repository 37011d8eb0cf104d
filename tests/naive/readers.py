"""Reference parsers for the file readers: one character or one token at a time."""

from __future__ import annotations


def libsvm_rows(text: bytes, *, zero_based: bool = False) -> list[tuple[float, dict[int, float]]]:
    """(label, {column: value}) of each row of valid LIBSVM text; columns count from 0."""
    rows = []
    for line in text.decode().split("\n"):
        tokens = line.split("#")[0].split()
        if tokens:
            pairs = [token.split(":") for token in tokens[1:] if not token.startswith("qid:")]
            rows.append((float(tokens[0]), {int(i) - (not zero_based): float(v) for i, v in pairs}))
    return rows


def csv_cells(text: str, delimiter: str = ",") -> list[list[str]]:
    """Cells of each record of valid CSV text: quotes double inside quotes, blank lines do not count."""
    records: list[list[str]] = []
    record: list[str] = []
    cell, quoted, blank = "", False, True
    for position, c in enumerate(text):
        if c == '"':
            if not quoted and text[position - 1 : position] == '"' and cell:
                cell += '"'  # the second of a pair: back inside
            quoted = not quoted
            blank = False
        elif quoted or c not in (delimiter, "\n", "\r"):
            cell += c
            blank = False
        elif c == delimiter:
            record.append(cell)
            cell, blank = "", False
        elif c == "\n":
            if not blank:
                records.append([*record, cell])
            record, cell, blank = [], "", True
    if not blank:
        records.append([*record, cell])
    return records


def csv_record_ends(text: bytes, delimiters: str = ",") -> list[int]:
    """Return the places behind the line ends of CSV text that stand in no quoted cell: one that begins with a quote."""
    ends = []
    begins, quoted, closed = True, False, False
    for position, character in enumerate(text.decode("latin-1"), start=1):
        if quoted:
            quoted, closed = character != '"', character == '"'
        elif character == '"' and (begins or closed):  # the first of a cell, or the second of two within one
            quoted, closed = True, False
        else:
            closed = False
            if character == "\n":
                ends.append(position)
        begins = not quoted and character in f"{delimiters}\n\r"
    return ends


def csv_blocks(text: bytes, size: int) -> list[tuple[int, bytes]]:
    """Return line and text of each block: the records that start in each `size` bytes of CSV text."""
    blocks = [b""] * -(-len(text) // size)
    begin = 0
    for end in [*csv_record_ends(text), len(text)]:
        if begin < end:
            blocks[begin // size] += text[begin:end]
            begin = end
    return [(1 + b"".join(blocks[:k]).count(b"\n"), block) for k, block in enumerate(blocks)]
