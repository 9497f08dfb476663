#!/usr/bin/env bash
# Packs the functions' source as Terraform uploads it: BUILD_FOLDER/functions.zip. The same source
# gives the same bytes. For a rollback, it takes the archive that provision-02-state-bucket.sh
# fetched.
#
# Inputs: none; optional FUNCTIONS_ARCHIVE, BUILD_FOLDER (default: build/deploy), PYTHON (default:
# python3, 3.11 or newer).
# shellcheck source-path=SCRIPTDIR source=inputs.sh
. "$(dirname "$0")/inputs.sh"

kept=$BUILD_FOLDER/functions-kept.zip
if [ -n "$FUNCTIONS_ARCHIVE" ] && [ -f "$kept" ]; then # the destroy build fetches none, and needs none
    found=$(name_of_archive "$kept")
    [ "$found" = "$FUNCTIONS_ARCHIVE" ] || fail "FUNCTIONS_ARCHIVE: the content of $FUNCTIONS_ARCHIVE is that of $found; it was changed after it was kept"
    cp "$kept" "$BUILD_FOLDER/functions.zip"
    say "The functions are those of $FUNCTIONS_ARCHIVE, not those of this source"
    exit 0
fi
"${PYTHON:-python3}" "$ROOT/infra/build/stage_functions.py" --zip "$BUILD_FOLDER/functions.zip"
