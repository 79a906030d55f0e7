"""What a change costs or saves in money and energy."""

from __future__ import annotations

from dataclasses import dataclass

_PER = 1e6
_J_PER_KWH = 3.6e6


@dataclass(frozen=True, slots=True)
class Side:
    """One side of one node: ``rate`` in units of work a second, ``power_w`` of the node's devices together; None:
    not known. ``price`` is what the node costs an hour, in any currency.
    """

    rate: float
    power_w: float | None = None
    price: float | None = None


@dataclass(frozen=True, slots=True)
class Cost:
    """Of a million units of work: money (in the price's currency) and energy in kWh; None: not known."""

    money: float | None
    energy_kwh: float | None


def per_million(side: Side) -> Cost:
    """Raises ``ValueError`` for a rate that is not positive.

    >>> per_million(Side(rate=1000.0, power_w=700.0, price=3.6))
    Cost(money=1.0, energy_kwh=0.19444444444444445)
    """
    if not side.rate > 0:
        raise ValueError(f"a rate of {side.rate} does no work")
    seconds = _PER / side.rate
    money = None if side.price is None else side.price * seconds / 3600
    energy = None if side.power_w is None else side.power_w * seconds / _J_PER_KWH
    return Cost(money, energy)


def change(before: Cost, after: Cost) -> tuple[float | None, float | None]:
    """After over before less one, of money and of energy; positive is dearer."""
    return _ratio(before.money, after.money), _ratio(before.energy_kwh, after.energy_kwh)


def _ratio(before: float | None, after: float | None) -> float | None:
    return None if not before or after is None else after / before - 1
