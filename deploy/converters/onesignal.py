#!/usr/bin/env python3
"""Turns a CSV export of OneSignal into lines for `pushctl import`. Ask OneSignal for the extra field external_user_id."""
import sys

sys.dont_write_bytecode = True
from registrations import Skipped, environment, registration, run, table  # noqa: E402


def rows(file, arguments):
    return table(file, "identifier", "device_type", "invalid_identifier", "external_user_id")


def device(row, arguments):
    if row["device_type"] != "0":
        raise Skipped(f"device_type is {row['device_type']!r}; only 0 is iOS")
    if row["invalid_identifier"].lower() in ("t", "true", "1"):
        raise Skipped("invalid_identifier is set: OneSignal sends nothing to this token")
    return registration(
        row["identifier"], environment(arguments.environment), row["external_user_id"], locale=row.get("language"),
        time_zone=row.get("timezone_id"), app_version=row.get("game_version"), os_version=row.get("device_os"),
        device_model=row.get("device_model"))


if __name__ == "__main__":
    place = {"default": "production", "help": "the export does not name it: production (the default) or sandbox"}
    run(__doc__, rows, device, environment=place)
