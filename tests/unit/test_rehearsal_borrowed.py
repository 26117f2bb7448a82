"""What the rehearsal host takes over from the control machine."""

import configparser
import tomllib

import pytest

from tests.rehearsal.host import borrowed

DEB822 = """\
# Types: deb
Types: deb deb-src
URIs: http://mirror.example/debian
Suites: trixie trixie-updates
Components: main
 contrib
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg

Types: deb
URIs: http://mirror.example/debian-security/
Suites: trixie-security
Components: main

Enabled: no
Types: deb
URIs: http://disabled.example/debian
Suites: trixie
Components: main
"""


def mirrors(*, lists="", sources="", files=None):
    entries = borrowed.parse_apt_list(lists) + borrowed.parse_apt_deb822(sources)
    return borrowed.mirror_lines(entries, "bookworm", (files or {}).__getitem__)


def test_a_deb822_mirror_of_another_release_serves_the_hosts_release():
    assert mirrors(sources=DEB822) == [
        "deb http://mirror.example/debian bookworm main",
        "deb http://mirror.example/debian bookworm-updates main",
        "deb http://mirror.example/debian-security bookworm-security main",
    ]


def test_a_one_line_mirror_with_options_is_read():
    lists = "deb [arch=amd64 signed-by=/k.gpg] https://m.example/debian stable main contrib # x\n"
    assert mirrors(lists=lists) == ["deb https://m.example/debian bookworm main"]


@pytest.mark.parametrize(
    "line",
    [
        "deb https://vendor.example/linux/debian-tools bookworm main",
        "deb https://vendor.example/debian bookworm stable",
        "deb https://vendor.example/debian bookworm-pgdg main",
        "deb http://mirror.example/ubuntu noble main",
        "deb cdrom:[Debian]/ bookworm main",
        "deb-src http://mirror.example/debian bookworm main",
        "# deb http://mirror.example/debian bookworm main",
    ],
)
def test_what_is_not_debians_own_archive_is_no_mirror(line):
    assert mirrors(lists=line) == []


def test_a_mirror_list_file_is_followed():
    lists = "deb mirror+file:/etc/apt/mirrors/d.list bookworm main"
    listed = {"/etc/apt/mirrors/d.list": "# first\nhttps://m.example/debian/ priority:1\n"}
    assert mirrors(lists=lists + " ", files=listed) == [
        "deb https://m.example/debian bookworm main"
    ]


def test_apt_keeps_proxies_and_date_checks_and_nothing_else():
    dump = (
        'Acquire::http::Proxy "http://proxy.example:3128";\n'
        'Acquire::http::Proxy::m.example "DIRECT";\n'
        'Acquire::Check-Date "false";\n'
        'Acquire::Languages "none";\n'
        'DPkg::Pre-Install-Pkgs:: "/usr/sbin/dpkg-preconfigure";\n'
    )
    assert [line.split()[0] for line in borrowed.apt_options(dump)] == [
        "Acquire::http::Proxy",
        "Acquire::http::Proxy::m.example",
        "Acquire::Check-Date",
    ]


LISTING = """\
:env:.find-links='/srv/wheels'
global.cert='/etc/control.pem'
global.constraint='/etc/constraints.txt'
global.extra-index-url='file:///srv/a/simple https://b.example/simple'
global.find-links='/overridden'
install.index-url='https://c.example/simple'
global.index-url='https://d.example/simple'
"""


def test_pip_on_the_host_is_told_what_pip_here_is_told():
    settings = borrowed.parse_pip_config(LISTING)
    read = configparser.ConfigParser()
    read.read_string(borrowed.pip_conf(settings))
    told = {key: value.split() for key, value in read["global"].items()}
    assert told == {
        "cert": ["/etc/ssl/certs/ca-certificates.crt"],
        "disable-pip-version-check": ["1"],
        "index-url": ["https://c.example/simple"],
        "extra-index-url": ["file:///srv/a/simple", "https://b.example/simple"],
        "find-links": ["/srv/wheels"],
    }


def test_uv_on_the_host_is_told_the_same_and_trusts_the_systems_certificates():
    read = tomllib.loads(borrowed.uv_toml(borrowed.parse_pip_config(LISTING)))
    assert read == {
        "system-certs": True,
        "index-url": "https://c.example/simple",
        "extra-index-url": ["file:///srv/a/simple", "https://b.example/simple"],
        "find-links": ["/srv/wheels"],
        "index-strategy": "unsafe-best-match",
    }


def test_local_package_folders_are_those_that_hold_the_files_of_an_index_too():
    settings = {
        "find-links": "/srv/wheels https://e.example/x.html",
        "extra-index-url": "file:///srv/my%20index/simple https://b.example/simple",
    }
    assert borrowed.local_folders(settings) == ["/srv/wheels", "/srv/my index"]


def test_the_hosts_environment_has_the_proxies_and_its_own_certificates_but_no_secret():
    kept = borrowed.host_environment(
        {
            "HTTPS_PROXY": "http://p.example:1",
            "no_proxy": "localhost",
            "REQUESTS_CA_BUNDLE": "/home/me/ca.pem",
            "HF_TOKEN": "hf_secret",
            "HOME": "/home/me",
            "http_proxy": "",
        }
    )
    assert kept == {
        "HTTPS_PROXY": "http://p.example:1",
        "REQUESTS_CA_BUNDLE": "/etc/ssl/certs/ca-certificates.crt",
        "no_proxy": "localhost",
    }


def test_services_get_a_percent_sign_and_a_space_unchanged():
    text = borrowed.manager_conf({"http_proxy": "http://u:a%40b@p.example", "no_proxy": "a, b"})
    assert text == (
        "[Manager]\nDefaultEnvironment=http_proxy=http://u:a%%40b@p.example 'no_proxy=a, b'\n"
    )


def test_a_bundle_is_split_into_its_certificates_each_once():
    one = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----"
    two = "-----BEGIN CERTIFICATE-----\nBBBB\nCCCC\n-----END CERTIFICATE-----"
    assert borrowed.certificates(f"# first\n{one}\n{two}\njunk\n{one}\n") == [one, two]
