"""What is trusted is read once, and anew when the certificates are others."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from hhd.effects import tls


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    system = ssl.get_default_verify_paths().openssl_cafile
    if not Path(system).is_file():
        system = "/etc/ssl/certs/ca-certificates.crt"
    pem = Path(system).read_text() if Path(system).is_file() else pytest.skip("no certificates on this system")
    whole = tmp_path / "two.pem"
    end = "-----END CERTIFICATE-----\n"
    parts = pem[pem.index("-----BEGIN") :].split(end)
    whole.write_text(parts[0] + end)
    (tmp_path / "other.pem").write_text(parts[0] + end + parts[1][parts[1].index("-----BEGIN") :] + end)
    monkeypatch.setenv("SSL_CERT_FILE", str(whole))
    monkeypatch.delenv("SSL_CERT_DIR", raising=False)
    return whole


def test_what_is_trusted_is_read_once(file: Path) -> None:
    first = tls.trusted()
    assert tls.trusted() is first
    assert first.verify_mode is ssl.CERT_REQUIRED
    assert first.check_hostname
    assert len(first.get_ca_certs()) == 1


def test_certificates_that_changed_or_are_named_elsewhere_are_read_anew(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, other = tls.trusted(), file.with_name("other.pem")
    monkeypatch.setenv("SSL_CERT_FILE", str(other))
    assert len(tls.trusted().get_ca_certs()) == 2
    monkeypatch.setenv("SSL_CERT_FILE", str(file))
    assert len(tls.trusted().get_ca_certs()) == 1
    file.write_text(other.read_text())
    changed = tls.trusted()
    assert changed is not first
    assert len(changed.get_ca_certs()) == 2


def test_certificates_that_are_named_and_missing_are_an_error_each_time(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(file.with_name("none.pem")))
    for _ in range(2):
        with pytest.raises(FileNotFoundError):
            tls.trusted()
