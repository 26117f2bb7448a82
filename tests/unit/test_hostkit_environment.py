"""What a unit is told in private."""

import shlex

from hypothesis import given
from hypothesis import strategies as st

from hostkit.host import environment

# The rules of systemd's double quotes are those of a POSIX shell.
VALUES = st.text(st.characters(blacklist_categories=["Cs", "Cc"]) | st.sampled_from('"\\`$\n#;'))


@given(VALUES)
def test_a_shell_reads_the_value_that_was_meant(value):
    (word,) = shlex.split(environment.text({"NAME": value}).replace("\\`", "`").replace("\\$", "$"))
    assert word == f"NAME={value}"


def test_only_its_owner_may_read_the_file(tmp_path):
    file = tmp_path / "told.env"
    option = environment.write(file, {"KEY": "secret", "OTHER": 'a "b" $c'})
    assert option == f"--property=EnvironmentFile={file}"
    assert file.stat().st_mode & 0o777 == 0o600
    assert file.read_text() == 'KEY="secret"\nOTHER="a \\"b\\" \\$c"\n'
