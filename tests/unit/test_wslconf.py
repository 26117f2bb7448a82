"""wsl.conf and .wslconfig: read as WSL reads them, edited without losing anything."""

import pytest

from tasks.shared.wsl import windows, wslconf
from tests.unit.machines import WSLCONFIG, changed, good

BOOT = {"boot": {"systemd": "true"}}
VM = {"wsl2": {"memory": "24GB"}, "general": {"instanceIdleTimeout": "-1"}}


@pytest.mark.parametrize(
    ("text", "key", "value"),
    [
        ("[boot]\nsystemd=true\n", "boot.systemd", "true"),
        ("[BOOT]\n\tSystemD \t= TRUE  \n", "boot.systemd", "TRUE"),
        ("[boot] # start\nsystemd=true# now\n", "boot.systemd", "true"),
        ('[boot]\ncommand="a # b"\n', "boot.command", "a # b"),
        ("[boot]\nsystemd=true\nsystemd=false\n", "boot.systemd", "true"),
        ("systemd=true\n", ".systemd", "true"),
        ("[ boot ]\nsystemd=true\n", "boot.systemd", None),
        ("[boot\nsystemd=true\n", "boot.systemd", None),
        ("[boot]\n;systemd=true\n", "boot.systemd", None),
        ("[boot]\n#systemd=true\n", "boot.systemd", None),
        ("", "boot.systemd", None),
    ],
)
def test_a_file_is_read_as_wsl_reads_it(text, key, value):
    assert wslconf.parse(text).get(key) == value


@pytest.mark.parametrize(
    ("text", "bytes_"),
    [("24GB", 24 * 2**30), ("512MB", 2**29), ("8gb", 2**33), ("1024", 1024), ("24 gigs", None)],
)
def test_sizes_are_read_as_wsl_reads_them(text, bytes_):
    assert wslconf.size_bytes(text) == bytes_


@pytest.mark.parametrize(
    ("before", "values", "after"),
    [
        ("", BOOT, "[boot]\nsystemd=true\n"),
        ("[boot]", BOOT, "[boot]\nsystemd=true\n"),
        ("[boot]\nsystemd=false # no\n", BOOT, "[boot]\nsystemd=true # no\n"),
        (
            "# mine\n[user]\ndefault=me\n",
            BOOT,
            "# mine\n[user]\ndefault=me\n\n[boot]\nsystemd=true\n",
        ),
        (
            "[user]\ndefault=me # I\n\n[Boot]\n; x\ncommand = a=b\n",
            BOOT,
            "[user]\ndefault=me # I\n\n[Boot]\n; x\ncommand = a=b\nsystemd=true\n",
        ),
        (
            "[wsl2]\n# half\nMemory = 4GB\nswapFile=C:\\\\a\\\\b.vhdx\n\n[experimental]\n"
            "sparseVhd=true\n",
            VM,
            "[wsl2]\n# half\nMemory=24GB\nswapFile=C:\\\\a\\\\b.vhdx\n\n[experimental]\n"
            "sparseVhd=true\n\n[general]\ninstanceIdleTimeout=-1\n",
        ),
        ("[boot]\nsystemd=1\n", BOOT, "[boot]\nsystemd=true\n"),
    ],
)
def test_only_what_is_asked_for_changes(before, values, after):
    assert wslconf.updated(before, values) == after
    assert wslconf.updated(after, values) == after


@pytest.mark.parametrize(
    "text",
    ["[boot]\nsystemd=true\n", "[Boot]\nSystemd = True # x\n[boot]\nsystemd=false\nnonsense\n"],
)
def test_what_wsl_already_reads_is_not_touched(text):
    assert wslconf.updated(text, BOOT) == text


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[wsl2]\nmemory=1GB\nmemory=2GB\n", "line  3|already exists"),
        ("[wsl2]\nmemory\n", "parsing errors"),
        ("memory=1GB\n[wsl2]\n", "no section headers"),
    ],
)
def test_a_file_that_cannot_be_edited_safely_is_refused(text, words):
    with pytest.raises(ValueError, match=words):
        wslconf.updated(text, VM)


ENCODINGS = [
    b"[wsl2]\nmemory=4GB # gr\xc3\xb6\xc3\x9fer\n",
    WSLCONFIG,
    b"\xef\xbb\xbf" + WSLCONFIG,
    b"\xff\xfe" + WSLCONFIG.decode().encode("utf-16-le"),
    b"\xfe\xff" + WSLCONFIG.decode().encode("utf-16-be"),
    WSLCONFIG.decode().encode("utf-16-le"),
    b"# caf\xe9 in Windows' old code page\r\n[wsl2]\r\n",
    b"",
]


@pytest.mark.parametrize("content", ENCODINGS)
def test_a_file_keeps_its_encoding_mark_and_line_ends(content):
    found = wslconf.decode(content)
    assert wslconf.rewritten(found, found.text) == content
    after = wslconf.rewritten(found, wslconf.updated(found.text, {"wsl2": {"swap": "0"}}))
    again = wslconf.decode(after)
    assert (again.encoding, again.mark) == (found.encoding, found.mark)
    assert (again.newline == found.newline) or not content
    assert wslconf.parse(again.text)["wsl2.swap"] == "0"


def test_windows_line_ends_can_be_taken_out():
    found = wslconf.decode(b"[boot]\r\nsystemd=true\r\n")
    assert wslconf.rewritten(found, found.text, "\n") == b"[boot]\nsystemd=true\n"


def test_settings_become_the_values_of_wslconfig(make):
    own = make(wsl_memory_gib=28, wsl_swap_gib=0, wsl_networking="mirrored")
    assert windows.wslconfig(own) == {
        "wsl2": {
            "memory": "28GB",
            "swap": "0",
            "networkingMode": "mirrored",
            "vmIdleTimeout": "-1",
        },
        "general": {"instanceIdleTimeout": "-1"},
    }
    assert windows.wslconfig(make(wsl_keep_alive=False)) == {}


@pytest.mark.parametrize(
    ("users", "configs", "chosen", "expected"),
    [
        (("me",), {}, None, "me"),
        (("a", "b"), {"b": b""}, None, "b"),
        (("a", "b"), {}, None, None),
        (("a", "b"), {"a": b"", "b": b""}, None, None),
        (("a", "b"), {"a": b"", "b": b""}, "b", "b"),
        (("a",), {}, "typo", None),
        ((), {}, None, None),
    ],
)
def test_the_windows_user_is_the_only_one_or_the_chosen_one(users, configs, chosen, expected):
    machine = changed(windows_users=users, wslconfigs=configs)
    assert windows.user(machine, chosen) == expected


@pytest.mark.parametrize(
    ("output", "version"),
    [
        ("WSL version: 2.7.0.0\r\nKernel version: 6.6.114.1-1\r\n".encode("utf-16-le"), "2.7.0.0"),
        ("WSL-Version: 2.6.3.0\r\n".encode("utf-16-le"), "2.6.3.0"),
        ("WSL バージョン: 2.7.1.0\r\n".encode("utf-16-le"), "2.7.1.0"),
        ("Usage: wsl.exe [Argument]\r\n".encode("utf-16-le"), ""),
        (b"", ""),
    ],
)
def test_wsls_version_is_read_in_any_language(output, version):
    assert windows.wsl_version(output) == version


def test_the_distributions_name_is_what_windows_calls_it():
    assert windows.distribution(good()) == "Ubuntu-24.04"
    assert windows.distribution(changed(wslpath="\\\\wsl$\\Debian\\")) == "Debian"
    assert windows.distribution(changed(wslpath="")) == ""
