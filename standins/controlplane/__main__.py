"""`python -m standins.controlplane`: the command line of the control plane.

All of it is in `cli`.
"""

from standins.controlplane.cli import app

if __name__ == "__main__":
    app(prog_name="python -m standins.controlplane")
