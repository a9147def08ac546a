"""Writes what the simulator's page shows to a PNG: picture.py URL FILE FOLDER. Chromium's files go to FOLDER."""

import pathlib
import sys

from chromium import Chromium

url, file, folder = sys.argv[1:]
pathlib.Path(folder).mkdir(parents=True, exist_ok=True)
page = Chromium(folder)
try:
    page.see(1280, 720)
    page.open(url)
    page.wait("document.querySelectorAll('.card').length > 0", "the page shows no device")
    page.screenshot(file)
finally:
    page.close()
