"""The local stack: every stand-in and every deployed part as processes of one machine."""
