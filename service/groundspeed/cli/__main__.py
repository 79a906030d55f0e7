"""``python -m groundspeed.cli`` is ``groundspeed``: used where the script may not be on PATH."""

from groundspeed.cli.main import main

main()
