"""Start of `python -m standins.pubsub`; the commands are in `command`."""

from standins.pubsub.cli import app

if __name__ == "__main__":
    app(prog_name="python -m standins.pubsub")
