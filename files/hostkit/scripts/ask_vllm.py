"""Would vLLM start with this serve.yaml? Asks its own parser and configuration check.

Run by a release's Python, in the generation's environment. The last line of standard output is
JSON: a verdict (accepted, refused, or unjudged where this machine cannot tell) and the reason.
No model is loaded, and no memory of a GPU is taken: vLLM asks the driver's management library, and
for the class of a hybrid model CUDA's runtime for the device's name, which takes no context.
"""

import contextlib
import io
import json
import sys
from collections.abc import Callable
from typing import Any

# What vLLM raises for settings that it will not start with. Anything else is about this machine.
REFUSALS = (ValueError, TypeError, KeyError, AssertionError, NotImplementedError)


def judge(ask: Callable[[], str]) -> tuple[str, str]:
    """The verdict and its reason; what argparse prints before it exits is the reason, too."""
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            return "accepted", ask()
    except SystemExit:
        lines = [line.strip() for line in said.getvalue().splitlines() if line.strip()]
        usage = [line for line in lines if "error: " in line]
        return "refused", (usage or lines or ["the argument parser gave no reason"])[-1]
    except REFUSALS as error:
        return "refused", reason(error)
    except Exception as error:
        return "unjudged", reason(error)


def reason(error: BaseException) -> str:
    """An exception in one line; what pydantic found, without its links."""
    if hasattr(error, "errors"):
        found = [
            ".".join(map(str, [*each["loc"], ""])) * bool(each["loc"]) + " " + each["msg"]
            for each in error.errors()
        ]
        text = "; ".join(each.strip().removeprefix("Value error, ") for each in found)
    else:
        text = str(error.args[0]) if isinstance(error, KeyError) and error.args else str(error)
    text = " ".join(text.split()) or type(error).__name__
    return text if isinstance(error, ValueError) else f"{type(error).__name__}: {text}"


def ask(config: str) -> str:
    """Do what `vllm serve --config` does before it takes a device. Returns what is worth saying."""
    from vllm.engine.arg_utils import AsyncEngineArgs
    from vllm.entrypoints.launchers import cli_args, launcher
    from vllm.platforms import current_platform
    from vllm.plugins import load_general_plugins
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    load_general_plugins()
    parser = cli_args.make_arg_parser(FlexibleArgumentParser(prog="vllm serve"))
    args = parser.parse_args(["--config", config])
    if getattr(args, "model_tag", None):
        args.model = args.model_tag
    cli_args.validate_parsed_serve_args(args)
    launcher.validate_api_server_args(args)
    if current_platform.is_unspecified():
        raise RuntimeError("the arguments are known, but vLLM sees no GPU here to check them for")
    AsyncEngineArgs.from_cli_args(args).create_engine_config()
    return f"checked for {current_platform.get_device_name()}"


def gpu_was_taken() -> bool:
    """Has this process made a context on a GPU? That alone takes some hundred MiB of it."""
    torch: Any = sys.modules.get("torch")
    if not torch or not torch.cuda.is_initialized():
        return False
    return any(map(torch._C._cuda_hasPrimaryContext, range(torch.cuda.device_count())))


if __name__ == "__main__":
    verdict, why = judge(lambda: ask(sys.argv[1]))
    print(json.dumps({"verdict": verdict, "reason": why, "gpu_was_taken": gpu_was_taken()}))
