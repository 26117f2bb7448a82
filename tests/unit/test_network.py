"""The proxy and the authorities of a network: who is told of them, and what gets through."""

import subprocess
import sys

import pytest
import requests
from pydantic import ValidationError

from hostkit.host import network as on_host
from tasks.shared import network
from tasks.shared.release import patches, releases
from tasks.shared.settings import Settings, describe
from tests.imitation_network import NAME
from tests.imitation_network import network as imitated

URL = f"https://{NAME}/a.patch"


def mistakes(values):
    with pytest.raises(ValidationError) as caught:
        Settings.model_validate(values)
    return describe("box", caught.value)


@pytest.fixture
def imitation(tmp_path, monkeypatch):
    for name in ("http_proxy", "https_proxy", "no_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    files = {"/a.patch": b"a patch", "/0DE9B4A5.pub": b"no key"}
    with imitated(files, tmp_path / "network") as found:
        yield found


@pytest.mark.parametrize("proxy", ["http://ann:hunter2@proxy:3128", "http://hunter2@proxy"])
def test_a_password_in_the_proxys_address_is_refused_and_not_shown(production, proxy):
    (line,) = mistakes(production | {"proxy": proxy})
    assert line.startswith("  box: proxy = 'http://***@proxy")
    assert "hunter2" not in line
    assert "cntlm" in line
    Settings.model_validate(production | {"proxy": "http://proxy:3128"})


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("extra_index_urls", ["https://ann:hunter2@index/simple"]),
        ("find_links", ["https://hunter2@wheels/"]),
        ("hf_endpoint", "https://ann:hunter2@mirror"),
        ("vllm_source", f"https://hunter2@git.lan/vllm@{'a' * 40}"),
    ],
)
def test_a_password_in_any_other_address_is_refused_with_its_place(production, key, value):
    (line,) = mistakes(production | {key: value})
    assert "hunter2" not in line
    assert "/root/.netrc" in line


def test_addresses_without_a_password_pass(make):
    make(find_links=["/wheels"], vllm_source=f"https://git.lan/vllm@{'a' * 40}")
    make(vllm_source=f"ssh://git@git.lan/vllm@{'a' * 40}")


@pytest.mark.parametrize("proxy", ["proxy:3128", "socks5://proxy", "http://proxy/x", "http://a b"])
def test_what_is_no_address_of_a_proxy_is_refused(production, proxy):
    assert "must be http://HOST:PORT" in mistakes(production | {"proxy": proxy})[0]


@pytest.mark.parametrize("name", ["*.lan", "a b", "$(id)", "a,b", ""])
def test_what_no_proxy_cannot_name_is_refused(production, name):
    told = {"proxy": "http://proxy:3128"}
    assert "must be a host name" in mistakes(production | told | {"no_proxy": [name]})[0]
    Settings.model_validate(production | told | {"no_proxy": [".lan", "10.0.0.7", "git"]})


def test_no_proxy_alone_is_refused(production):
    assert "no effect without proxy" in mistakes(production | {"no_proxy": ["git"]})[0]


def test_a_file_of_authorities_is_read_and_its_mistakes_are_named(production, imitation, tmp_path):
    good = imitation.authority.read_text()
    Settings.model_validate(production | {"ca_certificates": str(imitation.authority)})
    file = tmp_path / "ca.pem"
    (key,) = [imitation.authority.with_name("server.pem")]
    for content, reason in (
        (b"\x30\x82\xff", "openssl x509 -inform der"),
        (b"", "holds no certificate"),
        (good.replace("M", "A", 3).encode(), "holds a certificate that cannot be read"),
        (key.read_bytes(), "holds a private key"),
    ):
        file.write_bytes(content)
        (line,) = mistakes(production | {"ca_certificates": str(file)})
        assert reason in line
    (line,) = mistakes(production | {"ca_certificates": str(tmp_path / "none.pem")})
    assert "cannot be read: No such file or directory" in line


def test_each_certificate_of_a_bundle_becomes_a_file_once(imitation, tmp_path):
    one = imitation.authority.read_text()
    (tmp_path / "ca.pem").write_text(f"# root\n{one}\n{one}")
    found = network.certificates(str(tmp_path / "ca.pem"))
    assert list(found.values()) == [one]
    assert next(iter(found)).endswith(".crt")


def test_a_host_is_told_of_a_proxy_in_every_spelling_and_of_none_without(
    make, tmp_path, monkeypatch
):
    assert network.environment(make()) == ""
    told = network.environment(make(proxy="http://proxy:3128/", no_proxy=[".lan"]))
    monkeypatch.setattr(on_host, "ENVIRONMENT", tmp_path / "network.env")
    environ = {"HTTPS_PROXY": "http://other", "PATH": "/bin"}
    on_host.enter(environ)
    assert environ["HTTPS_PROXY"] == "http://other"
    (tmp_path / "network.env").write_text(told)
    on_host.enter(environ)
    names = ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY")
    assert {environ[name] for name in names} == {"http://proxy:3128"}
    assert environ["no_proxy"] == environ["NO_PROXY"] == "localhost,127.0.0.1,::1,.lan"
    assert environ["PATH"] == "/bin"


def test_authorities_are_looked_for_in_the_systems_bundle(make, imitation):
    told = network.environment(make(ca_certificates=str(imitation.authority)))
    assert f"PIP_CERT={network.BUNDLE}" in told.splitlines()
    assert f"SSL_CERT_FILE={network.BUNDLE}" in told.splitlines()
    assert "proxy" not in told


def test_the_way_out_changes_nothing_of_what_is_built(make, imitation):
    told = {"proxy": imitation.proxy, "ca_certificates": str(imitation.authority)}
    assert releases.wanted(make(**told)) == releases.wanted(make())


def test_this_machines_downloads_need_the_proxy_and_the_authority(make, imitation):
    def way(**told):
        return network.Network.of(make(**told))

    authority = {"ca_certificates": str(imitation.authority)}
    for told in ({}, {"proxy": imitation.proxy}, authority):
        with pytest.raises(ValueError, match="save it as"):
            patches.fetch(URL, way(**told))
    assert imitation.asked == [NAME]
    assert patches.fetch(URL, way(proxy=imitation.proxy, **authority)) == "a patch"
    with pytest.raises(requests.ConnectionError):
        way(proxy=imitation.proxy, no_proxy=[".invalid"], **authority).get(URL, 5)
    assert imitation.asked == [NAME, NAME]


def test_a_hosts_own_download_goes_through_the_proxy(make, imitation, tmp_path):
    """What is fetched is no key: that it says so means that it was fetched."""
    repository, fingerprint = f"http://{NAME}/", "A" * 32 + "0DE9B4A5"

    def fetched():
        command = ["trust-key", repository, fingerprint, str(tmp_path / "keyring.gpg")]
        done = subprocess.run(
            [sys.executable, "-IB", "files/hostkit", *command],
            env={"HOSTKIT_ROOT": str(tmp_path)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 1
        return done.stderr

    assert "cannot fetch the key" in fetched()
    assert imitation.asked == []
    told = tmp_path / network.ENVIRONMENT[1:]
    told.parent.mkdir(parents=True)
    told.write_text(network.environment(make(proxy=imitation.proxy)))
    assert f"the key of {repository}: " in fetched()
    assert imitation.asked == [NAME, NAME]
