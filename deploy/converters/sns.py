#!/usr/bin/env python3
"""Turns the JSON of `aws sns list-endpoints-by-platform-application` into lines for `pushctl import`."""
import json
import sys

sys.dont_write_bytecode = True
from registrations import Skipped, Unreadable, registration, run, text  # noqa: E402

# The platform is a part of the endpoint's ARN: arn:aws:sns:REGION:ACCOUNT:endpoint/PLATFORM/APPLICATION/ID
PLATFORMS = {
    "APNS": ("production", "alert"), "APNS_SANDBOX": ("sandbox", "alert"), "APNS_VOIP": ("production", "voip"),
    "APNS_VOIP_SANDBOX": ("sandbox", "voip")}


def rows(file, arguments):
    whole = file.read()
    try:
        endpoints = json.loads(whole)["Endpoints"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise Unreadable(f"expected a JSON object with Endpoints: {error}") from None
    if not isinstance(endpoints, list):
        raise Unreadable(f"Endpoints is {type(endpoints).__name__}; expected a list")
    if arguments.user_field:
        fields = {name for endpoint in endpoints for name in named(endpoint)}
        if fields and arguments.user_field not in fields:
            raise Unreadable(f"no CustomUserData has the field {arguments.user_field}; the fields are {', '.join(sorted(fields))}")
    line, place = 1, 0
    for endpoint in endpoints:
        if not isinstance(endpoint, dict) or not isinstance(endpoint.get("Attributes") or {}, dict):
            yield line, Skipped("expected an object with EndpointArn and Attributes; the line is that of the endpoint before it")
            continue
        found = whole.find(json.dumps(endpoint.get("EndpointArn")), place)
        if found >= 0:
            line, place = line + whole.count("\n", place, found), found
        yield line, endpoint


def parsed(data):
    """The JSON value in a text; None where there is none."""
    try:
        return json.loads(data) if isinstance(data, str) else None
    except RecursionError:
        # Objects and arrays, very deep.
        return []
    except ValueError:
        return None


def named(endpoint):
    """The fields of the JSON object in CustomUserData; none where there is none."""
    attributes = endpoint.get("Attributes") if isinstance(endpoint, dict) else None
    value = parsed(attributes.get("CustomUserData")) if isinstance(attributes, dict) else None
    return list(value) if isinstance(value, dict) else []


def device(endpoint, arguments):
    attributes = endpoint.get("Attributes") or {}
    parts = str(endpoint.get("EndpointArn")).split("/")
    platform = parts[1] if len(parts) > 1 else "none"
    if platform not in PLATFORMS:
        raise Skipped(f"platform {platform} is none of {', '.join(PLATFORMS)}")
    if str(attributes.get("Enabled")).lower() != "true":
        raise Skipped(f"Enabled is {attributes.get('Enabled')!r}: SNS sends nothing to this endpoint")
    place, purpose = PLATFORMS[platform]
    return registration(attributes.get("Token"), place, user(endpoint, arguments.user_field), purpose)


def user(endpoint, field):
    """The user's name: all of CustomUserData, or one field of the JSON object in it."""
    data = text((endpoint.get("Attributes") or {}).get("CustomUserData"), "CustomUserData")
    if not field and isinstance(parsed(data), (dict, list)):
        fields = ", ".join(named(endpoint))
        advice = f"name the user's field with --user-field ({fields})" if fields else "it names no user"
        raise Skipped(f"CustomUserData is a JSON {'object' if isinstance(parsed(data), dict) else 'array'}: {advice}")
    if not data or not field:
        return data
    try:
        name = json.loads(data).get(field)
    except (ValueError, AttributeError, RecursionError):
        raise Skipped(f"CustomUserData is no JSON object, so it has no field {field}") from None
    # A boolean is a number in Python.
    return str(name) if isinstance(name, int) and not isinstance(name, bool) else text(name, f"the field {field} of CustomUserData")


if __name__ == "__main__":
    field = {"metavar": "NAME", "help": "CustomUserData is a JSON object, and this field of it names the user"}
    run(__doc__, rows, device, user_field=field)
