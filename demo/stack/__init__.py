"""The local stack: every stand-in and every deployed part as processes of one machine.

They start and end together. This package names, starts, restarts and stops the processes, and makes
the Pub/Sub resources between them. The stand-ins are in `standins`, what the demo shows of a run in
`demo.loop`.
"""
