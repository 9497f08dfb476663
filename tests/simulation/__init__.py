"""Stories of faults in virtual time, on the two functions as production runs them.

Each function has instances with a memory of their own, and is woken by messages, by the ends of
operations and by ticks. GKE, its autoscaler, Kueue, the cluster and the exporter are models; the
engine, the exporter's memory and the readers of objects are the product's own. What is judged, and
why: docs/develop/simulator.md.
"""
