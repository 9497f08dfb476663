#!/usr/bin/env bash
# Packs the functions' source as Terraform uploads it: BUILD_FOLDER/functions.zip. The same source
# gives the same bytes.
#
# Inputs: none; optional BUILD_FOLDER (default: build/deploy), PYTHON (default: python3, 3.11 or
# newer).
# shellcheck source-path=SCRIPTDIR source=inputs.sh
. "$(dirname "$0")/inputs.sh"

"${PYTHON:-python3}" "$ROOT/infra/build/stage_functions.py" --zip "$BUILD_FOLDER/functions.zip"
