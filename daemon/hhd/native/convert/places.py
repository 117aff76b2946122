"""What each client has a place for: the one table that conversions and their documentation follow."""

from __future__ import annotations

import re
from dataclasses import dataclass

from hhd_protocol.transcript import Harness


@dataclass(frozen=True, kw_only=True)
class Places:
    """`native-sessions.md` shows this table to users; a test compares.

    `call_ids`: what a call id must match; `documents`, `picture_urls`: a place for documents, for pictures by address;
    `result_documents`, `result_picture_urls`: the same inside results; `error_flags`: a flag on results (else it
    travels as a signed mark in the text); `text_calls`: calls whose argument is free text; `shells`: commands the
    person ran; `new_roots`: a conversation may begin anew in mid-file; `namespaces`: a call's name may have one;
    `models`: replies name their model; `titles`: the file itself holds the title.
    """

    call_ids: re.Pattern[str]
    documents: bool
    picture_urls: bool
    result_documents: bool
    result_picture_urls: bool
    error_flags: bool
    text_calls: bool
    shells: bool
    new_roots: bool
    namespaces: bool
    models: bool
    titles: bool


_ANY_ID = re.compile(r".{1,512}", re.DOTALL)

PLACES = {
    Harness.CLAUDE: Places(
        call_ids=re.compile(r"[A-Za-z0-9_-]{1,64}"),
        documents=True,
        picture_urls=True,
        result_documents=True,
        result_picture_urls=True,
        error_flags=True,
        text_calls=False,
        shells=False,
        new_roots=True,
        namespaces=False,
        models=True,
        titles=True,
    ),
    Harness.CODEX: Places(
        call_ids=_ANY_ID,
        documents=False,
        picture_urls=True,
        result_documents=False,
        result_picture_urls=True,
        error_flags=False,
        text_calls=True,
        shells=False,
        new_roots=False,
        namespaces=True,
        models=False,
        titles=False,
    ),
    Harness.PI: Places(
        call_ids=_ANY_ID,
        documents=False,
        picture_urls=False,
        result_documents=False,
        result_picture_urls=False,
        error_flags=True,
        text_calls=False,
        shells=True,
        new_roots=True,
        namespaces=False,
        models=True,
        titles=True,
    ),
}
