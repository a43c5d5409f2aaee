------------------------------- MODULE Strict -------------------------------
(* Claims on a Notion page that another store decides about (docs/decisions/0010): the arbiter's row is the lease, and  *)
(* the page shows it. What the row's store does is in Desk.tla; here it is one step.                                    *)
(*                                                                                                                    *)
(* A claim leases the row, reads the page, and writes it. A finish proves the lease, writes the page, and then gives the *)
(* row back. A write whose answer is lost may arrive at any later time, over whatever there is by then.                  *)
(*                                                                                                                    *)
(* Broken names one rule that is taken away; "nothing" is dibs.                                                         *)
EXTENDS Naturals, FiniteSets, TLC

CONSTANTS Agents, LastAttempt, Broken

VARIABLES row,      \* the arbiter's: attempt, whether it is leased, and as what the latest attempt left the page
          page,     \* Notion's: status, and the attempt whose token is on it, or 0
          pending,  \* writes to the page that nobody waits for any more
          agents,   \* where each is, under which attempt, and what it has to go by
          done      \* whether the task was done

vars == <<row, page, pending, agents, done>>

Symmetry == Permutations(Agents)

Init ==
    /\ row = [attempt |-> 0, leased |-> FALSE, shown |-> "ready"]
    /\ page = [status |-> "ready", token |-> 0]
    /\ pending = {}
    /\ agents = [a \in Agents |-> [at |-> "idle", attempt |-> 0, seen |-> "nothing", before |-> "ready"]]
    /\ done = FALSE

Become(a, at) == agents' = [agents EXCEPT ![a].at = at]
Holds(a) == row.leased /\ agents[a].attempt = row.attempt

(* What the list shows may be old. Only one who reads the page before the row is its own goes by that. *)
Glance(a) ==
    /\ Broken = "judges before it holds the row" /\ agents[a].at = "idle" /\ agents[a].seen = "nothing"
    /\ agents' = [agents EXCEPT ![a].seen = page.status]
    /\ UNCHANGED <<row, page, pending, done>>

LeaseRow(a) ==
    /\ agents[a].at = "idle" /\ ~row.leased /\ row.attempt < LastAttempt
    /\ Broken = "judges before it holds the row" => agents[a].seen # "nothing"
    /\ row' = [row EXCEPT !.attempt = @ + 1, !.leased = TRUE, !.shown = "unknown"]
    /\ agents' = [agents EXCEPT ![a] = [@ EXCEPT !.at = "has the row", !.attempt = row.attempt + 1, !.before = row.shown]]
    /\ UNCHANGED <<page, pending, done>>

(* A page that shows somebody's token although the last attempt is over was written late: it is as that attempt left it. *)
WrittenLate(a) == page.token # 0 /\ agents[a].before # "unknown" /\ Broken # "takes a late write for the page"
Status(a) ==
    IF Broken = "judges before it holds the row" THEN agents[a].seen
    ELSE IF WrittenLate(a) THEN agents[a].before
    ELSE page.status

GiveRowBack(a, shown) ==
    IF Holds(a) THEN row' = [row EXCEPT !.leased = FALSE, !.shown = shown] ELSE UNCHANGED row

Look(a) ==
    /\ agents[a].at = "has the row"
    /\ IF Status(a) = "done"
       THEN /\ GiveRowBack(a, "done")
            /\ Become(a, "out")
       ELSE Become(a, "writes") /\ UNCHANGED row
    /\ UNCHANGED <<page, pending, done>>

(* A write is heard of, or it is given up and may come later. Who gave up a claim gives back the row. *)
Shows(a) == [status |-> "active", token |-> agents[a].attempt]
Show(a) ==
    /\ agents[a].at = "writes"
    /\ \/ page' = Shows(a) /\ Become(a, "works") /\ UNCHANGED <<row, pending>>
       \/ /\ pending' = pending \union {Shows(a)}
          /\ GiveRowBack(a, "ready")
          /\ Become(a, "out")
          /\ UNCHANGED page
    /\ UNCHANGED done

Prove(a) ==
    /\ agents[a].at = "works"
    /\ IF Holds(a)
       THEN /\ Become(a, "says done")
            /\ IF Broken = "gives the row back first" THEN GiveRowBack(a, "done") ELSE UNCHANGED row
       ELSE Become(a, "out") /\ UNCHANGED row
    /\ UNCHANGED <<page, pending, done>>

(* The lease was renewed by the proof, and does not end while this is written. *)
Finish(a) ==
    /\ agents[a].at = "says done"
    /\ page' = [status |-> "done", token |-> 0]
    /\ GiveRowBack(a, "done")
    /\ Become(a, "out")
    /\ done' = TRUE
    /\ UNCHANGED pending

Arrive(w) ==
    /\ page' = w
    /\ pending' = pending \ {w}
    /\ UNCHANGED <<row, agents, done>>

(* A lease ends, and the row no longer tells how the page was left; but not that of one who has just proved it, nor of  *)
(* one who has not yet looked at the page. Who dies there leaves nothing to know a late write by, and the task may be     *)
(* done once more.                                                                                                       *)
Expire ==
    /\ row.leased /\ \A a \in Agents : agents[a].at \in {"has the row", "says done"} => ~Holds(a)
    /\ row' = [row EXCEPT !.leased = FALSE]
    /\ UNCHANGED <<page, pending, agents, done>>

Next ==
    \/ \E a \in Agents : Glance(a) \/ LeaseRow(a) \/ Look(a) \/ Show(a) \/ Prove(a) \/ Finish(a)
    \/ \E w \in pending : Arrive(w)
    \/ Expire

Spec == Init /\ [][Next]_vars

-----------------------------------------------------------------------------
Works(a) == agents[a].at = "works" /\ Holds(a)

(* Once a task was done, nobody gets to work on it. *)
DoneStaysDone == [][done => \A a \in Agents : Works(a)' => Works(a)]_vars

(* What is said last is said under the lease; so the page is never finished by one who has lost the row. *)
FinishedUnderTheLease == [][\A a \in Agents : agents[a].at = "says done" /\ agents'[a].at = "out" => Holds(a)]_vars
=============================================================================
