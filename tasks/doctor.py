"""Say how the host and what runs on it are, and what to do about it. Changes nothing there."""

from pyinfra import host, logger

from tasks.shared import health, inspection
from tasks.shared.facts.doctor import Report
from tasks.shared.health import examination
from tasks.shared.host_checks import findings
from tasks.shared.run import guards
from tasks.shared.settings import settings
from tasks.shared.support import bundles

own = settings()

checked = inspection.host_findings()
found = health.as_problems(checked)
report = Report()
if inspection.can_be_asked(checked):
    report = examination.report()
    found += health.judge(report, examination.wanted(report))

table = findings.table(found, worst="problem")
for line, color in table:
    host.log_styled(line, fg=color, log_func=logger.warning if color else logger.info)
if own.bundle:
    bundles.write(own, report, [line for line, _ in table])
problems = ", ".join(dict.fromkeys(each.what for each in found if each.level == "problem"))
if problems:
    told = f"{host.name} is not well, see above: {problems}"
    host.log_styled(told, fg="red", log_func=logger.error)
    guards.end_with_failure(host)
