"""`python -m local.controlplane`: the command line of the control plane. All of it is in `cli`."""

from local.controlplane.cli import app

if __name__ == "__main__":
    app(prog_name="python -m local.controlplane")
