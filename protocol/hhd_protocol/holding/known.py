"""Every statement of one session that is here, with what they mean together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice

from hhd_protocol.fencing import Resolved, View
from hhd_protocol.holding.own_line import OwnLine
from hhd_protocol.ids import DeviceId, EffectId, StatementId
from hhd_protocol.statements import EffectKind, Fact, Progress, Record, Revocation, Role, Statement


class Known:
    """Every statement of one session that is here, its own included, and who the members are: a value.

    It grows by `plus` at the cost of what is added, however long the session is (see `fencing.Resolved`): those that
    grew from one another share what they hold. Only the latest does so; an earlier one that is asked again after it
    grew begins anew, at the cost of all that it knows.
    """

    def __init__(
        self,
        *,
        session: StatementId,
        members: Mapping[DeviceId, Role],
        statements: Mapping[StatementId, Fact],
        kinds: Mapping[EffectId, EffectKind] | None = None,
    ) -> None:
        """`kinds` may grow, but knows an effect's kind by the time that a statement speaks of it."""
        self.session, self.members, self.kinds = session, members, kinds if kinds is not None else {}
        self._count = len(statements)
        self._shared = _Shared(Resolved(session=session, members=members, facts=statements.values(), kinds=self.kinds))

    def plus(self, statements: Iterable[Fact]) -> Known:
        """The same with `statements`; the very same when all of them are here."""
        here = self.statements
        fresh = {statement.id: statement for statement in statements if statement.id not in here}
        if not fresh:
            return self
        grown = object.__new__(Known)
        grown.session, grown.members, grown.kinds = self.session, self.members, self.kinds
        grown._shared, grown._count = self._here, self._count + len(fresh)
        grown._shared.add(fresh.values())
        return grown

    def of_kinds(self, kinds: Mapping[EffectId, EffectKind]) -> Known:
        """The same statements where effects are of other kinds."""
        return Known(session=self.session, members=self.members, statements=self.statements, kinds=kinds)

    @property
    def statements(self) -> Mapping[StatementId, Fact]:
        """All of them by their ids."""
        return self._here.resolved.facts

    @property
    def records(self) -> Iterable[Record]:
        """The records among them."""
        return self._here.records

    @property
    def signers(self) -> Iterable[DeviceId]:
        """The devices that signed something other than a revocation."""
        return self._here.signers

    @property
    def view(self) -> View:
        """What the statements mean."""
        return self._here.resolved.view

    def progress(self, head: StatementId | None) -> Mapping[EffectId, Progress]:
        """How far each effect came on the line that ends at `head`; good until the next `plus`."""
        return self._here.resolved.progress(head)

    def is_uncertain(self, effect: EffectId, saying: Mapping[EffectId, Progress]) -> bool:
        """Whether `effect` may have run, once the owner's next checkpoint says `saying`."""
        return self._here.resolved.would_doubt(effect, saying)

    def line(self, tip: StatementId | None) -> OwnLine:
        """The statements that `tip` leads to, each by what its signer had signed before; good until the next `plus`."""
        shared = self._here
        if not shared.line.lead(tip, shared.resolved.facts):
            shared.line = OwnLine()
            shared.line.lead(tip, shared.resolved.facts)
        return shared.line

    def last_of(self, device: DeviceId) -> tuple[StatementId, ...]:
        """Where the chain of `device` ends, as far as it counts: what a revocation of it names."""
        return self._here.resolved.last_of(device)

    def strays(self, signer: DeviceId, tip: StatementId | None) -> list[Statement]:
        """What `signer` signed that `tip` does not lead to."""
        own, line = self._here.own.get(signer, {}), self.line(tip)
        return [] if len(own) == line.sound else [one for id, one in own.items() if id not in line.ids]

    def followers(self, signer: DeviceId, after: StatementId | None) -> list[StatementId]:
        """What `signer` signed that follows upon `after`: more than one where its store was rolled back."""
        return self._here.followers.get((signer, after), [])

    @property
    def _here(self) -> _Shared:
        """What is shared, if it is of this value's statements still; else made for them anew."""
        facts = self._shared.resolved.facts
        if len(facts) != self._count:
            first = islice(facts.values(), self._count)
            self._shared = _Shared(Resolved(session=self.session, members=self.members, facts=first, kinds=self.kinds))
        return self._shared


class _Shared:
    """Statements in the order they came, sorted by what is asked of them at each step."""

    def __init__(self, resolved: Resolved) -> None:
        self.resolved = resolved
        self.records: list[Record] = []
        self.signers: set[DeviceId] = set()
        self.own: dict[DeviceId, dict[StatementId, Statement]] = {}
        self.followers: dict[tuple[DeviceId, StatementId | None], list[StatementId]] = {}
        self.line = OwnLine()
        self._sort(resolved.facts.values())

    def add(self, fresh: Iterable[Fact]) -> None:
        self.resolved.add(fresh)
        self._sort(fresh)

    def _sort(self, fresh: Iterable[Fact]) -> None:
        for one in fresh:
            if isinstance(one, Record):
                self.records.append(one)
            if not isinstance(one, Revocation):
                self.signers.add(one.by)
            if one.signature_good:
                self.own.setdefault(one.by, {})[one.id] = one
                self.followers.setdefault((one.by, one.after), []).append(one.id)
