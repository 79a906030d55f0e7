"""The list of failed pairs that a sweep of nccl-tests over pairs of nodes ends with: failures, one a line."""

from __future__ import annotations

import re
from collections.abc import Iterator

from groundspeed.service.formats.nccl import AVERAGE
from groundspeed.service.formats.records import Item, Origin, Record, Scalar
from groundspeed.service.formats.source import Document

NAME = "nccl-sweep-failures"
_FAILED = re.compile(r"^\s*- (\S+\.log): (\w+?)(?:_perf)? \(N=(\d+), G=(\d+), nodes=(.+)\)\s*$")


def sniff(head: str) -> bool:
    return "FAILURE SUMMARY" in head and bool(re.search(r"^\s*- \S+\.log: \w+ \(N=\d+, G=\d+", head, re.MULTILINE))


def parse(document: Document) -> Iterator[Item]:
    found = False
    for number, line in document.lines():
        if match := _FAILED.match(line):
            found = True
            params: dict[str, Scalar] = {"N": int(match[3][:9]), "G": int(match[4][:9]), "nodes": match[5][:200]}
            where = document.where(number)
            yield Record(
                Origin(tool="nccl-tests"),
                match[2],
                AVERAGE,
                where,
                params=params,
                outcome="failed",
                reason="no bandwidth data",
            )
    if not found:
        document.refuse("names no failed test.", 1)
