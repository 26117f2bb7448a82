"""The script for Windows. No Windows is at hand: what is tested is its text."""

import re

import pytest

from tasks.shared import templates

LAN = {"listen_address": "0.0.0.0", "accept_risks": ["open-to-the-network"]}


def script(make, distribution="Ubuntu-24.04", **changes):
    return templates.windows_script(make(**changes), distribution)


def test_it_is_plain_ascii_since_windows_own_powershell_reads_utf_8_as_something_else(make):
    assert script(make).isascii()


def test_it_never_stops_wsl(make):
    for line in script(make).splitlines():
        assert not re.search(r"--shutdown|--terminate|--unregister", line), line


def test_a_server_on_loopback_opens_nothing(make):
    text = script(make)
    assert "$lan = $false" in text
    assert "[int]$Port = 8000" in text
    assert "-d $Distribution" in text


@pytest.mark.parametrize(("mode", "mirrored"), [("mirrored", "$true"), ("nat", "$false")])
def test_the_lan_is_let_in_from_its_own_subnet_only(make, mode, mirrored):
    text = script(make, **LAN, port=8765, wsl_networking=mode)
    assert f"$mirrored = {mirrored}" in text
    assert "$lan = $true" in text
    assert "[int]$Port = 8765" in text
    rules = re.findall(r"New-NetFirewall(?:.*`\n)*.*", text)
    assert len(rules) == 2
    assert all("LocalSubnet" in rule for rule in rules)


def test_without_keep_alive_there_is_no_scheduled_task(make):
    assert "Register-ScheduledTask" in script(make)
    assert "Register-ScheduledTask" not in script(make, wsl_keep_alive=False)


def test_brackets_and_quotes_are_balanced(make):
    for changes in ({}, LAN, {"wsl_keep_alive": False}):
        code = re.sub(r"<#.*?#>", "", script(make, **changes), flags=re.DOTALL)
        for one, two in ("()", "{}", "[]"):
            assert code.count(one) == code.count(two)
        assert all(line.count('"') % 2 == 0 for line in code.splitlines())
