"""Decides where interrupt checks stand, and which functions can be paused at all.

A run without a check would be one that nobody can stop, so a check stands in every loop and in every cycle of the
call graph. One function of each cycle is enough: checks are put on a small set of functions without which no cycle is
left. Calls that branch out again and again can be endless in practice without any cycle, so the longest stretch
between two checks is bounded as well: where a function's body with all that it calls passes the bound, its heaviest
callees get a check at their entry.

The table never changes (what could change it is refused), so an indirect call reaches exactly the functions in the
table that have its type.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hhd.runtime.instrument import opcodes as op
from hhd.runtime.instrument.code import Body
from hhd.runtime.instrument.module import FuncType, Module
from hhd_protocol.limits import GUEST_STRETCH_INSTRS_MAX

_SEARCH_EDGES_MAX = 20_000_000
"""Edges walked while looking for a small set of checks (seconds); past it, every function of a cycle gets one."""
_EXEMPT_INSTRS = 10_000
"""What a call of an exempt function counts for: it is bounded, but longer than its body."""


@dataclass(frozen=True, kw_only=True)
class Summary:
    """What the call graph needs to know of one function; a call that stands twice is listed twice."""

    calls: tuple[int, ...]
    indirect: tuple[FuncType, ...]
    loops: int
    bulk: int
    instrs: int


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Where checks stand and what can pause.

    `entry_checks`: functions with a check at their entry. `exempt`: functions whose loops have none. `pausing`:
    functions in which a run can be paused. `pausing_types`: types through which an indirect call can reach one.
    `bulk_checks`: whether a check stands before each bulk memory instruction.
    """

    entry_checks: frozenset[int]
    exempt: frozenset[int]
    pausing: frozenset[int]
    pausing_types: frozenset[FuncType]
    bulk_checks: bool


def summarise(body: Body, module: Module) -> Summary:
    """What `body` calls and how long it is."""
    calls, indirect = [], []
    loops = bulk = 0
    for instr in body.instrs:
        code = instr.opcode
        if code == op.CALL:
            assert isinstance(instr.operand, int)
            calls.append(instr.operand)
        elif code == op.CALL_INDIRECT:
            assert isinstance(instr.operand, int)
            indirect.append(module.types[instr.operand])
        elif code == op.LOOP:
            loops += 1
        elif code in (op.MEMORY_COPY, op.MEMORY_FILL):
            bulk += 1
    return Summary(calls=tuple(calls), indirect=tuple(indirect), loops=loops, bulk=bulk, instrs=len(body.instrs))


def plan(
    module: Module, summaries: Sequence[Summary], *, pausing_imports: frozenset[int], exempt: frozenset[int]
) -> Plan:
    """Place the checks.

    `summaries` are those of the defined functions, in order. `exempt` names functions (of a trusted build) that run
    for a bounded time: their loops get no check. Without any exempt function, bulk memory instructions get checks.
    """
    return _Planner(module, summaries, pausing_imports, exempt).run()


class _Planner:
    """Nodes are function indices, then one node for each type that is called indirectly."""

    def __init__(
        self, module: Module, summaries: Sequence[Summary], pausing_imports: frozenset[int], exempt: frozenset[int]
    ) -> None:
        self.first = len(module.imports)
        self.count = module.function_count()
        self.summaries = summaries
        self.pausing_imports = pausing_imports
        self.exempt = exempt
        self.bulk_checks = not exempt
        types = sorted({kind for one in summaries for kind in one.indirect}, key=lambda t: (t.params, t.results))
        self.type_nodes = {kind: self.count + place for place, kind in enumerate(types)}
        in_table = sorted({item for element in module.elements for item in element.functions})
        self.edges: list[list[int]] = [[] for _ in range(self.count + len(types))]
        for place, one in enumerate(summaries):
            reached = [*one.calls, *(self.type_nodes[kind] for kind in one.indirect)]
            self.edges[self.first + place] = sorted(set(reached))
        for function in in_table:
            node = self.type_nodes.get(module.type_of(function))
            if node is not None:
                self.edges[node].append(function)

    def run(self) -> Plan:
        entry = self.break_cycles()
        self.bound_stretches(entry)
        pausing = self.reaching(self.pausing_roots(entry))
        return Plan(
            entry_checks=frozenset(entry),
            exempt=self.exempt,
            pausing=frozenset(node for node in pausing if node < self.count),
            pausing_types=frozenset(kind for kind, node in self.type_nodes.items() if node in pausing),
            bulk_checks=self.bulk_checks,
        )

    def break_cycles(self) -> set[int]:
        """A set of functions without which the graph has no cycle: greedily the best connected of each component."""
        chosen: set[int] = set()
        walked = 0
        work = [component for component in _components(range(len(self.edges)), self.edges)]
        while work:
            component = work.pop()
            inside = set(component)
            if len(component) == 1 and component[0] not in self.edges[component[0]]:
                continue
            functions = [node for node in component if node < self.count]
            walked += sum(len(self.edges[node]) for node in component)
            if walked > _SEARCH_EDGES_MAX:
                chosen.update(functions)
                continue
            loops = [node for node in functions if node in self.edges[node]]
            picked = loops or [self.best_connected(functions, inside)]
            chosen.update(picked)
            inside.difference_update(picked)
            rest = sorted(inside)
            kept = {node: [to for to in self.edges[node] if to in inside] for node in rest}
            work.extend(_components(rest, kept))
        return chosen

    def best_connected(self, functions: list[int], inside: set[int]) -> int:
        """The function of a component with most ways through it; the lowest index among equals."""
        entering = dict.fromkeys(inside, 0)
        for node in inside:
            for to in self.edges[node]:
                if to in inside:
                    entering[to] += 1
        return max(functions, key=lambda node: (entering[node] * sum(to in inside for to in self.edges[node]), -node))

    def bound_stretches(self, entry: set[int]) -> None:
        """Add to `entry` until no function runs longer than the bound without a check in itself or what it calls."""
        weights = [0] * len(self.edges)
        for node in self.callees_first(entry):
            if node < self.first:
                weights[node] = 1
            elif node in self.exempt:
                weights[node] = _EXEMPT_INSTRS
            elif node >= self.count:
                weights[node] = max((weights[to] for to in self.edges[node] if to not in entry), default=0)
            else:
                weights[node] = self.bounded_weight(node, weights, entry)

    def bounded_weight(self, node: int, weights: list[int], entry: set[int]) -> int:
        one = self.summaries[node - self.first]
        reached = [*one.calls, *(self.type_nodes[kind] for kind in one.indirect)]
        total = one.instrs + sum(weights[to] for to in reached if to not in entry)
        heaviest = (
            sorted(set(reached), key=lambda to: (-weights[to] * reached.count(to), to))
            if (total > GUEST_STRETCH_INSTRS_MAX)
            else []
        )
        for to in heaviest:
            if total <= GUEST_STRETCH_INSTRS_MAX:
                break
            for callee in [to] if to < self.count else self.edges[to]:
                if callee >= self.first and callee not in self.exempt:
                    entry.add(callee)
            if to >= self.count:
                weights[to] = 0
            total = one.instrs + sum(weights[to] for to in reached if to not in entry)
        return total

    def callees_first(self, entry: set[int]) -> list[int]:
        """Nodes so that each comes after what it reaches without passing a function of `entry`."""
        kept = {node: [to for to in self.edges[node] if to not in entry] for node in range(len(self.edges))}
        return [component[0] for component in _components(range(len(self.edges)), kept)]

    def pausing_roots(self, entry: set[int]) -> set[int]:
        roots = set(self.pausing_imports) | entry
        for place, one in enumerate(self.summaries):
            node = self.first + place
            if (one.loops and node not in self.exempt) or (one.bulk and self.bulk_checks):
                roots.add(node)
        return roots

    def reaching(self, roots: set[int]) -> set[int]:
        """All nodes from which one of `roots` can be reached."""
        callers: list[list[int]] = [[] for _ in self.edges]
        for node, reached in enumerate(self.edges):
            for to in reached:
                callers[to].append(node)
        found = set(roots)
        work = sorted(roots)
        while work:
            for caller in callers[work.pop()]:
                if caller not in found:
                    found.add(caller)
                    work.append(caller)
        return found


def _components(nodes: Sequence[int], edges: Sequence[list[int]] | dict[int, list[int]]) -> list[list[int]]:
    """Strongly connected components, callees first (Tarjan's algorithm, without recursion)."""
    order: dict[int, int] = {}
    low: dict[int, int] = {}
    open_nodes: list[int] = []
    is_open: set[int] = set()
    out: list[list[int]] = []
    for root in nodes:
        if root in order:
            continue
        order[root] = low[root] = len(order)
        open_nodes.append(root)
        is_open.add(root)
        path = [(root, iter(edges[root]))]
        while path:
            node, rest = path[-1]
            for to in rest:
                if to not in order:
                    order[to] = low[to] = len(order)
                    open_nodes.append(to)
                    is_open.add(to)
                    path.append((to, iter(edges[to])))
                    break
                if to in is_open:
                    low[node] = min(low[node], order[to])
            else:
                path.pop()
                if path:
                    low[path[-1][0]] = min(low[path[-1][0]], low[node])
                if low[node] == order[node]:
                    component = []
                    while True:
                        member = open_nodes.pop()
                        is_open.discard(member)
                        component.append(member)
                        if member == node:
                            break
                    out.append(sorted(component))
    return out
