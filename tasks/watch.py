"""Watch over the server: whether it hangs, and who is told when it fails."""

from pyinfra.operations import files

from tasks.shared import credentials, templates
from tasks.shared.operations import units
from tasks.shared.operations.secrets import secret_file
from tasks.shared.settings import settings

own = settings()

notify_file = own.notify_file
if notify_file:
    secret_file(
        name="Write who is told of failures",
        path=credentials.NOTIFY,
        content=credentials.notify_address(notify_file),
    )
else:
    files.file(name="Tell nobody of failures", path=credentials.NOTIFY, present=False)
units.timer(
    name="Look once a minute whether the server hangs",
    unit=templates.WATCH,
    files=templates.watch(own),
)
