"""`python -m standins.fakegke`: the command line of the fake GKE. All of it is in `commands`."""

from standins.fakegke.cli import app

if __name__ == "__main__":
    app(prog_name="python -m standins.fakegke")
