"""systemd hands over exactly the environment that was meant: asked of systemd itself."""

import json

from tasks.shared.engine import formats

from . import deploys

NASTY = {
    "SPACES": "a b  c ",
    "HASH": "30   # not a comment",
    "QUOTES": 'it\'s "quoted"',
    "JSON": json.dumps({"a": "b\\c"}),
    "DOLLAR": "$HOME ${HOME} `id`",
    "BACKSLASH": "ends with \\",
    "PERCENT": "%n %%",
    "EMPTY": "",
    "UNICODE": "ä€",
}


def test_every_value_arrives_unchanged(fresh_host):
    deploys.on_host("cat >/srv/test.env", host=fresh_host, stdin=formats.env_file(NASTY))
    output = deploys.on_host(
        "systemd-run --quiet --wait --pipe --collect -p EnvironmentFile=/srv/test.env "
        "/usr/bin/env -0",
        host=fresh_host,
    )
    found = dict(entry.split("=", 1) for entry in output.split("\0") if "=" in entry)
    assert {key: found.get(key) for key in NASTY} == NASTY
