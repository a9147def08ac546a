"""What the converters of this folder share: they turn each device of another system into a line that `pushctl import` takes."""
import argparse
import csv
import json
import re
import sys
import uuid

# The other system has no installation id, so a converter derives one from the token (UUID version 5, RFC 9562 section 5.5). The
# same token always has the same id: a second import of a device changes its installation and makes no second one.
NAMESPACE = uuid.uuid5(uuid.NAMESPACE_URL, "urn:push:imported-installation")
ENVIRONMENTS = {
    "production": "production", "prod": "production", "sandbox": "sandbox", "development": "sandbox", "dev": "sandbox"}
# How databases and languages write "no value", when it is printed as a text.
NULLS = {"NULL", "null", "\\N", "None", "nil", "(null)", "undefined"}
# The service refuses names with them.
CONTROLS = re.compile(r"[\x00-\x1f\x7f]")
EXIT_CODES = (
    "Exit codes: 0 every device was written, 2 some were skipped or stand twice with two users, 1 the input cannot be read, "
    "64 wrong usage.")


class Skipped(Exception):
    """Why the converter leaves out one device."""


class Unreadable(Exception):
    """Why the converter can read nothing of the input."""


class Parser(argparse.ArgumentParser):
    def error(self, message):
        self.exit(64, f"{self.prog}: {message}\n")


def environment(text):
    if (text or "").strip().lower() not in ENVIRONMENTS:
        raise Skipped(f"environment is {text or 'empty'}; expected one of {', '.join(ENVIRONMENTS)}")
    return ENVIRONMENTS[text.strip().lower()]


def text(value, name):
    """The text without blanks at its ends; empty for none."""
    if value is not None and not isinstance(value, str):
        raise Skipped(f"{name} is {type(value).__name__}; expected a text")
    try:
        (value or "").encode()
    except UnicodeEncodeError:
        raise Skipped(f"{name} is no valid Unicode") from None
    return (value or "").strip()


def registration(token, place, user, purpose="alert", **profile):
    """The fields of `PUT …/installations/{id}`, and `id`. `place` is the token's environment."""
    token, user = text(token, "token"), text(user, "user")
    if user in NULLS:
        raise Skipped(f"user is {user}: the name of nobody is an empty one")
    if "\n" in user or "\r" in user:
        raise Skipped("user has several lines: perhaps a quote is not closed")
    if CONTROLS.search(user):
        raise Skipped("user has a control character")
    # Old tables hold tokens as `<0a1b 2c3d>`: what NSData's description was before iOS 13.
    digits = re.sub(r"[<>\s]", "", token).lower()
    if not re.fullmatch(r"(?:[0-9a-f]{2}){1,256}", digits):
        raise Skipped(f"token has {len(digits)} characters; expected an even number of hex digits, 2 to 512")
    if user and len(user.encode()) > 256:
        raise Skipped("user is longer than 256 bytes")
    line = {"id": str(uuid.uuid5(NAMESPACE, digits)), "user": user or None}
    line["tokens"] = [{"token": digits, "environment": place, "purpose": purpose}]
    line.update({name: value for name, value in profile.items() if value and len(value.encode()) <= 64})
    return line


def table(file, *names):
    """The rows of a CSV file (RFC 4180) as dictionaries, each with the line on which it begins. `names` are columns that it must have."""
    reader = csv.DictReader(file, strict=True)
    line = 1
    try:
        columns = reader.fieldnames or []
        missing = [name for name in names if name not in columns]
        if missing:
            raise Unreadable(f"line 1: no column {', '.join(missing)}; the columns are {', '.join(columns or ['none'])}")
        if len(set(columns)) < len(columns):
            raise Unreadable(f"line 1: a column stands twice: {', '.join(columns)}")
        line = reader.line_num + 1
        for row in reader:
            # A quote that nobody closed takes in the lines behind it.
            if None in row or None in row.values():
                row = Skipped(f"it has more or fewer fields than the {len(columns)} columns")
            yield line, row
            line = reader.line_num + 1
    except csv.Error as error:
        raise Unreadable(f"line {line}: the row that begins here is no CSV, perhaps for want of a closing quote: {error}") from None


def run(description, rows, device, **options):
    """Converts. `rows(file, arguments)` yields line numbers and rows; a row may be a Skipped. `device(row, arguments)` makes a
    registration or raises Skipped."""
    parser = Parser(description=description, epilog=EXIT_CODES)
    parser.add_argument("file", nargs="?", default="-", help="the input; - or nothing for standard input")
    for name, settings in options.items():
        parser.add_argument("--" + name.replace("_", "-"), **settings)
    arguments = parser.parse_args()
    sys.stdout.reconfigure(encoding="utf-8")
    written = skipped = nameless = repeated = disputed = 0
    # By installation id: the line and the user.
    seen = {}
    try:
        with open(0 if arguments.file == "-" else arguments.file, encoding="utf-8-sig", newline="") as file:
            for line, row in rows(file, arguments):
                try:
                    if isinstance(row, Skipped):
                        raise row
                    made = device(row, arguments)
                    print(json.dumps(made, ensure_ascii=False, separators=(",", ":")))
                    written += 1
                    nameless += made["user"] is None
                    if made["id"] in seen:
                        before, user = seen[made["id"]]
                        repeated += 1
                        if user != made["user"]:
                            disputed += 1
                            print(f"line {line}: the token of line {before} with another user: the import keeps the later one", file=sys.stderr)
                    seen[made["id"]] = (line, made["user"])
                except Skipped as reason:
                    print(f"line {line}: {reason}", file=sys.stderr)
                    skipped += 1
    except (OSError, UnicodeDecodeError, Unreadable) as error:
        parser.exit(1, f"{parser.prog}: {error}\n{written} were written before it, {skipped} skipped\n")
    if nameless:
        print(f"{nameless} without a user: they get what is sent to everybody, to tags and to them by id", file=sys.stderr)
    if repeated:
        print(f"{repeated} with the token of an earlier line", file=sys.stderr)
    print(f"{written} written, {skipped} skipped", file=sys.stderr)
    sys.exit(2 if skipped or disputed else 0)
