"""The SSD tier's folder is filled, unmounted, another's, or a link."""

from .fault import Fault

_KV = "/var/lib/vllm/kv"
_LIMITS = "/etc/vllm/kv-tier.json"
# A RAM tier that this container lets a server pin.
_TIER = tuple(
    word
    for setting in ("kv_ssd_gb=1", "kv_ram_gib=0.004", "kv_min_free_gb=0")
    for word in ("--data", setting)
)


def _tier(name: str, where: str, plant: str, remove: str = "", said: tuple[str, ...] = ()) -> Fault:
    return Fault("KV folder", name, where, plant, remove, said=said, data=_TIER)


TIER = (
    _tier(
        "somebody's own files lie in the KV folder as it is pruned",
        _KV,
        f"mkdir {_KV}/mine; echo mine >{_KV}/mine/notes.bin; touch -d '9 days ago' {_KV}/mine/*; "
        f'sed -i \'s/"quota_bytes": [0-9]*/"quota_bytes": 1/\' {_LIMITS}; '
        "systemctl start vllm-kv-prune",
        f"grep -q mine {_KV}/mine/notes.bin; rm -r {_KV}/mine",
    ),
    _tier("the KV folder is gone", _KV, f"rm -r {_KV}"),
    _tier("the KV folder is another's", _KV, f"chown root: {_KV}; chmod 700 {_KV}"),
    _tier(
        "the KV folder is a link to elsewhere",
        _KV,
        f"mv {_KV} /srv/kv; ln -s /srv/kv {_KV}",
        f"rm {_KV}; mv /srv/kv {_KV}",
        said=(_KV,),
    ),
    _tier("the KV folder has lost its mark", _KV, f"rm {_KV}/.vllm-kv-tier"),
    _tier("the tier's limits are cut to nothing", _LIMITS, f": >{_LIMITS}"),
    _tier("the tier's limits are junk", _LIMITS, f"junk {_LIMITS}"),
)
