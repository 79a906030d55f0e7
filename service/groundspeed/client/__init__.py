"""A Groundspeed service from Python: every call typed by the messages that the service itself is made of.

>>> from groundspeed.client import Client
>>> with Client("https://perf.example.org", token="...") as service:          # doctest: +SKIP
...     service.report("mylib", Path("bench.json").read_bytes(), name="bench.json", commit="1f3c9aa")
...     for row in service.regressions("mylib").rows:
...         print(row.title, row.worst)

Needs httpx and pydantic (``pip install 'groundspeed[worker]'``). A test holds every call against the OpenAPI document.
"""

from groundspeed.client.client import Client
from groundspeed.client.operations import OPERATIONS, Operation

__all__ = ["OPERATIONS", "Client", "Operation"]
