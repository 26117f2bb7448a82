"""The whole deploy, in order. Each task can also be run alone."""

from pyinfra import local

local.include("tasks/check_host.py")
local.include("tasks/hostkit.py")
local.include("tasks/storage.py")
local.include("tasks/build_vllm.py")
local.include("tasks/model.py")
local.include("tasks/service.py")
local.include("tasks/verify.py")
