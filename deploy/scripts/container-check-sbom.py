#!/usr/bin/env python3
"""container-check-sbom.py SBOM PACKAGES: the SBOM of an image is valid CycloneDX 1.6, names exactly the Debian packages of the image beside
ca-certificates, and names Swift packages. PACKAGES has lines of a name and a version. Needs cyclonedx-python-lib[json-validation]."""

import json
import pathlib
import sys

from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

text = pathlib.Path(sys.argv[1]).read_text(encoding="utf-8")
if fault := JsonStrictValidator(SchemaVersion.V1_6).validate_str(text):
    sys.exit(f"{sys.argv[1]} is not CycloneDX 1.6: {str(fault).splitlines()[0]}")
components = json.loads(text)["components"]
named = {f"{part['name']} {part['version']}" for part in components if part["purl"].startswith("pkg:deb/")}
installed = set(pathlib.Path(sys.argv[2]).read_text(encoding="utf-8").splitlines())
missing = installed - named
extra = {package for package in named - installed if not package.startswith("ca-certificates ")}
swift = [part["name"] for part in components if part["purl"].startswith("pkg:swift/")]
if missing or extra:
    sys.exit(f"{sys.argv[1]} and the image differ: not in the SBOM {sorted(missing)}, not in the image {sorted(extra)}")
if "swift-argument-parser" not in swift:
    sys.exit(f"{sys.argv[1]} names no swift-argument-parser, which every program is linked from: {swift}")
print(f"{len(named)} Debian and {len(swift)} Swift packages")
