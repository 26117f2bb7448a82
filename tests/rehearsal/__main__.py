"""python -m tests.rehearsal: a throwaway host with a real systemd, reached by SSH."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import time

from .host import machine, smollm2, state
from .host.control import cache, elevated, say
from .host.errors import RehearsalError

_NEED_ROOT = {"up", "down", "reboot", "power-cut", "clean-cache"}


def _arguments(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.rehearsal", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def command(name: str, text: str) -> argparse.ArgumentParser:
        sub = commands.add_parser(name, help=text, description=text)
        if name not in ("status", "model", "clean-cache"):
            sub.add_argument("--name", type=state.checked_name, default=state.DEFAULT_NAME)
        return sub

    up = command("up", "make a host, or boot the one that is there")
    up.add_argument("--fresh", action="store_true", help="throw away the one that is there first")
    net = up.add_mutually_exclusive_group()
    net.add_argument(
        "--private-network",
        action="store_const",
        const=True,
        help="a network of its own, without a way out of it",
    )
    net.add_argument(
        "--shared-network",
        dest="private_network",
        action="store_const",
        const=False,
        help="this machine's network (as made)",
    )
    down = command("down", "stop and remove a host")
    down.add_argument("--all", action="store_true", help="every host of this clone")
    command("reboot", "restart the host in the orderly way")
    cut = command("power-cut", "kill everything of the host at once, then boot it")
    cut.add_argument("--no-boot", action="store_true", help="leave it off")
    ssh = command("ssh", "log in, or run a command: ssh -- COMMAND")
    ssh.add_argument("words", nargs="*", metavar="COMMAND")
    command("status", "the hosts of this clone")
    command("model", "make the SmolLM2-135M-Instruct folder and print its path")
    command("clean-cache", "remove the cached root trees, downloads and models")
    return parser.parse_args(argv)


def _main(argv: list[str]) -> int:
    arguments = _arguments(argv)
    if arguments.command in _NEED_ROOT and os.geteuid() != 0:
        command = elevated(argv)
        os.execv(command[0], command)
    started = time.monotonic()
    match arguments.command:
        case "up":
            host = machine.up(
                arguments.name, fresh=arguments.fresh, private_network=arguments.private_network
            )
            say(f"{_line(host)} ({time.monotonic() - started:.1f} s)")
        case "down":
            for name in state.names() if arguments.all else [arguments.name]:
                there = machine.down(name)
                took = f"removed ({time.monotonic() - started:.1f} s)" if there else "not there"
                say(f"{name}: {took}")
        case "reboot":
            say(_line(machine.reboot(arguments.name)))
        case "power-cut":
            say(_line(machine.power_cut(arguments.name, boot=not arguments.no_boot)))
        case "ssh":
            command = state.load(arguments.name).ssh_command(*arguments.words)
            os.execvp(command[0], command)
        case "status":
            if not state.names():
                say("no host is there: python -m tests.rehearsal up")
            for name in state.names():
                try:
                    print(_line(state.load(name)))
                except RehearsalError:
                    print(f"{name}: half-made; python -m tests.rehearsal up --name {name}")
        case "model":
            print(smollm2.make())
        case "clean-cache":
            if running := [name for name in state.names() if machine.is_running(name)]:
                raise RehearsalError(
                    f"host {', '.join(running)} uses the cache; "
                    "first: python -m tests.rehearsal down --all"
                )
            shutil.rmtree(cache())
            say(f"removed {cache()}")
    return 0


def _line(host: state.Host) -> str:
    what = "running" if machine.is_running(host.name) else "off"
    network = "own network" if host.private_network else "shared network"
    return (
        f"{host.name}: {what}, ssh {host.ssh_hostname}:{host.ssh_port}, "
        f"server port {host.api_port}, {network}"
    )


def _run() -> int:
    try:
        return _main(sys.argv[1:])
    except RehearsalError as error:
        print(f"rehearsal: error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("rehearsal: interrupted; the same command goes on from here", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(_run())
