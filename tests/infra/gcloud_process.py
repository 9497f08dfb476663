"""Is gcloud for `tests/infra/real_gcloud.py`: a line of words in, a line of what it answers out.

The argument is the folder of gcloud's libraries. It imports nothing of the project.
"""

import contextlib
import io
import json
import sys


def main(libraries: str) -> None:
    """Answer until the input ends."""
    sys.path[:0] = [libraries, f"{libraries}/third_party"]
    from googlecloudsdk import gcloud_main  # type: ignore[import-not-found]  # noqa: PLC0415 -- after the path
    from googlecloudsdk.core import log  # type: ignore[import-not-found]  # noqa: PLC0415 -- after the path

    program, answers = gcloud_main.CreateCLI([]), sys.stdout
    for line in sys.stdin:
        out, err, code = io.StringIO(), io.StringIO(), 0
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            log.Reset(out, err)
            try:
                program.Execute(json.loads(line))
            except SystemExit as end:
                code = int(end.code or 0)
        answers.write(json.dumps([code, out.getvalue(), err.getvalue()]) + "\n")
        answers.flush()


if __name__ == "__main__":
    main(sys.argv[1])
