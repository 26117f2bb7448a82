"""A load test as a job: the lock, an idle server before each part, and a healthy one afterwards.

What is measured is decided on the control machine (tasks/shared/load_tests); this carries it out.
"""

import contextlib
import json
import os
import re
import shutil
import time
from pathlib import Path
from typing import Any

from hostkit.generation import generations
from hostkit.host import good, gpus, lock, paths, units
from hostkit.host.jobs import progress
from hostkit.host.process import Failure, read_json, write_atomic
from hostkit.measure.loadsteps import ADVICE, Session
from hostkit.serving import goodstart, idle, outlook, server, warmup

WORK = paths.RUN / "load-test"
RESULT = paths.HEALTH / "load-test.json"
UNIT = "vllm-job-load-test.service"

_SEQUENCES = re.compile(r'^"?max-num-seqs"?: (\d+)$', re.MULTILINE)


def register(subparsers: Any) -> None:
    actions = subparsers.add_parser("load-test", help="measure the server").add_subparsers(
        required=True, metavar="ACTION"
    )
    parser = actions.add_parser("outlook", help="what there is to measure, as JSON")
    parser.set_defaults(run=lambda _args: _print(look()))
    parser = actions.add_parser("run", help="carry out an order (JSON)")
    parser.add_argument("order", type=Path)
    parser.set_defaults(run=lambda args: run(read_json(args.order)))
    parser = actions.add_parser("result", help="of the last load test that came to its end")
    parser.set_defaults(run=lambda _args: _print(read_json(RESULT)))
    parser = actions.add_parser("left", help="fails naming the processes that one left behind")
    parser.set_defaults(run=lambda _args: check_nothing_left())


def _print(found: Any) -> int:
    print(json.dumps(found))
    return 0


def look() -> dict[str, Any]:
    """What a plan depends on. Keys are read by tasks/shared/facts/load_test.py."""
    try:
        number = server.find().generation
    except server.NotAnswering as error:
        return {"why_not": f"no server to measure: {error}"}
    note = generations.note(number)
    start = goodstart.of_generation(number)
    config = (generations.folder(number) / "serve.yaml").read_text("utf-8")
    sequences = _SEQUENCES.search(config)
    holder = lock.holder()
    return {
        "why_not": str(holder) if holder else idle.busy(),
        "generation": number,
        "digest": note["digest"],
        "release": note["release"],
        "max_model_len": note.get("max_model_len", 0),
        "max_num_seqs": int(sequences[1]) if sequences else 1,
        "kv_tokens": (start.kv_tokens if start else None) or 0,
        "offloads": bool(note.get("kv_offload")),
        "has_ssd_tier": outlook.tier_of(number) is not None,
        "hardware": hardware(),
        "versions": good.versions(),
    }


def hardware() -> list[str]:
    """GPUs and processor in words; two hosts that say the same can be compared."""
    found = []
    with contextlib.suppress(gpus.Unreadable):
        rows = gpus.smi("--query-gpu=name,memory.total", "--format=csv,noheader").splitlines()
        found += [row.strip() for row in rows if row.strip()]
    models = re.findall(r"^model name\s*: (.+)$", _read("/proc/cpuinfo"), re.MULTILINE)
    found.append(f"{os.cpu_count()} x {models[0] if models else 'processor'}")
    return found


def run(order: dict[str, Any]) -> int:
    """Carry out an order, and write down its result; Failure when the server is not as before."""
    with lock.held("running a load test", order["by"]):
        idle.require(order["wait_s"], progress, "not tested", ADVICE)
        found = server.find()
        result = {
            "order": order,
            "began": time.time(),
            **{key: value for key, value in look().items() if key != "why_not"},
        }
        session = Session(found, order, WORK / "work")
        shutil.rmtree(WORK / "work", ignore_errors=True)
        try:
            warmup.run(found)
            session.carry_out()
        finally:
            shutil.rmtree(WORK / "work", ignore_errors=True)
            check_nothing_left()
        check_same(session.found)
        result |= {"rows": session.rows, "not_run": session.not_run}
        result["seconds"] = round(time.time() - result["began"], 1)
        write_atomic(RESULT, json.dumps(result) + "\n")
    return 0


def check_same(before: server.Server) -> None:
    """Failure unless the server that was measured is still there, and answers."""
    try:
        now = server.find()
        if now.pid != before.pid:
            raise Failure(
                f"the server was started anew during the load test (process {before.pid}, now "
                f"{now.pid}): hostkit failures says why"
            )
        server.probe(now)
    except server.NotAnswering as error:
        raise Failure(f"the server does not answer after the load test: {error}") from error


def check_nothing_left() -> int:
    """Failure naming what a load test started and did not end, by its unit's control group."""
    left = {pid for pid in units.processes_of(UNIT) if pid != os.getpid()}
    named = [f"{pid} ({units.command_line(pid)[:60]})" for pid in sorted(left)]
    if named:
        raise Failure(f"the load test left behind: process {', '.join(named)}: kill it")
    return 0


def _read(path: str) -> str:
    try:
        return Path(path).read_text("utf-8", "replace")
    except OSError:
        return ""
