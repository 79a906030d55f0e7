"""Probabilities and quantiles of the normal and Student's distribution.

scipy is loaded when one is first asked for: that takes as long as loading the database's part, and who only stores what
others have found asks for none. Quantiles are asked for again and again: of the same threshold, of so many points.
"""

from functools import cache, lru_cache
from typing import Any


def normal(z: float) -> float:
    """Probability of a standard normal value below z."""
    return float(_special().ndtr(z))


@lru_cache(1024)
def normal_quantile(p: float) -> float:
    """The standard normal value that others lie below with probability p."""
    return float(_special().ndtri(p))


def student(df: float, t: float) -> float:
    """Probability of a value below t with df degrees of freedom."""
    return float(_special().stdtr(df, t))


@lru_cache(4096)
def student_quantile(df: float, p: float) -> float:
    """The value that others lie below with probability p, with df degrees of freedom."""
    return float(_special().stdtrit(df, p))


@cache
def _special() -> Any:
    from scipy import special

    return special
