"""The doctor on a host with the real engine, as the deploy has left it."""

from .faults import doctor, rows


def test_a_real_server_has_no_finding(deployed):
    """No GPU, CUDA or Windows is missed where the settings want none."""
    done = doctor(deployed)
    assert (done.returncode, rows(done.stderr)) == (0, []), done.stderr
    for row in ("server", "release", "patches", "version", "start", "command line", "environment"):
        assert f"ok       {row}" in done.stderr
    assert "loaded modules hashed" in done.stderr
