"""What was checked, and what was found: counts of yes verdicts by kind, and the false ones."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True)
class Finding:
    seed: int
    check: str  # the verdict that is false, or `exception`, `hang`, `slow`
    says: str  # what the compiler said
    found: str  # what was measured apart
    known: str = ""  # the open item that it belongs to

    def __str__(self) -> str:
        label = f"known: {self.known}" if self.known else "NEW"
        return f"[{label}] seed {self.seed}: {self.check}: it says {self.says}; {self.found}"


@dataclass
class Tally:
    """Of one case, or of many."""

    yes: Counter[str] = field(default_factory=Counter)  # verdicts that were checked
    unclear: Counter[str] = field(
        default_factory=Counter
    )  # that could not be: a kink too near, not asymptotic
    refused: Counter[str] = field(default_factory=Counter)
    cases: Counter[str] = field(default_factory=Counter)  # by kind
    shares: Counter[str] = field(default_factory=Counter)  # cases with the checks that not all have
    findings: list[Finding] = field(default_factory=list)
    seconds: float = 0.0

    def check(self, seed: int, name: str, false: bool, says: str, found: str) -> None:
        """A yes that was checked."""
        self.yes[name] += 1
        if false:
            self.findings.append(Finding(seed, name, says, found))

    def report(self, seed: int, name: str, says: str, found: str) -> None:
        """What is wrong without a verdict."""
        self.findings.append(Finding(seed, name, says, found))

    def add(self, other: Tally) -> None:
        self.yes += other.yes
        self.unclear += other.unclear
        self.refused += other.refused
        self.cases += other.cases
        self.shares += other.shares
        self.findings += other.findings
        self.seconds += other.seconds

    @property
    def new(self) -> list[Finding]:
        return [f for f in self.findings if not f.known]

    def to_json(self) -> str:
        return json.dumps({**vars(self), "findings": [asdict(f) for f in self.findings]})

    @staticmethod
    def of_json(text: str) -> Tally:
        d: dict[str, Any] = json.loads(text)
        return Tally(
            Counter(d["yes"]),
            Counter(d["unclear"]),
            Counter(d["refused"]),
            Counter(d["cases"]),
            Counter(d.get("shares", {})),
            [Finding(**f) for f in d["findings"]],
            d["seconds"],
        )

    def summary(self) -> str:
        """The table at the end."""
        false = Counter(f.check for f in self.findings)
        labels = Counter(f.known for f in self.findings if f.known)
        cases = sum(self.cases.values())
        wrong = sum(false[k] for k in self.yes)
        lines = [
            f"{sum(self.yes.values())} yes verdicts checked, {wrong} false, in {cases} cases; "
            f"{self.seconds / max(cases, 1):.2f} CPU s a case"
        ]
        width = max((len(k) for k in self.yes), default=0)
        for name in sorted(self.yes):
            unclear = f", {self.unclear[name]} unclear" if self.unclear[name] else ""
            lines.append(f"  {name:{width}}  {self.yes[name]:7} checked{unclear}, {false[name]} false")
        others = {k: n for k, n in false.items() if k not in self.yes}
        lines += [f"  {name}: {n}" for name, n in sorted(others.items())]
        lines.append("refused: " + (", ".join(f"{k} {n}" for k, n in sorted(self.refused.items())) or "none"))
        lines.append("cases: " + ", ".join(f"{k} {n}" for k, n in sorted(self.cases.items())))
        lines.append(
            "of these with: " + (", ".join(f"{k} {n}" for k, n in sorted(self.shares.items())) or "none")
        )
        lines.append(f"findings: {len(self.new)} new, {len(self.findings) - len(self.new)} known")
        lines += [f"  known: {k}: {n}" for k, n in sorted(labels.items())]
        return "\n".join(lines)
