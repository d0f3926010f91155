"""Apply a table of rules to a whole graph until none fits, and say which rule fired where."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tinyphysics.context import REWRITE_LIMIT
from tinyphysics.ir.pattern import PatternMatcher
from tinyphysics.ir.uop import RECORD, UOp, toposort


@dataclass
class Fired:
    """A log of (rule, before, after), filled by `graph_rewrite` when it is handed one."""

    log: list[tuple[str, UOp, UOp]] = field(default_factory=list)

    def __str__(self) -> str:
        return "\n".join(f"{rule}: {before} -> {after}" for rule, before, after in self.log)


class EndlessRewrite(RuntimeError):
    """Two rules undo each other: a bug in a table, never the user's."""


def untouched(roots: Sequence[UOp], rules: PatternMatcher) -> dict[UOp, UOp]:
    """The nodes that no rule changes, nor anything below them: most of a graph, found in one pass over it."""
    done: dict[UOp, UOp] = {}
    sites = RECORD.get()
    for u in toposort(roots):
        for s in u.src:
            if s not in done:
                break
        else:
            if rules.candidates(u.op):
                if sites is not None:
                    sites.current = sites.table.get(u)
                if rules.fire(u) is not None:
                    continue
            done[u] = u
    if sites is not None:
        sites.current = None
    return done


def graph_rewrite(roots: Sequence[UOp], rules: PatternMatcher, fired: Fired | None = None) -> list[UOp]:
    """The roots with every node rewritten, sources first, to a fixpoint."""
    done = untouched(roots, rules)
    if all(root in done for root in roots):
        return list(roots)
    becomes: dict[UOp, UOp] = {}  # rewritten once; what it became is still to be finished
    active: dict[UOp, None] = {}  # on the stack: meeting one again means going in a circle
    limit, count = REWRITE_LIMIT.value, 0
    sites = RECORD.get()

    for root in roots:
        stack = [root]
        while stack:
            u = stack[-1]
            if u in done:
                active.pop(u, None)
                stack.pop()
                continue
            after = becomes.get(u)
            if after is None:
                waiting = [s for s in reversed(u.src) if s not in done]
            elif after in done:
                done[u] = done[after]
                continue
            else:
                waiting = [after]
            if waiting:
                active[u] = None
                for w in waiting:
                    if w in active:
                        raise EndlessRewrite(f"a rule leads from {u} back to itself")
                stack += waiting
                continue
            if sites is not None:
                sites.current = sites.table.get(u)
            for s in u.src:
                if done[s] is not s:
                    becomes[u] = u.replace(tuple([done[s] for s in u.src]))
                    break
            else:
                hit = rules.fire(u) if rules.candidates(u.op) else None
                if hit is None:
                    done[u] = u
                    continue
                rule, becomes[u] = hit
                count += 1
                if fired is not None:
                    fired.log.append((rule.name, u, becomes[u]))
                if count > limit:
                    raise EndlessRewrite(f"{count} rewrites; the last was {rule.name} on {u}")
    if sites is not None:
        sites.current = None
    return [done[r] for r in roots]
