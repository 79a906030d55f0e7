"""CSV: with a mapping that says what the columns are, or by columns whose names are known."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from groundspeed.service.formats.csv_columns import (
    DIRECTIONS,
    MAPPING_HELP,
    SEPARATOR,
    ColumnMap,
    delimiter_of,
    guess,
    parse_mapping,
    used_by,
)
from groundspeed.service.formats.records import (
    Clock,
    Fact,
    Item,
    Machine,
    Metric,
    Origin,
    Record,
    Refused,
    Scalar,
    Skipped,
    Where,
    number_of,
)
from groundspeed.service.formats.source import Document
from groundspeed.service.formats.times import parse_time
from groundspeed.service.formats.units import metric as metric_of
from groundspeed.service.formats.units import parse_unit

__all__ = ["MAPPING_HELP", "NAME", "ColumnMap", "parse", "parse_mapping", "sniff"]

NAME = "csv"
MAX_COLUMNS = 2000


def sniff(head: str) -> bool:
    for line in head.splitlines()[:50]:
        if not line.strip() or SEPARATOR.fullmatch(line.strip()):
            continue
        columns = [c.strip().strip('"') for c in line.strip().lstrip("#").split(delimiter_of(line))]
        if len(columns) > 1 and guess(columns) is not None:
            return True
        if not line.startswith("#"):
            return False
    return False


def has(head: str, mapping: ColumnMap) -> bool:
    """Whether one of the first lines is a header with all columns that the mapping names."""
    wanted = set(used_by(mapping))
    for line in head.replace("\0", "").splitlines()[:50]:
        mark = mapping.delimiter or delimiter_of(line)
        if wanted <= {cell.strip() for row in csv.reader([line.lstrip("#")], delimiter=mark) for cell in row}:
            return True
    return False


@dataclass(slots=True)
class _Table:
    """Rows of cells with the line that each ends in; the header is the first line that can be one."""

    document: Document
    mapping: ColumnMap | None
    number: int = 0
    _said: str = ""

    def rows(self) -> Iterator[list[str]]:
        """The header first, then the rest. Raises :class:`Refused` when no line is a header."""
        lines = self.document.lines()
        header = self._first(lines)
        delimiter = (self.mapping.delimiter if self.mapping else "") or self._said or delimiter_of(header)
        yield from csv.reader(self._texts(header, lines), delimiter=delimiter)

    def decimal_comma(self, columns: int) -> bool:
        if self.mapping and self.mapping.decimal:
            return self.mapping.decimal == ","
        return columns > 1 and self._semicolons

    _semicolons: bool = False

    def _first(self, lines: Iterator[tuple[int, str]]) -> str:
        commented = ""
        for number, text in lines:
            clean = text.replace("\0", "")
            if match := SEPARATOR.fullmatch(clean.strip()):
                self._said = match[1]
            elif clean.strip():
                self.number = number
                if not clean.startswith("#") or self._usable(clean):
                    self._semicolons = (self._said or delimiter_of(clean)) == ";"
                    return clean
                commented = commented or clean
        if not commented:
            self.document.refuse("is empty.", 1)
        self.number = 1
        return commented

    def _usable(self, line: str) -> bool:
        """A line that begins with # is the header when its columns are the ones that are looked for."""
        cells = [c.strip().strip('"') for c in line.lstrip("#").split(self._said or delimiter_of(line))]
        if self.mapping:
            return set(used_by(self.mapping)) <= set(cells)
        return guess(cells) is not None

    def _texts(self, header: str, lines: Iterator[tuple[int, str]]) -> Iterator[str]:
        yield header + "\n"
        for number, text in lines:
            self.number = number
            yield text.replace("\0", "") + "\n"


def parse(document: Document, mapping: ColumnMap | None = None) -> Iterator[Item]:
    """The values of all rows. Raises :class:`Refused` when the columns are not known and no mapping was given."""
    table = _Table(document, mapping)
    columns: list[str] | None = None
    comma = False
    origins: dict[tuple[str, ...], Origin] = {}
    try:
        for row in table.rows():
            if not any(cell.strip() for cell in row):
                continue
            if columns is None:
                columns = _header(document, row, table.number)
                mapping = _checked(document, mapping, columns, table.number)
                comma = table.decimal_comma(len(columns))
                continue
            assert mapping is not None
            where = document.where(table.number)
            if mapping.comment and row[0].lstrip().startswith(mapping.comment):
                yield Skipped(f"is switched off with {mapping.comment}", where)
            elif len(row) != len(columns):
                yield Skipped(f"has {len(row)} cells where the header has {len(columns)}", where)
            else:
                yield from _row(dict(zip(columns, row, strict=True)), mapping, where, origins, comma)
    except csv.Error as error:
        raise Refused(f"is no CSV ({error}).", document.where(table.number)) from error


def _header(document: Document, row: list[str], number: int) -> list[str]:
    columns = [cell.strip() for cell in row]
    columns[0] = columns[0].lstrip("#").strip()
    if len(columns) > MAX_COLUMNS:
        document.refuse(f"has {len(columns)} columns; {MAX_COLUMNS} are read.", number)
    if len(set(columns)) != len(columns):
        document.refuse("has two columns of one name.", number)
    return columns


def _checked(document: Document, mapping: ColumnMap | None, columns: list[str], number: int) -> ColumnMap:
    known = mapping or guess(columns)
    if known is None:
        advice = f"Give a mapping: {MAPPING_HELP}."
        document.refuse(f"the columns are not known ({', '.join(columns)[:300]}).", number, advice)
    missing = sorted(set(used_by(known)) - set(columns))
    if missing:
        document.refuse(f"has no column {', '.join(missing)}.", number, f"Its columns are {', '.join(columns)[:300]}.")
    return known


def _row(
    cells: Mapping[str, str], mapping: ColumnMap, where: Where, origins: dict[tuple[str, ...], Origin], comma: bool
) -> Iterator[Item]:
    benchmark = "/".join(cells[c].strip() for c in mapping.benchmark) or mapping.constant or "table"
    params = {_param_name(c): _scalar(cells[c].strip()) for c in mapping.params if cells[c].strip()}
    origin = _origin(cells, mapping, origins)
    status = cells[mapping.outcome].strip().lower() if mapping.outcome else "ok"
    if mapping.value:
        name = cells[mapping.metric].strip() if mapping.metric else "value"
        unit = cells[mapping.unit].strip() if mapping.unit else ""
        pairs = [(cells[mapping.value], name, unit, "")]
    else:
        shared = cells[mapping.unit].strip() if mapping.unit else ""
        pairs = [(cells[m.column], m.column, m.unit or shared, m.direction) for m in mapping.metrics]
    if mapping.zeros_fail and all(number_of(text) == 0.0 for text, *_ in pairs):
        status = "0 in every column"  # how TorchDynamo's benchmarks write a model that failed
    for text, name, unit, direction in pairs:
        plain = _with_point(text.strip()) if comma else text.strip()
        yield _value(origin, benchmark, params, where, status, (plain, name, unit, direction))


def _with_point(text: str) -> str:
    """A number with a decimal comma ("1.234,5", "1 234,5") as one with a point."""
    if "," not in text or not re.fullmatch(r"[+-]?[\d. \u00a0\u202f']*,\d+(?:[eE][+-]?\d+)?", text):
        return text
    return re.sub(r"[. \u00a0\u202f']", "", text).replace(",", ".")


def _value(
    origin: Origin,
    benchmark: str,
    params: dict[str, Scalar],
    where: Where,
    status: str,
    cell: tuple[str, str, str, str],
) -> Item:
    text, name, unit_text, direction = cell
    metric, factor = _metric(name, unit_text, direction)
    value = number_of(text)
    if status not in {"", "ok", "pass", "passed", "success"}:
        return Record(
            origin, benchmark, metric, where, params=params, outcome="failed", reason=f'its row says "{status[:60]}"'
        )
    if text == "":
        return Record(origin, benchmark, metric, where, params=params, outcome="failed", reason=f"{name} is empty")
    if value is None:
        advice = (
            " (is its comma the decimal mark? Then say --map decimal=comma)" if re.fullmatch(r"-?\d+,\d+", text) else ""
        )
        return Skipped(f'{name} "{text[:60]}" is no number{advice}', where)
    return Record(origin, benchmark, metric, where, value * factor, params)


_SUFFIX = re.compile(
    r"^(.*?)[_ (\[]+(ns|us|ms|s|sec|seconds|kb|mb|gb|bytes|b|kib|mib|gib|gb/s|gbs|mb/s|mbs|%)[)\]]?$", re.IGNORECASE
)
_GLUED = {"gbs": "GB/s", "mbs": "MB/s"}


def _metric(name: str, unit_text: str, direction: str) -> tuple[Metric, float]:
    if not unit_text and (match := _SUFFIX.match(name)):
        unit_text = _GLUED.get(match[2].lower(), match[2])
    unit = parse_unit(unit_text)
    better = DIRECTIONS.get(direction)
    clock: Clock = "wall" if unit.kind in {"time", "rate"} else "none"
    return metric_of(
        name, unit, clock=clock, direction=better, gate=(unit.direction if better is None else better) != 0
    ), unit.factor


def _param_name(column: str) -> str:
    return re.sub(r"^(?:param[._:]|parameter_)\s*", "", column, flags=re.IGNORECASE) or column


def _scalar(text: str) -> Scalar:
    return int(text) if re.fullmatch(r"-?(0|[1-9]\d{0,17})", text) else text[:200]


def _origin(cells: Mapping[str, str], mapping: ColumnMap, origins: dict[tuple[str, ...], Origin]) -> Origin:
    used = [mapping.commit, mapping.time, mapping.machine, *mapping.environment]
    key = tuple(cells[c].strip() if c else "" for c in used)
    if key not in origins:
        if len(origins) > 10_000:
            origins.clear()
        commit, moment, machine = key[:3]
        origins[key] = Origin(
            tool=NAME,
            commit=commit.lower() if re.fullmatch(r"[0-9a-fA-F]{7,64}", commit) else commit[:64],
            measured_at=parse_time(number_of(moment) if re.fullmatch(r"\d{9,19}(\.\d+)?", moment) else moment),
            machine=Machine(name=machine, identity=bool(machine)),
            environment=tuple(Fact("stack", c, v) for c, v in zip(mapping.environment, key[3:], strict=True) if v),
        )
    return origins[key]
