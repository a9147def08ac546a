#!/usr/bin/env python3
"""Turns a table of devices into lines for `pushctl import`. The table is CSV with the columns user, token and environment."""
import sys

sys.dont_write_bytecode = True
from registrations import environment, registration, run, table  # noqa: E402


def rows(file, arguments):
    return table(file, "user", "token", *([] if arguments.environment else ["environment"]))


def device(row, arguments):
    place = environment(row.get("environment") or arguments.environment)
    return registration(row["token"], place, row["user"])


if __name__ == "__main__":
    run(__doc__, rows, device, environment={"help": "the environment of rows that state none: production or sandbox"})
