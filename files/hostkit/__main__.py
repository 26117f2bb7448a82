"""Entry point: `python3 -IB /opt/vllm/hostkit COMMAND`."""

import sys

from hostkit.cli import main

sys.exit(main(sys.argv[1:]))
