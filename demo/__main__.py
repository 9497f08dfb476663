"""``python -m demo``: run workloads on a local cloud, or keep one.

Exit codes of `run`: 0 the end state is verified, 1 it is not, 2 the input cannot be run.
"""

import signal

if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    # Until something is started there is nothing to clean up, and a traceback helps nobody.
    signal.signal(signal.SIGINT, signal.SIG_DFL)

from demo.commands import app

if __name__ == "__main__":
    app(prog_name="python -m demo")
