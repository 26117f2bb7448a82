"""Refuse a host that the deploy cannot work on, before anything on it is changed."""

from pyinfra import host, logger
from pyinfra.api.exceptions import DeployError

from tasks.shared import checks
from tasks.shared.facts.machine import MachineFact
from tasks.shared.settings import settings

own = settings()
for warning in checks.warnings(own):
    host.log_styled(warning, fg="yellow", log_func=logger.warning)
refusals = checks.refusals(host.get_fact(MachineFact), own)
if refusals:
    raise DeployError("\n  ".join([f"{host.name} cannot be deployed to:", *refusals]))
