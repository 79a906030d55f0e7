"""``python3 -m tests.bench.gpu LINE … --out DIR [--devices 0,1] [--seconds 500] [--small]``.

Runs the lines of lines.py one after the other, each within its seconds, and leaves for each DIR/LINE.jsonl (reports),
DIR/LINE.json (figures) and DIR/LINE.md (tables). ``--report`` makes figures and tables again from what is there.
``--small`` needs no GPU: small models and a few runs, to see that everything works. Without LINE: all of them.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import traceback
from pathlib import Path

from tests.bench.gpu import analysis
from tests.bench.gpu.lines import LINES, Bench, NoTables, share_of


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="python3 -m tests.bench.gpu", description=__doc__.split("\n", 1)[0])
    parser.add_argument("lines", nargs="*", metavar="LINE", help=", ".join(LINES))
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--devices", default="0,1")
    parser.add_argument("--seconds", type=float, default=500.0, help="of each line")
    parser.add_argument("--total", type=float, default=0.0, help="seconds of all lines together, shared out")
    parser.add_argument("--most", type=int, default=10_000, help="rounds or jobs of each line")
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--report", action="store_true", help="tables of what is there; runs nothing")
    parser.add_argument("--no-tables", action="store_true", help="reports alone, one file a line of work")
    options = parser.parse_args(arguments)
    unknown = [name for name in options.lines if name not in LINES]
    if unknown:
        parser.error(f"there is no line {unknown[0]!r}; there are: {', '.join(LINES)}")
    names = options.lines or list(LINES)
    end = time.monotonic() + options.total
    for index, name in enumerate(names):
        begin = time.monotonic()
        seconds = share_of(name, names[index + 1 :], max(0.0, end - begin)) if options.total else options.seconds
        bench = Bench(
            options.out, options.devices.split(","), seconds,
            small=options.small, most=options.most, runs=not options.report,
        )  # fmt: skip
        bench.tables = not options.no_tables
        told = one(name, bench)
        sys.stdout.write(f"{name}: {time.monotonic() - begin:.0f} s, {told}\n")
        sys.stdout.flush()
    return 0


def one(name, bench):
    """Runs a line and writes its tables; returns what is to be said of it. Whatever happens, the next line has its turn."""
    try:
        tables = LINES[name](bench)
    except NoTables as why:
        return f"no tables here ({why}); make them with --report"
    except ModuleNotFoundError as error:
        return f"no tables here ({error}); make them with --report where numpy and scipy are"
    except Exception:  # noqa: BLE001 - a line of several, on a machine that is paid for by the minute
        return traceback.format_exc()
    write(bench.out, name, tables)
    return str(bench.out / f"{name}.md")


def write(out, name, tables):
    (out / f"{name}.json").write_text(json.dumps(tables, indent=1, default=str) + "\n")
    parts = [f"### {LINES[name].__doc__}\n"]
    for title, rows in tables.items():
        parts.append(f"\n**{title}**\n\n{analysis.markdown(rows)}")
    (out / f"{name}.md").write_text("\n".join(parts))


if __name__ == "__main__":
    sys.exit(main())
