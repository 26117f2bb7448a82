"""The front door: what is refused, and what nginx and systemd are told."""

import re

import pytest
from pydantic import ValidationError

from tasks.shared import front_door, templates
from tasks.shared.facts.hostkit import GenerationState, HostState

MINE = {
    "front_door": True,
    "front_door_certificate": "/etc/ssl/mine.pem",
    "front_door_certificate_key": "/etc/ssl/mine.key",
}
SELF_SIGNED = {
    "front_door": True,
    "front_door_certificate": "self-signed",
    "front_door_names": ["gpu.lan", "192.168.1.5"],
}

REFUSED = [
    ("vllm past it", MINE, {"listen_address": "0.0.0.0"}, "listen_address is 0.0.0.0"),
    ("vllm in the LAN", MINE, {"listen_address": "192.168.1.5"}, "past it"),
    ("no certificate", MINE, {"front_door_certificate": None}, "needs front_door_certificate"),
    ("no key", MINE, {"front_door_certificate_key": None}, "needs front_door_certificate_key"),
    ("two keys", SELF_SIGNED, {"front_door_certificate_key": "/k"}, "makes its own key"),
    ("nameless", SELF_SIGNED, {"front_door_names": []}, "needs front_door_names"),
    ("no name", SELF_SIGNED, {"front_door_names": ["a b"]}, "neither a DNS name nor"),
    ("one that ends the command", SELF_SIGNED, {"front_door_names": ["a'b"]}, "neither a DNS"),
    ("a relative path", MINE, {"front_door_certificate": "mine.pem"}, "absolute path"),
    ("one that ends the line", MINE, {"front_door_certificate": "/a;b"}, "may hold only"),
    ("a name for an address", MINE, {"front_door_address": "gpu.lan"}, "must be an IP address"),
    ("vLLM's port", MINE, {"front_door_port": 8000}, "front_door_port and port are both 8000"),
    ("Prometheus's port", MINE, {"front_door_port": 9090}, "and metrics_port are both 9090"),
    ("no port", MINE, {"front_door_port": 0}, "greater than or equal to 1"),
]


@pytest.mark.parametrize(
    ("good", "change", "reason"), [each[1:] for each in REFUSED], ids=[each[0] for each in REFUSED]
)
def test_a_front_door_that_would_not_hold_is_refused_and_its_twin_passes(
    make, good, change, reason
):
    make(**good)
    with pytest.raises(ValidationError, match=reason):
        make(**good | change)


@pytest.mark.parametrize("listen_address", front_door.LOOPBACK)
def test_vllm_may_be_on_any_loopback(make, listen_address):
    make(**MINE, listen_address=listen_address)


def test_without_a_front_door_vllm_may_listen_anywhere_once_the_risk_is_named(make):
    with pytest.raises(ValidationError, match=r'accept_risks = \["open-to-the-network"\]'):
        make(listen_address="0.0.0.0")
    make(listen_address="0.0.0.0", accept_risks=["open-to-the-network"])


NOTHING_YET = HostState()


def rendered(settings, present=NOTHING_YET):
    return templates.front_door_config(settings, front_door.servers(settings, present))


def asked(config):
    """Where vLLM is looked for, in order."""
    return [each.replace(" max_fails=0", "") for each in re.findall(r" server (.*);", config)]


def locations(config):
    return re.findall(r"^ +location (.*) \{$", config, re.MULTILINE)


def test_what_is_let_through_is_a_list_of_one(make):
    config = rendered(make(**MINE, port=8123))
    assert locations(config) == ["/v1/", "/", "@unavailable"]
    assert re.findall(r"proxy_pass (.*);", config) == ["http://vllm/v1/"]
    assert asked(config) == ["127.0.0.1:8123"]


@pytest.mark.parametrize(
    ("address", "told"),
    [
        ("0.0.0.0", "listen 0.0.0.0:443 ssl;"),
        ("::", "listen [::]:443 ssl ipv6only=off;"),
        ("fd00::5", "listen [fd00::5]:443 ssl;"),
    ],
)
def test_it_listens_where_it_is_told_with_tls_and_nowhere_else(make, address, told):
    config = rendered(make(**MINE, front_door_address=address))
    assert re.findall(r"listen .*", config) == [told]


def test_vllm_on_ipv6_is_reached(make):
    assert asked(rendered(make(**MINE, listen_address="::1"))) == ["[::1]:8000"]


def test_a_changed_port_leaves_the_way_to_what_runs_and_to_what_may_come_back(make):
    """Generation 4 runs, 3 is one to go back to, 2 never answered, 5 is staged."""
    kept = {
        2: GenerationState(digest="b", reached_at="127.0.0.1:8002"),
        3: GenerationState(digest="c", reached_at="127.0.0.1:8003", verified=True),
        4: GenerationState(digest="d", reached_at="127.0.0.1:8004"),
        5: GenerationState(digest="e", reached_at="127.0.0.1:8005"),
    }
    config = rendered(make(**MINE, port=8005), HostState(running=4, current=4, generations=kept))
    assert asked(config) == ["127.0.0.1:8005", "127.0.0.1:8003 backup", "127.0.0.1:8004 backup"]


def test_certificate_key_and_size_are_the_settings(make):
    config = rendered(make(**MINE, front_door_max_body_mb=7))
    assert "ssl_certificate /etc/ssl/mine.pem;" in config
    assert "ssl_certificate_key /etc/ssl/mine.key;" in config
    assert "client_max_body_size 7m;" in config
    assert front_door.files(make(**SELF_SIGNED)) == (front_door.OWN_CERTIFICATE, front_door.OWN_KEY)


def test_names_and_addresses_are_told_apart_in_a_certificate():
    names = ["gpu.lan", "*.gpu.lan", "192.168.1.5", "fd00::5"]
    told = "DNS:gpu.lan,DNS:*.gpu.lan,IP:192.168.1.5,IP:fd00::5"
    assert front_door.alternative_names(names) == told


def test_requests_under_way_have_as_long_as_at_a_stop_of_vllm(make):
    assert "TimeoutStopSec=77" in templates.front_door_unit(make(**MINE, shutdown_timeout_s=77))


def test_a_check_of_the_host_knows_its_port(make):
    assert make(**MINE).ports[443] == "front_door_port"
    assert 443 not in make().ports


def test_windows_lets_the_lan_in_at_the_front_door(make):
    script = templates.windows_script(make(**MINE, front_door_port=8443), "Ubuntu-24.04")
    assert "[int]$Port = 8443" in script
    assert "$lan = $true" in script
    assert "8000" not in script
