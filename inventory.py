"""The machines to deploy to.

Only hosts belong here: every public list of strings in this file is a group of hosts. A host's own
settings stand beside its name; the names are those of group_data/all.py.
"""

hosts = ["@local"]

# Over SSH:
#
# hosts = [
#     ("gpu-box", {"ssh_user": "me", "_sudo": True, "ssh_strict_host_key_checking": "yes"}),
#     ("gpu-box-2", {"ssh_user": "root", "gpus": 1, "gpu_memory_mib": 16303}),
# ]
