"""Clock event reasons (NVML's nvmlClocksEventReasons bits) in words."""

from __future__ import annotations

IDLE = 0x1
APPLICATION_CLOCKS = 0x2
POWER_CAP = 0x4
HW_SLOWDOWN = 0x8
SYNC_BOOST = 0x10
SW_THERMAL = 0x20
HW_THERMAL = 0x40
POWER_BRAKE = 0x80
DISPLAY_CLOCK = 0x100

THERMAL = SW_THERMAL | HW_THERMAL
SLOWED = HW_SLOWDOWN | POWER_BRAKE | THERMAL
"""Anything that makes a sample unlike one of a healthy device; the power cap is a state that a device may live in."""

WORDS = {
    IDLE: "idle",
    APPLICATION_CLOCKS: "application clocks set",
    POWER_CAP: "power cap",
    HW_SLOWDOWN: "hardware slowdown",
    SYNC_BOOST: "sync boost",
    SW_THERMAL: "software thermal slowdown",
    HW_THERMAL: "hardware thermal slowdown",
    POWER_BRAKE: "external power brake",
    DISPLAY_CLOCK: "display clock setting",
}


def in_words(bits: int) -> list[str]:
    """The reasons that are set; unknown bits by number."""
    known = [word for bit, word in WORDS.items() if bits & bit]
    rest = bits & ~sum(WORDS)
    return [*known, f"unknown reason {rest:#x}"] if rest else known
