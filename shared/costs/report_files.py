"""The files of a report. Money and amounts are decimals in them, so that what adds up still does for whoever reads them.

Parquet is written by pyarrow, which is large, and imported when it is first needed. The file of the jobs holds all of an account: the
other files, and reports by other groups, are made of it.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from decimal import ROUND_HALF_EVEN, Context, Decimal
from typing import Any, Final

from shared.costs.accounts import Account, Basis
from shared.costs.model import CapacityType, CostRow, RowKind, Window
from shared.costs.reports import AllocationRow

_BASIS: Final = b"gpufleet.basis"
"""Where the basis stands in the file's own metadata, as JSON."""

_MONEY: Final = (38, 9)
_SECONDS: Final = (38, 15)
"""Cores can be of nanos, and times are of microseconds."""
_BYTE_SECONDS: Final = (38, 6)

_LATER: Final[dict[str, Any]] = {"job_name": None}
"""Columns that files of earlier releases don't have."""

_UNITS: Final = {size: Decimal(1).scaleb(-size[1]) for size in (_MONEY, _SECONDS, _BYTE_SECONDS)}
_ROUNDING: Final = Context(prec=60, rounding=ROUND_HALF_EVEN, traps=[])

_AMOUNTS: Final = {
    "cpu_core_seconds": _SECONDS,
    "cpu_core_hours": _MONEY,
    "cpu_cost": _MONEY,
    "ram_byte_seconds": _BYTE_SECONDS,
    "ram_gib_hours": _MONEY,
    "ram_cost": _MONEY,
    "gpu_seconds": _SECONDS,
    "gpu_hours": _MONEY,
    "gpu_cost": _MONEY,
    "total_cost": _MONEY,
}
_TEXTS: Final = ("kind", "region", "cluster", "namespace", "job_id", "job_name")
_MORE_TEXTS: Final = ("submitted_by", "instance_type", "capacity_type", "price_source")


def allocation_file(rows: Sequence[AllocationRow]) -> bytes:
    """Rows by namespace as Parquet, the columns in GCO's order."""
    import pyarrow as pa

    kinds: dict[str, Any] = {}
    for name, described in AllocationRow.model_fields.items():
        if described.annotation is Decimal:
            kinds[name] = pa.decimal128(*_MONEY)
        else:
            kinds[name] = pa.string() if described.annotation is str else pa.timestamp("ms", tz="UTC")
    schema = pa.schema(list(kinds.items()))
    columns = {
        name: [_scaled(getattr(row, name), _MONEY) if pa.types.is_decimal(kind) else getattr(row, name) for row in rows]
        for name, kind in kinds.items()
    }
    return _written(pa.table(columns, schema=schema))


def read_allocation(data: bytes) -> list[AllocationRow]:
    """The rows that `allocation_file` wrote."""
    return [AllocationRow(**row) for row in _table(data).to_pylist()]


def jobs_file(account: Account) -> bytes:
    """An account as Parquet, a row for each execution and kind of node; what it rests on is in the file's metadata."""
    import pyarrow as pa

    texts = {name: pa.string() for name in _TEXTS}
    kinds: dict[str, Any] = {
        "window_start": pa.timestamp("ms", tz="UTC"),
        "window_end": pa.timestamp("ms", tz="UTC"),
        **texts,
        "execution": pa.int32(),
        "submitted_by": pa.string(),
        "labels": pa.map_(pa.string(), pa.string()),
        **{name: pa.string() for name in _MORE_TEXTS if name != "submitted_by"},
        "price_as_of": pa.date32(),
        **{name: pa.decimal128(*size) for name, size in _AMOUNTS.items()},
    }
    metadata = {_BASIS: account.basis.model_dump_json().encode()}
    return _written(pa.table(_columns(account.rows, kinds), schema=pa.schema(list(kinds.items()), metadata=metadata)))


def read_jobs(data: bytes) -> Account:
    """The account that `jobs_file` wrote, also that of an earlier release. Raises SumError where its rows don't add up any more."""
    table = _table(data)
    basis = Basis.model_validate_json(table.schema.metadata[_BASIS])
    window = basis.window
    return Account(basis=basis, rows=[_row(_LATER | found, window) for found in table.to_pylist()])


def _columns(rows: Sequence[CostRow], names: Iterable[str]) -> dict[str, list[Any]]:
    values: dict[str, list[Any]] = {name: [] for name in names}
    for row in rows:
        for name, column in values.items():
            if name in _AMOUNTS:
                column.append(_scaled(getattr(row, name), _AMOUNTS[name]))
            elif name == "labels":
                column.append(sorted(row.labels.items()))
            elif name in {"window_start", "window_end"}:
                column.append(getattr(row.window, name.removeprefix("window_")))
            else:
                found = getattr(row, name)
                column.append(str(found) if isinstance(found, RowKind | CapacityType) else found)
    return values


def _row(found: dict[str, Any], window: Window) -> CostRow:
    return CostRow(
        window=window,
        kind=RowKind(found["kind"]),
        labels=dict(found["labels"] or ()),
        capacity_type=CapacityType(found["capacity_type"]) if found["capacity_type"] else None,
        **{name: found[name] for name in (*_TEXTS, *_MORE_TEXTS, "execution", "price_as_of") if name not in {"kind", "capacity_type"}},
        **{name: found[name] for name in _AMOUNTS if name.endswith("seconds") or name in {"cpu_cost", "ram_cost", "gpu_cost"}},
    )


def _scaled(amount: Decimal, size: tuple[int, int]) -> Decimal:
    """An amount with the digits of its column. Money has no more of them; what does is rounded."""
    return amount.quantize(_UNITS[size], context=_ROUNDING)


def _written(table: Any) -> bytes:
    import pyarrow.parquet as pq

    out = io.BytesIO()
    pq.write_table(table, out, compression="zstd")
    return out.getvalue()


def _table(data: bytes) -> Any:
    import pyarrow.parquet as pq

    return pq.ParquetFile(io.BytesIO(data)).read()
