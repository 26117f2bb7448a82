"""Folders of text files on their way to a host and back."""

import subprocess

from tasks.shared.trees import Link, differences, digest, pack, unpack

TREE: dict[str, str | Link] = {
    "a.txt": "one\n",
    "sub/b.txt": "zwei ä\n",
    "empty": "",
    "link": Link("/opt/x"),
}


def test_a_tree_arrives_as_it_was_sent(tmp_path):
    script = f"base64 -d | tar -C {tmp_path} -xzf -"
    subprocess.run(["sh", "-c", script], input=pack(TREE).encode(), check=True)
    assert (tmp_path / "sub/b.txt").read_text() == "zwei ä\n"
    assert (tmp_path / "link").readlink().as_posix() == "/opt/x"
    script = f"tar -C {tmp_path}/ -czf - . | base64 -w 0"
    done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True)
    assert unpack(done.stdout) == TREE


def test_a_changed_byte_is_another_tree():
    assert digest(TREE) == digest(dict(reversed(TREE.items())))
    assert digest(TREE) != digest(TREE | {"a.txt": "one"})
    assert digest(TREE) != digest(TREE | {"link": Link("/opt/y")})


def test_differences_name_each_changed_file():
    after: dict[str, str | Link] = {
        "a.txt": "two\n",
        "sub/b.txt": "zwei ä\n",
        "new": "x\n",
        "link": Link("/opt/y"),
    }
    assert list(differences(TREE, after)) == [
        ("a.txt", ["one\n"], ["two\n"]),
        ("link", ["-> /opt/x\n"], ["-> /opt/y\n"]),
        ("new", [], ["x\n"]),
    ]
