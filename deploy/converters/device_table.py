#!/usr/bin/env python3
"""Turns a table of devices into lines for `pushctl import`. The table is CSV with the columns user, token and environment."""
import csv
import sys

sys.dont_write_bytecode = True
from registrations import environment, registration, require_columns, run  # noqa: E402


def rows(file):
    reader = csv.DictReader(file)
    require_columns(reader, "token")
    for row in reader:
        yield reader.line_num, row


def device(row, arguments):
    place = environment(row.get("environment") or arguments.environment)
    return registration(row["token"], place, (row.get("user") or "").strip())


if __name__ == "__main__":
    run(__doc__, rows, device, environment={"help": "the environment of rows that state none: production or sandbox"})
