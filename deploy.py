"""The whole deploy, in order. Each task can also be run alone."""

from pyinfra import local

from tasks.shared import inspection

local.include("tasks/check_host.py")
local.include("tasks/wsl.py")
# Without systemd the task above ends the run: WSL has to be restarted first.
if inspection.machine().has_systemd:
    local.include("tasks/hostkit.py")
    local.include("tasks/cuda.py")
    local.include("tasks/storage.py")
    local.include("tasks/build_vllm.py")
    local.include("tasks/model.py")
    local.include("tasks/service.py")
    local.include("tasks/front_door.py")
    local.include("tasks/watch.py")
    local.include("tasks/metrics.py")
    local.include("tasks/verify.py")
    local.include("tasks/retention.py")
