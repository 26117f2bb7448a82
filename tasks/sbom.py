"""Write what the current release consists of to a file on this machine. Changes nothing there."""

from tasks.shared.release import sbom
from tasks.shared.settings import settings

sbom.write(settings())
