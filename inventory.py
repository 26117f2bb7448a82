"""The machines to deploy to.

Only hosts belong here: every public list of strings in this file is a group of hosts. A host's own
settings stand beside its name; the names are those of group_data/all.py.
"""

hosts = ["@local"]

# The same as a user who is not root; sudo's password is asked for where it wants one:
#
# hosts = [("@local", {"_sudo": True})]
#
# Over SSH, to hosts that are in ~/.ssh/known_hosts (log in once with ssh: it asks):
#
# hosts = [
#     ("gpu-box", {"ssh_user": "me", "_sudo": True}),
#     ("gpu-box-2", {"ssh_user": "root", "gpus": 1, "gpu_memory_mib": 16303}),
# ]
