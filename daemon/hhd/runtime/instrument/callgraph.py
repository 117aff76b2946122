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

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hhd.runtime.instrument import opcodes as op
from hhd.runtime.instrument.code import Body
from hhd.runtime.instrument.module import FuncType, Module
from hhd_protocol.limits import GUEST_STRETCH_INSTRS_MAX

_SEARCH_EDGES_MAX = 2_000_000
"""Edges walked while looking for a small set of checks (seconds); past it, every function of a cycle gets one."""
_PICKED_SHARE = 64
"""Of a large component, one function in so many is picked at a time."""
_EXEMPT_INSTRS = 2_000
"""What a call of an exempt function counts for: a copy of some kilobytes, or a long walk through the free lists."""
_GREEDY_STEPS_MAX = 8
"""How often a function's stretch is measured anew while its callees get checks one by one, before all heavy ones do."""


Step = tuple[int, int | tuple[int, ...] | FuncType | None, int]
"""One instruction that matters here: opcode, label or callee, and how many instructions there are up to it."""


@dataclass(frozen=True, kw_only=True)
class Summary:
    """What the call graph needs to know of one function: its structure, branches and calls."""

    steps: tuple[Step, ...]
    loops: bool
    bulk: bool

    def callees(self) -> list[int | FuncType]:
        """Functions that are called, and types that are called through the table, as often as they stand there."""
        calls = (op.CALL, op.CALL_INDIRECT)
        return [to for code, to, _ in self.steps if code in calls and isinstance(to, (int, FuncType))]


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Where checks stand and what can pause.

    `entry_checks`: functions with a check at their entry. `exempt`: functions whose loops have none. `doomed`:
    functions from which a run never comes back, and which are not paused. `pausing`: functions in which a run can be
    paused. `pausing_types`: types through which an indirect call can reach one. `bulk_checks`: whether a check stands
    before each bulk memory instruction.
    """

    entry_checks: frozenset[int]
    exempt: frozenset[int]
    doomed: frozenset[int]
    pausing: frozenset[int]
    pausing_types: frozenset[FuncType]
    bulk_checks: bool


_STRUCTURE = frozenset(
    (op.BLOCK, op.LOOP, op.IF, op.ELSE, op.END, op.BR, op.BR_IF, op.BR_TABLE, op.RETURN, op.UNREACHABLE, op.CALL)
)


def summarise(body: Body, module: Module) -> Summary:
    """What `body` calls, and how long its stretches are."""
    steps: list[Step] = []
    length = 0
    opcodes = {instr.opcode for instr in body.instrs}
    for code, operand, _ in body.instrs:
        length += 1
        if code in _STRUCTURE:
            steps.append((code, operand, length))
            length = 0
        elif code == op.CALL_INDIRECT:
            assert isinstance(operand, int)
            steps.append((code, module.types[operand], length))
            length = 0
    return Summary(
        steps=tuple(steps),
        loops=op.LOOP in opcodes,
        bulk=op.MEMORY_COPY in opcodes or op.MEMORY_FILL in opcodes,
    )


def longest_stretch(steps: Sequence[Step], weight: Callable[[int | FuncType], int]) -> int:
    """The most instructions from the entry of a function to where it ends, if no branch leads backwards.

    `weight` says what a call adds. Between two checks a function takes no branch to a loop's head twice, so this
    bounds what it runs without one.
    """
    longest = 0
    now = 0
    dead = -1
    # For each open construct: its opcode, the stretch up to its start, the longest up to its end.
    path: list[list[int]] = [[op.BLOCK, 0, dead]]
    for code, operand, length in steps:
        if now >= 0:
            now += length
        if code in (op.BLOCK, op.LOOP, op.IF):
            path.append([code, now, dead])
        elif code == op.ELSE:
            one = path[-1]
            one[2] = max(one[2], now)
            one[0] = op.ELSE
            now = one[1]
        elif code == op.END:
            kind, start, best = path.pop()
            now = max(now, dead if kind == op.LOOP else best, start if kind == op.IF else dead)
        elif now < 0:
            continue
        elif code in (op.CALL, op.CALL_INDIRECT):
            assert isinstance(operand, (int, FuncType))
            now += weight(operand)
        elif code in (op.RETURN, op.UNREACHABLE):
            longest, now = max(longest, now), dead
        else:
            for label in {operand} if isinstance(operand, int) else set(_labels(operand)):
                one = path[-1 - label]
                one[2] = max(one[2], now)
            if code != op.BR_IF:
                longest, now = max(longest, now), dead
    return max(longest, now)


def never_returns(steps: Sequence[Step]) -> bool:
    """Whether the end of a function is not reached, nor any `return`."""
    # For each open construct: its opcode, whether it was entered alive, whether its end is reached by a branch or arm.
    path: list[list[int]] = [[op.BLOCK, True, False]]
    alive = True
    for code, operand, _ in steps:
        if code in (op.BLOCK, op.LOOP, op.IF):
            path.append([code, alive, False])
        elif code == op.ELSE:
            one = path[-1]
            one[0], one[2] = op.ELSE, one[2] or alive
            alive = bool(one[1])
        elif code == op.END:
            kind, entered, reached = path.pop()
            alive = alive or bool(reached) or bool(kind == op.IF and entered)
        elif alive and code == op.RETURN:
            return False
        elif alive and code in (op.BR, op.BR_IF, op.BR_TABLE):
            for label in {operand} if isinstance(operand, int) else set(_labels(operand)):
                path[-1 - label][2] |= path[-1 - label][0] != op.LOOP
            alive = code == op.BR_IF
        elif code == op.UNREACHABLE:
            alive = False
    return not alive


def _labels(operand: object) -> tuple[int, ...]:
    assert isinstance(operand, tuple)
    return operand


def plan(
    module: Module,
    summaries: Sequence[Summary],
    *,
    pausing_imports: frozenset[int],
    exempt: frozenset[int] = frozenset(),
    doomed: frozenset[int] = frozenset(),
) -> Plan:
    """Place the checks.

    `summaries` are those of the defined functions, in order. `exempt` names functions (of a trusted build) that run
    for a bounded time: their loops get no check. `doomed` names functions (of a trusted build) that say why and trap.
    Without any exempt function, bulk memory instructions get checks.
    """
    return _Planner(module, summaries, pausing_imports, exempt, doomed).run()


class _Planner:
    """Nodes are function indices, then one node for each type that is called indirectly."""

    def __init__(
        self,
        module: Module,
        summaries: Sequence[Summary],
        pausing_imports: frozenset[int],
        exempt: frozenset[int],
        doomed: frozenset[int],
    ) -> None:
        self.first = len(module.imports)
        self.count = module.function_count()
        self.summaries = summaries
        self.pausing_imports = pausing_imports
        self.exempt = exempt
        self.doomed = doomed
        self.bulk_checks = not exempt
        callees = [one.callees() for one in summaries]
        called = {to for each in callees for to in each if isinstance(to, FuncType)}
        types = sorted(called, key=lambda kind: (kind.params, kind.results))
        self.type_nodes = {kind: self.count + place for place, kind in enumerate(types)}
        in_table = sorted({item for element in module.elements for item in element.functions})
        self.edges: list[list[int]] = [[] for _ in range(self.count + len(types))]
        for place, each in enumerate(callees):
            self.edges[self.first + place] = sorted({self.node(to) for to in each} - doomed)
        for function in in_table:
            node = self.type_nodes.get(module.type_of(function))
            if node is not None and function not in doomed:
                self.edges[node].append(function)

    def run(self) -> Plan:
        entry = self.break_cycles()
        self.bound_stretches(entry)
        entry -= self.doomed
        pausing = self.reaching(self.pausing_roots(entry)) - self.doomed
        return Plan(
            entry_checks=frozenset(entry),
            exempt=self.exempt,
            doomed=self.doomed,
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
            picked = loops or self.best_connected(functions, inside)
            chosen.update(picked)
            inside.difference_update(picked)
            rest = sorted(inside)
            kept = {node: [to for to in self.edges[node] if to in inside] for node in rest}
            work.extend(_components(rest, kept))
        return chosen

    def best_connected(self, functions: list[int], inside: set[int]) -> list[int]:
        """The functions of a component with most ways through them; lower indices first among equals."""
        entering = dict.fromkeys(inside, 0)
        for node in inside:
            for to in self.edges[node]:
                if to in inside:
                    entering[to] += 1

        def ways(node: int) -> tuple[int, int]:
            return -entering[node] * sum(to in inside for to in self.edges[node]), node

        return sorted(functions, key=ways)[: 1 + len(functions) // _PICKED_SHARE]

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

        def weight(to: int | FuncType) -> int:
            return 0 if to in entry or to in self.doomed else weights[self.node(to)]

        total = longest_stretch(one.steps, weight)
        if total <= GUEST_STRETCH_INSTRS_MAX:
            return total
        callees = one.callees()
        enough = GUEST_STRETCH_INSTRS_MAX // (len(callees) + 1)
        by_weight = sorted({self.node(to) for to in callees}, key=lambda to: (-weights[to], to))
        for place, to in enumerate(by_weight):
            if weights[to] <= enough:
                break
            entry.update(self.checkable(to))
            weights[to] = 0
            if place < _GREEDY_STEPS_MAX:
                total = longest_stretch(one.steps, weight)
                if total <= GUEST_STRETCH_INSTRS_MAX:
                    return total
        return longest_stretch(one.steps, weight)

    def checkable(self, node: int) -> list[int]:
        """The functions that get a check for `node` to start with one."""
        functions = [node] if node < self.count else self.edges[node]
        return [each for each in functions if each >= self.first and each not in self.exempt]

    def node(self, to: int | FuncType) -> int:
        return to if isinstance(to, int) else self.type_nodes[to]

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
