"""What is allowed and warned of."""

from tasks.shared import checks, patches


def test_kv_offload_under_wsl2_is_warned_of_where_the_series_lacks_the_patch(make, monkeypatch):
    assert checks.warnings(make()) == []
    monkeypatch.setattr(patches, "series", lambda version: [])
    (line,) = checks.warnings(make())
    assert "kv_ram_gib = 0" in line
    assert checks.warnings(make(kv_ram_gib=0, kv_ssd_gb=0)) == []
    assert checks.warnings(make(wsl2=False)) == []
