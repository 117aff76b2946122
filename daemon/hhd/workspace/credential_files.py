"""Files that are there to hold credentials: they stay on the device unless a person names them.

The list is of names only; what else looks like a secret is found by what it says (`hhd.base.credentials`).
"""

from __future__ import annotations

import re

_NAMES = re.compile(
    rb"\.env(?:rc|\.(?!example$|sample$|template$|dist$|defaults?$|schema$).*)?|.*\.env"
    rb"|\.netrc|_netrc|\.pypirc|\.git-credentials|\.pgpass|\.my\.cnf|\.htpasswd|\.vault-token|\.s3cfg|\.boto"
    rb"|id_(?:rsa|dsa|ecdsa|ed25519)(?:_sk)?|.*\.(?:p12|pfx|jks|keystore|kdbx|ppk)"
    rb"|credentials(?:\.json)?|service[-_]?account.*\.json|client_secret.*\.json|.*\.tfvars|terraform\.tfstate(?:\.backup)?"
)
_PATHS = re.compile(
    rb"(?:.*/)?\.(?:aws/credentials|docker/config\.json|kube/config|config/gcloud/.*|ssh/.*|gnupg/.*|azure/.*)"
)


def is_for_credentials(path: bytes) -> bool:
    """Whether a file at `path` (components joined by `/`) is by its name one for credentials."""
    lower = path.lower()
    name = lower.rpartition(b"/")[2]
    return _NAMES.fullmatch(name) is not None or _PATHS.fullmatch(lower) is not None
