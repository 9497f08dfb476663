"""The local stack: every stand-in and every deployed part as processes of one machine, started and ended together.

What lives here: which processes there are, how they are started, named, restarted and stopped, and the Pub/Sub
resources between them. What does not: the stand-ins themselves (`local.cluster`, `local.fakegke`, `local.pubsub`,
`local.kubelet`) and what the demo shows of a run (`local.demo`).
"""
