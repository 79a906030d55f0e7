"""One thing that doctor found: a symptom, where, and what showed it."""

from __future__ import annotations

from dataclasses import dataclass

from groundspeed.plugins.symptoms import SYMPTOMS, Severity, Symptom


@dataclass(frozen=True, slots=True)
class Finding:
    """``evidence``: the figures or the line that shows it. ``where``: a device, or "" for the node."""

    code: str
    evidence: str
    where: str = ""

    @property
    def symptom(self) -> Symptom:
        return SYMPTOMS[self.code]

    @property
    def severity(self) -> Severity:
        return self.symptom.severity

    def as_dict(self) -> dict[str, str]:
        symptom = self.symptom
        return {
            "code": self.code,
            "severity": symptom.severity,
            "where": self.where,
            "what": symptom.what,
            "evidence": self.evidence,
            "why": symptom.why,
            "cure": symptom.cure,
        }
