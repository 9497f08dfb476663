#!/usr/bin/env bash
# Creates a Python environment with exactly the functions' packages, by hash, in
# BUILD_FOLDER/python. A second run changes nothing.
#
# Inputs: none; optional PYTHON (default: python3, 3.11 or newer). Later scripts then use
# PYTHON=BUILD_FOLDER/python/bin/python.
# shellcheck source-path=SCRIPTDIR source=inputs.sh
. "$(dirname "$0")/inputs.sh"

[ -x "$BUILD_FOLDER/python/bin/python" ] || "${PYTHON:-python3}" -m venv "$BUILD_FOLDER/python"
"$BUILD_FOLDER/python/bin/python" -m pip install --quiet --disable-pip-version-check --no-input --require-hashes \
    --requirement "$ROOT/requirements.txt"
