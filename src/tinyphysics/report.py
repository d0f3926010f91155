"""What `explain()` returns: sections of lines, as text, as data and as HTML."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Row:
    name: str
    verdict: str  # yes, no, or a value
    because: str = ""
    where: str = ""  # file:line


@dataclass(frozen=True)
class Section:
    title: str
    rows: tuple[Row, ...]
    machine: bool = False  # depends on the machine: left out of golden text


@dataclass(frozen=True)
class Report:
    """What `sim.explain()` returns: print it, look at it in a notebook, or read it with to_dict().

    `title` is the system in one line; each of the `sections` has a title and rows: a name, a verdict, and the reason.
    """

    title: str
    sections: tuple[Section, ...]

    def portable(self) -> Report:
        """Returns the report without the rows that depend on the machine."""
        return Report(self.title, tuple(s for s in self.sections if not s.machine))

    def _changed(
        self, which: Callable[[Section], bool], rows: Callable[[Section], tuple[Row, ...]]
    ) -> Report:
        """With other rows in some sections."""
        new = (Section(s.title, rows(s), s.machine) if which(s) else s for s in self.sections)
        return Report(self.title, tuple(new))

    def with_machine(self, rows: tuple[Row, ...]) -> Report:
        """With more about the machine, which is looked at only when someone asks."""
        return self._changed(lambda s: s.machine, lambda s: s.rows + rows)

    def with_rows(self, title: str, rows: tuple[Row, ...]) -> Report:
        """With more in one section."""
        return self._changed(lambda s: s.title == title, lambda s: s.rows + rows)

    def with_row(self, title: str, row: Row) -> Report:
        """With another row in the place of the one of its name."""
        return self._changed(
            lambda s: s.title == title, lambda s: tuple(row if r.name == row.name else r for r in s.rows)
        )

    def only(self, *titles: str) -> Report:
        """Returns some sections of it, by their titles: `sim.explain().only("plan", "paces")`."""
        return Report(self.title, tuple(s for s in self.sections if s.title in titles))

    def with_section(self, section: Section, after: str) -> Report:
        """With one more section, behind another."""
        return Report(
            self.title, tuple(x for s in self.sections for x in ((s, section) if s.title == after else (s,)))
        )

    def __str__(self) -> str:
        lines = [self.title]
        for section in self.sections:
            lines.append(section.title)
            width = max((len(r.name) for r in section.rows), default=0)
            verdicts = max((len(r.verdict) for r in section.rows if r.because), default=0)
            for r in section.rows:
                where = f"  ({r.where})" if r.where else ""
                gap = f"  {r.because}" if r.because else ""
                verdict = r.verdict.ljust(verdicts) if r.because else r.verdict
                lines.append(f"  {r.name.ljust(width)}  {verdict}{gap}{where}".rstrip())
        return "\n".join(lines)

    __repr__ = __str__

    def to_dict(self) -> dict[str, Any]:
        """Returns the report as a dict by section and name; a name with several rows has a list of them."""
        out: dict[str, Any] = {"title": self.title}
        for s in self.sections:
            rows: dict[str, list[dict[str, str]]] = {}
            for r in s.rows:
                rows.setdefault(r.name, []).append({k: v for k, v in vars(r).items() if k != "name" and v})
            out[s.title] = {name: found if len(found) > 1 else found[0] for name, found in rows.items()}
        return out

    def _repr_html_(self) -> str:
        import html  # notebooks alone need it

        rows = []
        for s in self.sections:
            rows.append(f"<tr><th colspan=3 style='text-align:left'>{html.escape(s.title)}</th></tr>")
            rows += [
                "<tr>"
                + "".join(
                    f"<td style='text-align:left'>{html.escape(x)}</td>"
                    for x in (r.name, r.verdict, r.because + (f" ({r.where})" if r.where else ""))
                )
                + "</tr>"
                for r in s.rows
            ]
        return f"<b>{html.escape(self.title)}</b><table>{''.join(rows)}</table>"


WIDTH = 110  # characters of a line of the short form


@dataclass(frozen=True)
class Summary(Report):
    """A report that prints its short form; its sections and `to_dict()` are those of the full one."""

    brief: Section = Section("summary", ())

    def __str__(self) -> str:
        width = max((len(r.name) for r in self.brief.rows), default=0) + 4
        lines = [self.title]
        for r in self.brief.rows:
            text = f"{r.verdict} ({r.where})" if r.where else r.verdict
            lines += textwrap.wrap(
                text,
                WIDTH,
                initial_indent=f"  {r.name.ljust(width - 4)}  ",
                subsequent_indent=" " * width,
                break_long_words=False,
                break_on_hyphens=False,
            )
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return Report(self.title, (self.brief,))._repr_html_()
