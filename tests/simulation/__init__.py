"""Stories of faults in virtual time, on the two functions as production runs them.

Each function has instances with a memory of their own, and is woken by messages, by the ends of
operations and by ticks. GKE, its autoscaler, Kueue, the cluster and the exporter are models; the
engine, the exporter's memory and the readers of objects are the product's own.

What is judged by the truth, and why:

- *in use*: a pool on whose nodes a pod runs is never deleted. That is the first goal. A pod that
  was bound after a look of at most 11 seconds is only counted: nothing can recall a request.
- *needed pools*: a live workload keeps as many whole pools as it has slices, and all of them while
  it is suspended for less than the grace: a queue resumes it in that time.
- *no pool too many*: nothing is created for a slice that has a pool which serves or comes; one that
  only strangers use may be left out, and an elastic pool may have one node more for each that they
  use, because its own pods need what the spec wants. A create whose request was sent before is only
  counted; with two instances of different releases, whose names differ, also one after a look.
- *one pool per slot*: two whole pools of a slot never stand beside a pod that waits for more than
  some ticks, and as many as the deletes before it need where GKE has few operation slots.
- *creates per hour*: a slot gets its ways and three more in an hour, because each one costs money,
  and one more for each time that a person resumes its workload.
- *pauses*: a list of capacity that ended begins again after a pause, which doubles. The judge
  counts the lists itself, but for what loses its record: under a limit, with a reservation, and
  where a slice may have run on a pool of somebody else it goes by the label.
- *limits*: one instance never passes them. A second one, and old answers, may; that is counted.
- *every pool ends*: nobody pays for a pool that nobody needs, or that fits no need. An elastic pool
  without a node and with a maximum of one costs nothing, and may stay with its workload.
- *idle time*: a pool that may stay idle is not deleted much before its time.
- *every demand answered*: a pod that waits has a pool, or its owner can read why.
- *served when there is capacity*: none waits for ever where a zone of its list has machines.
- *foreign pools*: no label of ours, no act.
- *stop*: a label of a namespace forbids acts within seconds.
- *deletions per minute*: absent owners and failed pools are more often a mistake than so many.
- *all or nothing*: a gang is Ready only when all its pools run, and holds a part for a time only;
  a pool on which others run cannot go, and nothing goes while a create that hangs holds the last
  operation slot.
- *no message lost*: each is answered, but where something fails for long.
- *plans at rest*: both functions make the same plan, so at rest it has no act.
- *replay changes nothing*: a message is a hint.
- *no exception*: no error that the product does not know.
"""
