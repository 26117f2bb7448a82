import argparse
import importlib

import pytest

from hostkit import cli


@pytest.mark.parametrize("module", sorted(set(cli.MODULES.values())))
def test_the_table_says_which_module_brings_a_command(module):
    parser = argparse.ArgumentParser()
    subparsers = parser.add_subparsers()
    importlib.import_module(f"hostkit.{module}").register(subparsers)
    assert sorted(subparsers.choices) == [
        command for command, brings in sorted(cli.MODULES.items()) if brings == module
    ]


def test_help_lists_every_command(capsys):
    with pytest.raises(SystemExit) as ended:
        cli.main(["--help"])
    assert ended.value.code == 0
    words = capsys.readouterr().out.split()
    assert set(cli.MODULES) <= set(words)


def test_help_names_the_commands_that_people_call():
    listed = cli.FOR_PEOPLE.partition(": ")[2].partition(". ")[0]
    assert set(listed.replace(" and ", ", ").split(", ")) <= set(cli.MODULES)


def test_what_is_no_command_is_told_which_there_are(capsys):
    with pytest.raises(SystemExit) as ended:
        cli.main(["stat"])
    assert ended.value.code == 2
    assert "'state'" in capsys.readouterr().err
