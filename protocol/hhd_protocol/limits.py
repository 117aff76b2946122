"""Every bound of a format or a message, each with its reason."""

from __future__ import annotations

PAGE_BYTES = 4096
"""The unit of snapshot and delta: measured, 4 KiB pages write a fifteenth of what 64 KiB pages do at 1% scattered."""

WASM_PAGE_BYTES = 65536
"""A WebAssembly page, fixed by its specification."""

CBOR_DEPTH_MAX = 32
"""Nesting of a decoded value: our deepest message has 6 levels; recursion deeper than this is an attack."""

CBOR_BYTES_MAX = 64 * 1024 * 1024
"""One encoded value: the largest is a capsule's content index, far below this; a decoder holds it in memory."""

ASYNCIFY_STACK_WASM_PAGES = 4
"""256 KiB for an unwound stack: measured, a 128 KiB shadow stack of the deepest recursion unwinds into less."""

OP_BYTES_MAX = 64
"""The name of an effect: ours have at most 7 letters."""

EFFECT_BYTES_MAX = 16 * 1024 * 1024
"""One request or one reply: a full context window of text is under 8 MiB, pictures included."""

ARGS_BYTES_MAX = 1024 * 1024
"""The arguments of a program: typed by a person."""

TRANSCRIPT_BYTES_MAX = 1024 * 1024 * 1024
"""The transcript of one session."""

MEMORY_BYTES_MAX = 1024 * 1024 * 1024
"""Linear memory of one guest: agents measured under 16 MiB; larger is a runaway."""

EFFECTS_MAX = 1_000_000
"""Effects of one session: at one a second, eleven days without a pause."""

JOURNAL_BYTES_MAX = 2 * EFFECT_BYTES_MAX + 4096
"""An encoded journal: one request, one reply, and less than 4 KiB around them."""

ACCOUNT_TALLIES_MAX = 512
"""Rows of an account: a client writes some 60 kinds of record; a hostile file may name millions."""

ACCOUNT_RANGES_MAX = 256
"""Ranges of lines kept for one row of an account: enough to find each, small in memory. Counts stay exact."""

ACCOUNT_KIND_CHARS_MAX = 100
"""The name of a record's kind in an account: the longest a client writes has 40 letters."""

STREAM_CHUNK_BYTES = 256 * 1024
"""A chunk of transcript or history: the last one is packed anew at every step, in well under a millisecond."""

PAGES_PER_PIECE = 256
"""Memory pages in one compressed piece (1 MiB): larger pieces shrink no further, and this bounds one allocation."""

PACKED_EXCESS_BYTES = 512
"""What zstd may add to a piece that does not shrink, beyond a 128th of it: frame and block headers."""

ZSTD_WINDOW_BYTES_MAX = 8 * 1024 * 1024
"""The window that RFC 8878 asks every decoder to support."""

CAPSULE_HEADER_BYTES_MAX = 4 * 1024 * 1024
"""The header of a capsule: arguments, and 45 bytes for each of at most 5,097 stream chunks and 1,024 page pieces."""

CAPSULE_BYTES_MAX = 1024 * 1024 * 1024
"""A capsule file, which is read into memory whole; real ones were 29 to 51 KB plus the module."""

SEALED_CHUNK_BYTES = 256 * 1024
"""One chunk of a sealed capsule: opening one takes a fifth of a millisecond, its tag costs nothing to speak of."""

LOCK_BYTES_MAX = 1024
"""The lock of a sealed capsule: ours have at most 130 bytes."""

PASSPHRASE_BYTES_MAX = 1024
"""A passphrase: more than a person types."""

PASSPHRASE_OPERATIONS_MAX = 8
"""Passes of Argon2id that a file may ask for; ours ask for 3."""

PASSPHRASE_MEMORY_BYTES_MAX = 512 * 1024 * 1024
"""Memory of Argon2id that a file may ask for, twice what ours ask for: with 8 passes it is some three seconds."""

GLOBALS_MAX = 64
"""Mutable globals of a module: Rust makes one, the interrupt pass another."""

GLOBAL_NAME_BYTES_MAX = 256
"""The export name of a global."""

PROGRAM_BYTES_MAX = 64
"""The short name of a program, such as `spin`."""

PATH_HINT_BYTES_MAX = 4096
"""A path that is shown to a person: PATH_MAX of Linux."""

HISTORY_BYTES_MAX = 256 * EFFECTS_MAX
"""The history of effects: a record is at most 200 bytes."""

ASYNCIFY_STACK_BYTES_MAX = ASYNCIFY_STACK_WASM_PAGES * WASM_PAGE_BYTES
"""What an unwound stack may take."""

CHECKS_MAX = 2**63 - 1
"""Interrupt checks of one session: 300 years at a billion a second."""
OBJECT_SEGMENTS_MAX = 255
"""Segments of one sealed object: one byte counts them."""

OBJECT_BYTES_MAX = 64 * 1024 * 1024
"""One sealed object: an image object holds at most 16,384 pages, which is 64 MiB before compression."""

OBJECT_HEAD_BYTES_MAX = 16 * 1024 * 1024
"""The opened head of an object: a full list of a 1 GiB image takes 8 bytes a page, 2 MiB."""

OBJECT_REFS_MAX = 65535
"""Objects that one head may refer to: two bytes number them."""

IMAGE_OBJECT_PAGES_MAX = 16384
"""Own pages of one image object; a larger image is spread over several objects."""

SEGMENT_PAGES_MAX = 256
"""Pages of one segment: 1 MiB, so that prefix and content fit the 2 MiB window of zstd level 3."""

LOG_CHUNK_BYTES_MAX = 1024 * 1024
"""One chunk of a record log: what a reader holds in memory at a time."""

LOG_OBJECT_CHUNKS_MAX = 64
"""Own chunks of one log object: 64 MiB, as for pages."""

CHAIN_MAX = 256
"""Steps from an object to the full list it rests on: ours make one every 64; more is damage or an attack."""

IMAGE_STATE_BYTES_MAX = 1024 * 1024
"""What an image carries beside its pages: globals and names, measured under 2 KiB."""

PLAIN_MODULE_BYTES_MAX = 4 * 1024 * 1024
"""A module to be instrumented, which makes it three to four times as large; the passes take some 20 s for this size."""

FUNCTION_BYTES_MAX = 1024 * 1024
"""One function of a module to be instrumented: the largest we have seen is a twentieth; one at a time is held apart."""

INSTRUMENTED_FUNCTION_BYTES_MAX = 7 * 1024 * 1024
"""One function of an instrumented module: a little less than wasmtime accepts."""

GUEST_LIVE_BITS_MAX = 256 * 1024 * 1024
"""Places to pause in one function times its locals: what is remembered of which locals are needed, 32 MiB."""

GUEST_LOCALS_MAX = 10_000
"""Locals of one function: a count of few bytes could ask for billions; compilers stay under a thousand."""

GUEST_NESTING_MAX = 2_000
"""Blocks within blocks: a large `match` compiles to a few hundred; each level is an entry in several stacks."""

GUEST_STRETCH_INSTRS_MAX = 1_000_000
"""Instructions from one interrupt check to the next, calls included: well under a millisecond."""

MODULE_BYTES_MAX = 16 * 1024 * 1024
"""A guest module: ours are under 1 MiB; the passes take about a minute for one of this size."""
NATIVE_LINE_BYTES_MAX = 128 * 1024 * 1024
"""One line of a native session: a 20 MB tool output and a 32 MB PDF in base64 occur; a longer line is skipped."""

NATIVE_BASES_MAX = 64
"""Ancestors of a Codex fork: a fork of a fork of a fork is already rare."""

NATIVE_UNPACKED_BYTES_MAX = 16 * 1024 * 1024 * 1024
"""What a compressed session may unpack to, on disk: larger than any seen, smaller than a bomb."""

ARCHIVE_PIECE_BYTES = 1024 * 1024
"""Originals are kept in pieces of this size: a session that grew by a turn costs one piece and a list of names."""

ARCHIVE_FILES_MAX = 20_000
"""Files of one original: a session with ten thousand spilled outputs is beyond any seen."""

TITLE_BYTES_MAX = 1024
"""The title of a session or the name of a device, in UTF-8: a line of text in any script; a list shows less of it."""
STATEMENT_BYTES_MAX = 1024 * 1024
"""One signed statement: an ordinary checkpoint has 400 bytes, a tombstone of 100,000 checkpoints 800 KB."""

STATEMENT_PARENTS_MAX = 16
"""Parents of a checkpoint: one, or two where a person joined a competing head."""

STATEMENT_OBJECTS_MAX = 16384
"""Sealed objects that came with one checkpoint: at 64 MiB each, a terabyte."""

STATEMENT_EFFECTS_MAX = 4096
"""Effects that one statement speaks of: a guest has one at a time, and a checkpoint at each border of one."""

STATEMENT_REASON_BYTES_MAX = 1024
"""Why a person took a session over: a sentence or two."""

STATEMENT_WORKSPACE_BYTES_MAX = 64
"""The name of a capture of the workspace: a hash, perhaps with its kind."""

STATEMENT_COUNT_MAX = 2**53 - 1
"""Numbers, positions and times in a statement: exact in every language that may read one."""

TOMBSTONE_HEADS_MAX = 1024
"""Heads of a removed session: each is a line of work made apart from the others."""

TOMBSTONE_COVERS_MAX = 100_000
"""Checkpoints that a tombstone covers, 8 bytes each: at one a minute, two months without a pause."""
WORKSPACE_PATH_BYTES_MAX = 4095
"""A path of a workspace: PATH_MAX of Linux without its NUL."""

WORKSPACE_COMPONENT_BYTES_MAX = 255
"""One component of such a path: NAME_MAX of every file system we know."""

WORKSPACE_TEXT_BYTES_MAX = 8192
"""The target of a link, the name of a ref or an address: twice PATH_MAX. A message or sparse patterns: 64 times it."""

WORKSPACE_PIECE_BYTES = 1024 * 1024
"""A captured file is kept in pieces of this size: bounds memory; a file that grew shares all but the last."""

WORKSPACE_FILE_BYTES_MAX = 16 * 1024 * 1024 * 1024
"""One captured file: its 16,384 piece ids fit one piece of a listing."""

WORKSPACE_ENTRIES_MAX = 1_000_000
"""Entries of one capture: ten times the largest repository measured."""

WORKSPACE_LISTING_ROWS_MAX = 2048
"""Rows in one piece of a listing: eight times the average of 256, so that a listing cannot refuse to be cut."""

WORKSPACE_LEFT_OUT_MAX = 10_000
"""What was left out, by name; the rest is counted."""

WORKSPACE_COMMITS_MAX = 10_000
"""Commits that a capture names: what a target has, where a shallow history ends."""

WORKSPACE_PACKS_MAX = 64
"""Packs of one capture: each new commit adds one; past this they are made into one."""

WORKSPACE_REMOTES_MAX = 64
"""Remotes of a repository: hints for a person, a handful."""

WORKSPACE_ROOT_BYTES_MAX = 4 * 1024 * 1024
"""The root of a capture's encoding: two million rows in 8,000 pieces take 256 KB, and commits 640 KB."""
SUSPENDED_MS_MAX = 30_000
"""Sleep after which a device asks the others before it acts: shorter, and nobody took over in the meantime."""

WAKE_WAIT_MS_MAX = 10_000
"""How long a device that woke waits for the others' answers: a link is up in two or three seconds, or not at all."""

REGISTRY_MESSAGE_BYTES_MAX = 32 * 1024 * 1024
"""One message about the shared document: 100,000 entries of a document begun anew are under 10 MB."""

REGISTRY_CHANGES_BYTES_MAX = 16 * 1024 * 1024
"""Changes of the shared document in one message, unpacked: some 100,000 of them."""

REGISTRY_ROWS_MAX = 1_000_000
"""Operations in one message of changes: an edit makes four."""

REGISTRY_TEXT_BYTES_MAX = 4 * TITLE_BYTES_MAX
"""One key, value or comment in a change: an honest key has at most 75 bytes, a text a quarter of this."""

REGISTRY_HEADS_MAX = 4096
"""Heads of a shared document, or writers named in one change: one for each opening on each device, merged daily."""

REGISTRY_NAMED_HEADS_MAX = 256
"""Heads of one session that lists name or leave out: each has parted from the others, and somebody looked at it."""

REGISTRY_ENTRIES_MAX = 1_000_000
"""Entries of a shared document: ten for each of 100,000 sessions."""
STEP_BYTES_MAX = 64 * 1024
"""The record of one step of a session: some 300 bytes, and 80 for each kind of effect that was ever asked."""

STEP_LOG_BYTES_MAX = 2**50
"""The log of a session's steps: a million effects with the largest replies take 2^44 bytes."""

STEP_OPS_MAX = 256
"""Kinds of effects that are counted by name: ours are 4; a guest that invents names has the rest counted as one."""

PIECES_OBJECT_MAX = 65_536
"""Pieces of one object: their ids take 2 MiB of its head."""

PIECES_FRAMES_MAX = 254
"""Frames of one object of pieces: each is a segment, the head another."""
CONTROL_REQUEST_BYTES_MAX = 16 * 1024 * 1024
"""One message of a client: a capsule to import is the largest; larger ones the command takes in itself."""

CONTROL_ANSWER_BYTES_MAX = 64 * 1024 * 1024
"""One message of the daemon: a list of 100,000 sessions is some 40 MB; longer things come as streams."""

CONTROL_PART_BYTES_MAX = 256 * 1024
"""Bytes in one event of a stream of bytes: what a slow reader leaves waiting is a few of them."""

CONTROL_VERSIONS_MAX = 16
"""Versions in a hello: more than will be spoken at a time."""

CONTROL_VERSION_BYTES_MAX = 64
"""The name of a release of hhd in a hello."""

CONTROL_VERB_BYTES_MAX = 64
"""The name of a verb: ours have at most 14 letters."""

CONTROL_SENTENCE_BYTES_MAX = 64 * 1024
"""What an error says: a sentence, which may name a path or list sessions."""
LINK_MESSAGE_BYTES_MAX = 1024 * 1024
"""One message on a channel of a link: pages travel in pieces of this size, a statement fits."""

LINK_NAME_BYTES_MAX = 32
"""The name of a channel: ours have at most 8 letters."""

ANNOUNCEMENT_TAGS_MAX = 40
"""Tags in one announcement: 240 bytes, what one string of a TXT record (255 bytes) can hold. Of a larger group the
others are still found, by what they announce themselves."""
LINK_HELLO_BYTES_MAX = 1024
"""The hello of a device: ours has some 80 bytes, and it is read before anything is known of its sender's version."""

LINK_VERSIONS_MAX = 16
"""Versions in a hello of a device: more than will be spoken at a time."""

LINK_VERSION_BYTES_MAX = 64
"""The name of a release of hhd in a hello of a device."""

LINK_FRAME_BYTES_MAX = 32 * 1024 - 8
"""Content of one frame: two full records of TLS with its head, under 3 ms at 100 Mbit/s."""

LINK_BYE_BYTES_MAX = 256
"""Why a link is closed: a sentence."""

LINK_WINDOW_BYTES = 2 * LINK_MESSAGE_BYTES_MAX
"""What may come on a channel unread: one message that is being read, and the next on its way."""

LINK_CHANNELS_MAX = 32
"""Channels of one link that its peer opened: there are seven machines, and live sessions are watched on one each."""

GROUP_RECORD_BYTES_MAX = 768 * 1024
"""One record of the group: a revocation that names 10,000 sessions has 700 KB; more are named by another one."""

GROUP_SEEN_MAX = 256
"""Ends of records that one record names: honest devices that were apart leave one each."""

GROUP_MEMBERSHIPS_MAX = 64
"""Memberships of one device that one revocation ends: it was added anew after each revocation."""

GROUP_CUTOFF_ENDS_MAX = 16
"""Last statements of a revoked device in one session: one, and one more for each roll-back of its disk."""

GROUP_CUTOFFS_MAX = 10_000
"""Sessions that one revocation names when we write it: 700 KB."""

GROUP_DEVICES_MAX = 64
"""Devices that were ever added, revoked ones included: a person has a handful, and replaces one in some years."""

GROUP_RECORDS_OF_ONE_MAX = 128
"""Revocations that one device signs, and as many other records of the group: it signs some dozens in its life."""

GROUP_BYTES_OF_ONE_MAX = 8 * 1024 * 1024
"""Bytes of all records of one device: revocations of devices that worked in 100,000 sessions."""

GROUP_RECORDS_MAX = GROUP_DEVICES_MAX * GROUP_RECORDS_OF_ONE_MAX * 2
"""Records that are sorted together: resolving so many takes a second or two."""

GROUP_DEPTH_MAX = 32
"""Introductions from who founded a group to a device: each one needs a device that was introduced before."""

GROUP_FORMERS_MAX = 16
"""Groups that one goes on from: each device that joined may have been alone in one of its own."""
LIVE_ATTACHED_MAX = 32
"""Terminals attached to one session: a person has a few screens."""

LIVE_WAITING_EVENTS_MAX = 1024
"""Events that wait for one who is attached: a second of a fast model's words; what is durable is not lost."""

LIVE_WAITING_BYTES_MAX = 1024 * 1024
"""Bytes of them."""

LIVE_LINE_BYTES_MAX = 4096
"""What stands on a terminal's line and is not said yet: some screens of it."""

LIVE_TEXT_BYTES_MAX = 1024 * 1024
"""Words to a session, typed or pasted at once."""

LIVE_BY_BYTES_MAX = 64
"""The name of a terminal, as the others hear it."""

RELAY_MESSAGE_BYTES_MAX = 1024 * 1024 - 4096
"""One message about a session at another device: a piece of a transcript has 256 KiB; a link carries 1 MiB."""

RELAY_TEXT_BYTES_MAX = 512 * 1024
"""Words to a session at another device, typed or pasted at once: they fit one message with all that is around them."""

RELAY_SENTENCE_BYTES_MAX = 4096
"""A sentence, a name or an id in such a message: for showing, or compared with what is here."""

RELAY_WATCHES_MAX = 16
"""Terminals at one device that watch sessions of one other: half of the channels that a link has for one side."""

RELAY_ROWS_MAX = 1000
"""Sessions in one list that a controller is told: what a person can look through."""

RELAY_ASKS_MAX = 8
"""What one device asks of sessions of another at a time; what more it asks waits on the link."""

RELAY_ASKS_PER_SECOND = 50
"""What one device asks in the long run, keys typed included: several people type at ten a second."""

RELAY_REMEMBERED_MAX = 256
"""Answers to one device that are remembered, in case it asks again: those of the seconds before a link broke."""

HANDOFF_MESSAGE_BYTES_MAX = 1024 * 1024 - 4096
"""One message of a handoff: an offer has under 100 KB; a link carries 1 MiB."""

HANDOFF_TEXT_BYTES_MAX = 4096
"""A sentence, a name or an address in a handoff: for showing, or compared with what is here."""

HANDOFF_NAMES_MAX = 64
"""Tools, remotes or notes in one message of a handoff."""

HANDOFF_RECORDS_MAX = 64
"""Records of one handoff in a journal: a stage writes one, and seven follow upon one another."""

HANDOFF_DEADLINE_MS_MAX = 7 * 24 * 3_600_000
"""How long a person may let a handoff wait for the other device."""

HANDOFF_INQUIRIES_MAX = 8
"""Questions of other devices, whether a session could go somewhere, that one device looks into at a time; beyond these,
the first one of each device, or two that ask on and on would keep all others out."""

HANDOFF_INQUIRIES_PEER_MAX = 4
"""Of these, questions of one device: one that asks on and on leaves room for the others."""

HANDOFF_OFFERED_MAX = 64
"""Handoffs that one device has offered and not released, at the target: a person who hands all on has some dozens."""

HANDOFF_CHECKED_MAX = 8
"""Of these, offers of one device that are looked into at a time: each is up to a message long until then."""

HANDOFF_PLEASED_MAX = 32
"""Sessions that one device asks another for, and that are not on their way yet."""

HANDOFF_GIVEN_UP_KEPT = 64
"""Of one device's offers that came to nothing, journals kept at the target at least: the last ones, for who looks."""

HANDOFF_ROUNDS_MAX = 8
"""Rounds of staging while the session runs on: what changes faster than it is sent is not caught up with."""

HANDOFF_NEAR_MS = 50
"""A round that took no longer: what is missing by then takes about as long, and the pause may begin."""

PAIRING_CODE_MS = 5 * 60_000
"""A code that nobody guessed: time to walk to the other device, and no longer."""

PAIRING_MS_MAX = 3 * 60_000
"""From a guess to the end of pairing: two people compare three words in it."""

PAIRING_LOCKED_MS = 30_000
"""How long an address waits after its first failure; each further one doubles it."""

PAIRING_LOCKED_MS_MAX = 60 * 60_000
"""At most an hour: a person who mistyped often is not shut out for a day."""

PAIRING_ADDRESSES_MAX = 1024
"""Addresses whose failures are remembered: more are an attack, and the oldest are forgotten."""

PAIRING_MESSAGE_BYTES_MAX = 1000 * 1024
"""One message of pairing: a record of the group, or several small ones, and less than what a link carries at once."""

PAIRING_BATCH_BYTES = 128 * 1024
"""Records that are sent together when they are small."""

PAIRING_RECORDS_BYTES_MAX = 128 * 1024 * 1024
"""All records that one side sends: sixteen times what one device may have signed."""
GOSSIP_BATCH_BYTES = 512 * 1024
"""Records of the group in one message, unless one alone has more."""

GOSSIP_MESSAGE_BYTES_MAX = 2 * 1024 * 1024
"""One message about the group: one record of 1 MiB, or a batch and the one that ended it."""

GOSSIP_ROUNDS_MAX = 16
"""Times that a peer asks on one link which records are here: once, and later ones are sent unasked."""

CLOCK_BYTES_MAX = 32
"""One message about clocks: two numbers."""

HANDOFF_FILE_HEAD_BYTES_MAX = 256 * 1024 * 1024
"""What a release file says of a session beside its objects: half a million statements."""

HANDOFF_FILE_KEYS_MAX = 4096
"""Keys of one family: an epoch begins when a device is revoked."""
SYNC_MESSAGE_BYTES_MAX = 1024 * 1024
"""One message of sync: what a link carries as one; the longest honest one is a part of an object."""

SYNC_PART_BYTES = 256 * 1024
"""Of an object in one message: a small message never waits behind more than this."""

SYNC_EAGER_BYTES_MAX = 256 * 1024
"""Objects that go along with the checkpoint that brought them, unasked: a round trip saved for what a step changes."""

SYNC_SESSIONS_MAX = 1_000_000
"""Sessions of one device: at a hundred a day, 27 years."""

SYNC_BUCKET_BITS_MAX = 12
"""Buckets in which sessions are compared: 4,096 of them, so that 100,000 sessions are some 25 in each."""

SYNC_IDS_MAX = 16_384
"""Ids in one list of a message: half a megabyte."""

SYNC_LOOSE_MAX = 1024
"""Statements without their predecessors that a frontier names: more are asked for again, which costs bytes only."""

SYNC_STATEMENTS_MESSAGE_MAX = 2048
"""Statements in one message: ordinary ones have 400 bytes."""

SYNC_WANTS_MAX = 2048
"""Objects asked of one peer at a time: names take 64 KiB, and a link is never idle between two askings."""

SYNC_WANT_AGAIN_MAX = 16
"""How often one object is given to one peer on one link: who asks for it more often does nothing with it. A link that
loses nothing needs one; the simulation's lose every sixth message."""

SYNC_WORDS_MAX = 20_000
"""Messages that cost work, at once and without pause, from one peer: a first meeting over 2,000 sessions takes some
5,000. Every second gives `SYNC_WORDS_A_SECOND` more."""

SYNC_WORDS_A_SECOND = 100
"""A session that steps ten times a second says some thirty words."""

SYNC_UNBACKED_MAX = 100_000
"""Statements that a peer gives on one link without the content of any checkpoint among them."""

SYNC_BARE_SESSIONS_MAX = 2048
"""Of so many sessions a device says with each hello what content is not there; of more it says that there are more."""

SYNC_BARE_MAX = 100_000
"""Checkpoints without content that are kept of one device, 32 bytes each; of one that says more it is not known."""

SYNC_STATEMENTS_MAX = 2_000_000
"""Statements of one signer in one session: two for each of its effects."""

SYNC_OUTLIVING_MAX = 4096
"""Removed sessions of which one checkpoint is kept in mind that no tombstone covers, until all of them came: some 500
bytes each."""

SYNC_STILL_MS_MAX = 60_000
"""A peer that was asked for objects, is there, and sends nothing for so long, is no use: another one is asked."""

SYNC_AGAIN_MS = 300_000
"""Peers that are linked compare again: a digest each way heals whatever was lost on the way."""

SYNC_SPOOL_BYTES_MAX = 256 * 1024 * 1024
"""Begun objects kept, from all peers: four of the largest."""

SYNC_BEGUN_MS_MAX = 7 * 24 * 3_600_000
"""What has begun to come and nobody went on with for a week is not kept: who had it is gone, or has something else."""

SYNC_LETTER_BYTES_MAX = 768 * 1024
"""One letter to who reads it through a store-only device: some 1,500 statements."""

SYNC_LETTER_READERS_MAX = 255
"""Full members that one letter is sealed to: one byte counts them."""
