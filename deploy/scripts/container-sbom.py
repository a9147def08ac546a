#!/usr/bin/env python3
"""Prints the SBOM of one image as CycloneDX 1.6 JSON: the Debian packages of the image, the Swift packages that its program is linked from,
and the toolchain whose standard library is linked in. deploy/Dockerfile runs it after the build."""

import argparse
import datetime
import json
import pathlib
import re
import subprocess
import sys
import uuid

# The image holds this file of the package, and not the package itself (deploy/Dockerfile).
COPIED = "ca-certificates"


def debian_packages(status, distribution):
    """The installed packages of a dpkg status file."""
    for paragraph in pathlib.Path(status).read_text(encoding="utf-8").split("\n\n"):
        fields = dict(re.findall(r"^([A-Za-z-]+): (.*)$", paragraph, re.MULTILINE))
        if fields.get("Status") == "install ok installed":
            name, version = fields["Package"], fields["Version"]
            # A package URL writes these three characters of a version by their codes.
            quoted = version.replace("+", "%2B").replace(":", "%3A").replace("~", "%7E")
            purl = f"pkg:deb/debian/{name}@{quoted}?arch={fields['Architecture']}&distro={distribution}"
            yield {"type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl}


def linked_modules(build, program):
    """The modules whose object files the linker got for the program."""
    objects = (build / "release" / f"{program}.product" / "Objects.LinkFileList").read_text(encoding="utf-8")
    return set(re.findall(r"/([^/\n]+)\.build/", objects))


def packages_of_modules(build):
    """From a module to the checkout of its package, as the plan of the build has it."""
    found, inputs = {}, ""
    for line in (build / "release.yaml").read_text(encoding="utf-8").split("\n"):
        if line.startswith("    inputs: "):
            inputs = line
        elif line.startswith("    outputs: "):
            module = re.search(r"/release/([^/\"]+)\.build/", line)
            checkout = re.search(r"/checkouts/([^/\"]+)/", inputs)
            if module and checkout:
                found[module[1]] = checkout[1]
    return found


def swift_packages(build, program):
    pins = {pin["identity"]: pin for pin in json.loads((build.parent / "Package.resolved").read_text(encoding="utf-8"))["pins"]}
    packages = packages_of_modules(build)
    modules = linked_modules(build, program)
    for identity in sorted({packages[module].lower() for module in modules if module in packages}):
        pin = pins[identity]
        path = pin["location"].removeprefix("https://").removesuffix(".git")
        purl = f"pkg:swift/{path}@{pin['state']['version']}"
        yield {"type": "library", "bom-ref": purl, "name": identity, "version": pin["state"]["version"], "purl": purl,
               "externalReferences": [{"type": "vcs", "url": pin["location"], "comment": f"commit {pin['state']['revision']}"}]}


def toolchain():
    words = subprocess.run(["swift", "--version"], check=True, capture_output=True, text=True).stdout
    version = re.search(r"Swift version ([0-9.]+)", words)[1]
    purl = f"pkg:github/swiftlang/swift@swift-{version}-RELEASE"
    return {"type": "framework", "bom-ref": purl, "name": "swift", "version": version, "purl": purl}


def document(arguments):
    release = dict(re.findall(r'^(\w+)="?([^"\n]*)"?$', pathlib.Path("/etc/os-release").read_text(encoding="utf-8"), re.MULTILINE))
    distribution = f"{release['ID']}-{release['VERSION_ID']}"
    components = list(debian_packages(arguments.status, distribution))
    if not components:
        sys.exit(f"container-sbom: {arguments.status} names no installed package; give the dpkg status file of the image.")
    if not any(component["name"] == COPIED for component in components):
        components += [component for component in debian_packages("/var/lib/dpkg/status", distribution) if component["name"] == COPIED]
    components += swift_packages(arguments.build, arguments.program)
    components.append(toolchain())
    program = {"type": "application", "bom-ref": arguments.program, "name": arguments.program, "version": arguments.version}
    if arguments.commit:
        program["properties"] = [{"name": "push:commit", "value": arguments.commit}]
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid4()}",
        "version": 1,
        "metadata": {
            "timestamp": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
            "tools": {"components": [{"type": "application", "name": "container-sbom.py"}]},
            "component": program,
        },
        "components": components,
        "dependencies": [{"ref": arguments.program, "dependsOn": [component["bom-ref"] for component in components]}],
    }


parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--program", required=True)
parser.add_argument("--version", required=True, help="the program's")
parser.add_argument("--commit", default="")
parser.add_argument("--status", required=True, help="the image's dpkg status file")
parser.add_argument("--build", required=True, type=pathlib.Path, help="the folder .build of a release build, Package.resolved beside it")
json.dump(document(parser.parse_args()), sys.stdout, indent=1)
print()
