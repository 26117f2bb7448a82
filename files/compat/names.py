"""Print every flag of `vllm serve`, with its other spellings, and every variable of vllm.envs.

usage: RELEASE/venv/bin/python files/compat/names.py >files/compat/vllm-VERSION.names
"""

from vllm import envs
from vllm.entrypoints.launchers.cli_args import make_arg_parser
from vllm.utils.argparse_utils import FlexibleArgumentParser

parser = make_arg_parser(FlexibleArgumentParser())
flags = []
for action in parser._actions:
    names = [name.lstrip("-") for name in action.option_strings]
    # The name first under which argparse keeps it, then the others: --no-… and short ones.
    kept = action.dest.replace("_", "-")
    first = next((name for name in names if name == kept), names[0] if names else "")
    flags += [["flag", first, *(name for name in names if name != first)]] if first else []
for words in sorted(flags):
    print(*words)
for name in sorted(envs.environment_variables):
    print("env", name)
