"""Say everything that is known about the host, and refuse one that the deploy cannot work on."""

from pyinfra import host, logger
from pyinfra.api.exceptions import DeployError

from tasks.shared import host_checks, inspection
from tasks.shared.host_checks import findings
from tasks.shared.run import guards

found = inspection.host_findings()
alone = guards.runs_alone("tasks/check_host.py")
shown = found if alone else findings.left_to_do(found)
for line, color in findings.table(shown, with_ok=alone):
    host.log_styled(line, fg=color, log_func=logger.warning if color else logger.info)
refusals = host_checks.blocking(found, cures_follow=guards.is_dry() or not alone)
if refusals:
    names = ", ".join(dict.fromkeys(each.what for each in refusals))
    raise DeployError(f"{host.name} cannot be deployed to, see above: {names}")
