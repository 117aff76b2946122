"""Content that came from other devices: what a checkpoint still lacks, and whether what came is what it has to be.

An object is believed for its name, which is its hash, and a checkpoint's content for the payload root that its signer
signed: all that it needs hangs on that by hashes. That it can be read, down to each page, is looked at once, before the
checkpoint counts as whole here.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

from hhd.store.checkpoints import Checkpoint, refs_of
from hhd.store.closure import Head
from hhd.store.errors import DamagedStoreError, MissingError
from hhd.store.families import Family
from hhd.store.openings import Openings
from hhd.store.reading import Reader
from hhd.store.store import Store
from hhd_protocol.bodies import CheckpointBody
from hhd_protocol.compression import compress, decompress
from hhd_protocol.crypto import SealError, derived_nonce
from hhd_protocol.errors import FormatError
from hhd_protocol.ids import EpochId, FamilyId, ObjectName, Sha256
from hhd_protocol.images import ImageHead, decode_head
from hhd_protocol.limits import MODULE_BYTES_MAX
from hhd_protocol.logs import LogHead
from hhd_protocol.objects import Ref, SealedObject, seal_object

BESIDE_BYTES, LOOKED_MAX = 1024 * 1024, 128
"""Objects from this size on are looked at beside the thread that writes them; so many of their heads are kept."""
BESIDE_MAX = 2
"""Objects that are looked at while the next ones come; each is in memory until then."""
SOUND_MAX = 200_000
"""References whose closure was found whole, remembered: 30 MB. Who is not among them is looked at again."""


class Unsound(Exception):
    """Content that its signer signed, and that nobody can read."""


class Content:
    """The content of one store's sessions, as far as it is here."""

    def __init__(self, store: Store, openings: Openings) -> None:
        self._store, self._openings = store, openings
        self._given: dict[ObjectName, bytes] = {}
        self._sound: OrderedDict[tuple[FamilyId, Ref, bool], None] = OrderedDict()
        self._looks: deque[tuple[FamilyId, Future[tuple[Ref, ImageHead] | None]]] = deque()
        """Of objects that are looked at beside this thread."""
        self._beside: ThreadPoolExecutor | None = None
        self._looked: dict[tuple[FamilyId, Ref], ImageHead] = {}
        """Heads of objects whose own pages were found to be what they have to be, until all that needs them is here."""

    @contextmanager
    def given(self, objects: Mapping[ObjectName, bytes], families: Mapping[ObjectName, FamilyId]) -> Iterator[None]:
        """Within: these came, are being kept, and need not be read again to be looked at.

        Large ones are looked at in a thread beside this one, which writes them meanwhile, and what comes next.
        """
        self._given = dict(objects)
        try:
            for name, raw in objects.items():
                if name in families and len(raw) >= BESIDE_BYTES:
                    self._look_beside(name, raw, families[name])
            yield
        finally:
            self._given = {}

    def _look_beside(self, name: ObjectName, raw: bytes, of: FamilyId) -> None:
        if self._beside is None:
            self._beside = ThreadPoolExecutor(1, "hhd look")
        self._take_looks(BESIDE_MAX - 1)
        self._looks.append((of, self._beside.submit(looked_at, name, raw, self._store.families.get(of))))

    def _take_looks(self, left: int = 0) -> None:
        """Wait for what is looked at beside this thread, all but `left`; note what was found as it has to be."""
        while len(self._looks) > left:
            of, look = self._looks.popleft()
            if (found := look.result()) is not None:
                self._looked[of, found[0]] = found[1]
        while len(self._looked) > LOOKED_MAX:
            del self._looked[next(iter(self._looked))]

    def close(self) -> None:
        """Nothing is looked at any more."""
        if self._beside is not None:
            self._beside.shutdown(wait=True, cancel_futures=True)
            self._beside = None
        self._looks.clear()

    def missing(self, checkpoint: Checkpoint) -> list[ObjectName]:
        """Return objects that the content of a checkpoint needs and that are not here; empty once it is whole.

        What more is needed may show only when these are here. Raises Unsound.
        """
        has = self._store.objects.has
        roots = refs_of(checkpoint)
        direct = dict.fromkeys((*(ref.name for ref in roots), *checkpoint.objects))
        missing = [name for name in direct if not has(name)]
        if missing:
            return missing
        family = self._store.session(checkpoint.session).family
        return self._walk(family, roots)

    def lacks_module(self, checkpoint: Checkpoint) -> Sha256 | None:
        """Return the module that it runs, if that is not here."""
        module = checkpoint.payload.module
        if module is None:
            return None
        try:
            self._store.modules.ref(module)
        except MissingError:
            return module
        return None

    def _walk(self, family: FamilyId, roots: Iterable[Ref]) -> list[ObjectName]:
        """Look at all that `roots`, used as lists, need; return what is not here, else remember them as sound."""
        objects, given = self._store.objects, self._given
        keys = self._store.families.get(family)
        reader = Reader(keys, lambda ref: given.get(ref.name) or objects.raw(ref.name), self._openings)
        self._take_looks()
        seen: dict[tuple[Ref, bool], None] = {}
        missing: dict[ObjectName, None] = {}
        waiting = [(root, True) for root in roots]
        heads: dict[Ref, Head] = {}
        while waiting:
            ref, as_list = waiting.pop()
            if (ref, as_list) in seen or (family, ref, as_list) in self._sound or (family, ref, True) in self._sound:
                continue
            seen[ref, as_list] = None
            if not self._store.objects.has(ref.name):
                missing[ref.name] = None
                continue
            try:
                head = heads[ref] = heads.get(ref) or self._looked.get((family, ref)) or reader.head(ref)
            except MissingError:
                raise
            except (DamagedStoreError, FormatError) as error:
                raise Unsound(str(error)) from error
            if as_list:
                waiting += [(one, False) for one in head.refs]
                waiting += [(head.parent, True)] if head.parent else []
            elif isinstance(head, ImageHead):
                inside = {number for number in head.bases if number}
                inside.update((head.dictionary,) if head.dictionary else ())
                waiting += [(head.ref(number), False) for number in inside]
        if missing:
            return list(missing)
        for ref, head in reversed(heads.items()):
            if self._looked.pop((family, ref), None) is None:
                self._look_at(reader, ref, head)
        for ref, as_list in seen:
            self._sound[family, ref, as_list] = None
        while len(self._sound) > SOUND_MAX:
            self._sound.popitem(last=False)
        return []

    @staticmethod
    def _look_at(reader: Reader, ref: Ref, head: Head) -> None:
        """Raise Unsound unless all that an object has of its own is what its ids say."""
        try:
            if isinstance(head, ImageHead):
                if head.pages:
                    reader.own_pages(ref)
            elif isinstance(head, LogHead):
                reader.check_log_object(ref)
            else:
                reader.check_pieces_object(ref)
        except MissingError:
            raise
        except (DamagedStoreError, FormatError) as error:
            raise Unsound(str(error)) from error

    def forget(self) -> None:
        """Something was freed: look at all of it again."""
        self._sound.clear()

    # Modules on their way

    def sealed_module(self, module: Sha256, family: FamilyId) -> tuple[EpochId, bytes] | None:
        """Return a module sealed in a session's family, the same each time, and its epoch; None if it is not here."""
        try:
            plain = self._store.modules.get(module)
        except MissingError:
            return None
        keys = self._store.families.get(family)
        content = compress(plain)
        key = keys.key(keys.epoch)
        return keys.epoch, seal_object(key, derived_nonce(key, content), [content])

    def take_module(self, module: Sha256, family: FamilyId, epoch: bytes, raw: bytes) -> None:
        """Keep a module that came sealed; within a transaction. Raises FormatError if it is another one."""
        keys = self._store.families.get(family)
        found = {bytes(one): key for one, key in keys.epochs.items()}.get(epoch)
        if found is None:
            raise FormatError("a module is sealed under a key that is not here")
        sealed = SealedObject(raw)
        plain = decompress(sealed.segment(found, 0), bytes_max=MODULE_BYTES_MAX)
        if self._store.modules.put(plain, expecting=module) != module:
            raise FormatError("a module is not the one that was asked for")


def looked_at(name: ObjectName, raw: bytes, family: Family) -> tuple[Ref, ImageHead] | None:
    """Look at the image's object `name` alone: return what it is, once its own pages are those that its id names.

    None where that cannot be said of it alone, or it is something else, or damaged: that is found by who needs it.
    """
    try:
        sealed = SealedObject(raw)
        for epoch, key in family.epochs.items():
            try:
                head = decode_head(sealed.segment(key, 0))
            except SealError:
                continue
            if not head.pages or head.bases or head.dictionary:
                return None
            ref = Ref(name=name, epoch=epoch)
            Reader(family, lambda _: raw).own_pages(ref)
            return ref, head
    except (FormatError, DamagedStoreError):
        pass
    return None


def as_checkpoint(body: CheckpointBody, raw: bytes, payload: object, *, thinned: bool = False) -> Checkpoint:
    """Return the checkpoint that a statement and its payload make; raises FormatError where they differ."""
    from hhd.store.checkpoints import Payload

    assert isinstance(payload, Payload) and body.session is not None
    made = Checkpoint(
        session=body.session,
        parents=body.parents,
        payload=payload,
        objects=body.objects,
        journal=body.position,
        workspace=body.workspace,
        at_ms=body.at_ms,
        turn=body.turn,
        record=raw,
        thinned=thinned,
    )
    made.signed()
    return made
