------------------------------- MODULE Strict -------------------------------
(* Claims on a Notion page that another store decides about (docs/decisions/0010): the arbiter's row is the lease, and  *)
(* the page shows it. What the row's store does is in Desk.tla; here it is one step.                                    *)
(*                                                                                                                    *)
(* A claim leases the row, reads the page, and writes it. A last word proves the lease, writes the page, and then gives   *)
(* the row back. A write whose answer is lost may arrive at any later time, over whatever there is by then. A claim that  *)
(* comes late is known by its token. A release that comes late looks like a person's wish; so the row counts those that    *)
(* were sent and not heard of.                                                                                            *)
(*                                                                                                                    *)
(* Broken names one rule that is taken away; "nothing" is dibs.                                                         *)
EXTENDS Naturals, FiniteSets, TLC

CONSTANTS Agents, LastAttempt, Broken

VARIABLES row,      \* the arbiter's: attempt, whether it is leased, as what the last that said so left the page, and how
                    \* many releases nobody has heard of
          page,     \* Notion's: status, and the attempt whose token is on it, or 0
          pending,  \* writes to the page that nobody waits for any more
          agents,   \* where each is, under which attempt, and what it has seen
          done      \* whether the task was done

vars == <<row, page, pending, agents, done>>

Symmetry == Permutations(Agents)

Init ==
    /\ row = [attempt |-> 0, leased |-> FALSE, left |-> "ready", unheard |-> 0]
    /\ page = [status |-> "ready", token |-> 0]
    /\ pending = {}
    /\ agents = [a \in Agents |-> [at |-> "idle", attempt |-> 0, seen |-> "nothing"]]
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
    /\ row' = [row EXCEPT !.attempt = @ + 1, !.leased = TRUE]
    /\ agents' = [agents EXCEPT ![a] = [@ EXCEPT !.at = "has the row", !.attempt = row.attempt + 1]]
    /\ UNCHANGED <<page, pending, done>>

(* A page that was left done, and shows a token or is up for claiming, was written late: it is put right. *)
LateClaim == page.status = "active" /\ Broken # "takes a late claim for the page"
LateRelease == page.status = "ready" /\ row.unheard > 0 /\ Broken # "takes a late release for a wish"
WrittenLate == row.left = "done" /\ (LateClaim \/ LateRelease)
Status(a) ==
    IF Broken = "judges before it holds the row" THEN agents[a].seen
    ELSE IF WrittenLate THEN "done"
    ELSE page.status

(* "" leaves what the row says of the page as it is. *)
GiveRowBack(a, left, heard) ==
    IF ~Holds(a) THEN UNCHANGED row
    ELSE row' = [row EXCEPT !.leased = FALSE, !.left = IF left = "" THEN @ ELSE left, !.unheard = @ - heard]

Look(a) ==
    /\ agents[a].at = "has the row"
    /\ IF Status(a) = "done"
       THEN /\ GiveRowBack(a, "done", IF WrittenLate /\ page.status = "ready" THEN 1 ELSE 0)
            /\ page' = IF WrittenLate THEN [status |-> "done", token |-> 0] ELSE page
            /\ Become(a, "out")
       ELSE Become(a, "writes") /\ UNCHANGED <<row, page>>
    /\ UNCHANGED <<pending, done>>

(* A write is heard of, or it is given up and may come later. Who gave up a claim gives back the row. *)
Late(a, shows) == [shows |-> shows, of |-> agents[a].attempt]
Shows(a) == [status |-> "active", token |-> agents[a].attempt]
Show(a) ==
    /\ agents[a].at = "writes"
    /\ \/ page' = Shows(a) /\ Become(a, "works") /\ UNCHANGED <<row, pending>>
       \/ /\ pending' = pending \union {Late(a, Shows(a))}
          /\ GiveRowBack(a, "", 0)
          /\ Become(a, "out")
          /\ UNCHANGED page
    /\ UNCHANGED done

(* What would open the task again is counted before it is sent. *)
Opens(word) == IF word = "says ready" THEN 1 ELSE 0
Prove(a, word) ==
    /\ agents[a].at = "works"
    /\ IF ~Holds(a) THEN Become(a, "out") /\ UNCHANGED row
       ELSE /\ Become(a, word)
            /\ IF Broken = "gives the row back first" THEN GiveRowBack(a, "done", 0)
               ELSE row' = [row EXCEPT !.unheard = @ + Opens(word)]
    /\ UNCHANGED <<page, pending, done>>

(* The lease was renewed by the proof, and does not end while this is written. *)
Finish(a) ==
    /\ agents[a].at = "says done"
    /\ page' = [status |-> "done", token |-> 0]
    /\ GiveRowBack(a, "done", 0)
    /\ Become(a, "out")
    /\ done' = TRUE
    /\ UNCHANGED pending

(* Who does not hear whether the task is free again stops there, and the lease ends by itself. *)
Free == [status |-> "ready", token |-> 0]
Release(a) ==
    /\ agents[a].at = "says ready"
    /\ \/ page' = Free /\ GiveRowBack(a, "ready", 1) /\ UNCHANGED pending
       \/ pending' = pending \union {Late(a, Free)} /\ UNCHANGED <<page, row>>
    /\ Become(a, "out")
    /\ UNCHANGED done

Arrive(w) ==
    /\ page' = w.shows
    /\ pending' = pending \ {w}
    /\ UNCHANGED <<row, agents, done>>

(* A lease ends, whatever its holder was at; but not that of one who has just proved it. *)
Expire ==
    /\ row.leased /\ \A a \in Agents : agents[a].at \in {"says done", "says ready"} => ~Holds(a)
    /\ row' = [row EXCEPT !.leased = FALSE]
    /\ UNCHANGED <<page, pending, agents, done>>

Next ==
    \/ \E a \in Agents : Glance(a) \/ LeaseRow(a) \/ Look(a) \/ Show(a) \/ Finish(a) \/ Release(a)
    \/ \E a \in Agents, word \in {"says done", "says ready"} : Prove(a, word)
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
