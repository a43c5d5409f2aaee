-------------------------------- MODULE Desk --------------------------------
(* The desk as every strict store keeps it: leases that end, attempts that are a fence, tasks that wait for others.   *)
(*                                                                                                                    *)
(* Each action is one verb of the store's port, and so one transaction. Time is the store's alone: it goes on, and a   *)
(* clock that is set back makes leases longer. Processes keep every token they were ever given and may show it at any   *)
(* time, since nobody can tell a dead process from a slow one.                                                          *)
(*                                                                                                                    *)
(* Broken names one rule that is taken away. "nothing" is dibs; each of the others has to break a promise.               *)
EXTENDS Naturals, FiniteSets, TLC

CONSTANTS Agents,       \* processes
          Tasks,
          LastAttempt,  \* after this attempt a task is not handed out again: its retries are used up
          LeaseTime,    \* in ticks
          Policy,       \* what a canceled prerequisite does: "resolves", "escalates" or "cascades"
          Broken

Nobody == "nobody"
Person == "a person"

VARIABLES status,    \* of each task
          attempt,   \* how often it has been claimed: the fence
          holder,    \* whose lease it is or was: a process, a person or nobody
          left,      \* ticks until the lease is over
          links,     \* <<task, on>>: the first waits for the second
          blockers,  \* of each task: how many of those it waits for are not over, as the store counts them
          hand,      \* of each process and task: the attempt whose token it was given, or 0
          won,       \* of each task: the attempt under which it was done, or 0
          halfway    \* what somebody has read and not yet written; always empty unless something is broken

vars == <<status, attempt, holder, left, links, blockers, hand, won, halfway>>

Symmetry == Permutations(Agents) \union Permutations(Tasks)

-----------------------------------------------------------------------------
(* What is true of the tasks, whatever the store has counted. *)

Over(t) == status[t] \in {"done", "canceled"}
Waits(t) == {on \in Tasks : <<t, on>> \in links /\ ~Over(on)}
Dependents(on) == {t \in Tasks : <<t, on>> \in links}
Held(t) == status[t] = "active" /\ (holder[t] = Person \/ left[t] > 0)
Expired(t) == status[t] = "active" /\ ~Held(t)

RECURSIVE Before(_, _)
Before(found, pairs) ==
    LET more == found \union {on \in Tasks : \E t \in found : <<t, on>> \in pairs}
    IN IF more = found THEN found ELSE Before(more, pairs)
ClosesCycle(t, on) == t \in Before({on}, links)

(* What the store goes by. *)

Name(a) == IF Broken = "claims by name" THEN "the same name" ELSE a
Open(t) ==
    /\ status[t] = "ready" \/ (Expired(t) /\ Broken # "leases without end")
    /\ blockers[t] = 0 \/ Broken = "claims waiting tasks"

(* The store would take this process's word about the task: the token is that of the live lease. *)
Proves(a, t) ==
    /\ Held(t) /\ holder[t] # Person /\ hand[a][t] # 0
    /\ IF Broken = "claims by name" THEN Name(a) = Name(holder[t]) ELSE hand[a][t] = attempt[t]
MayFinish(a, t) ==
    IF Broken = "finishes without a fence" THEN status[t] = "active" /\ hand[a][t] # 0 ELSE Proves(a, t)

-----------------------------------------------------------------------------
Init ==
    /\ status = [t \in Tasks |-> "ready"]
    /\ attempt = [t \in Tasks |-> 0]
    /\ holder = [t \in Tasks |-> Nobody]
    /\ left = [t \in Tasks |-> 0]
    /\ links = {}
    /\ blockers = [t \in Tasks |-> 0]
    /\ hand = [a \in Agents |-> [t \in Tasks |-> 0]]
    /\ won = [t \in Tasks |-> 0]
    /\ halfway = {}

(* A claim gives a new attempt to one process. Its answer may get lost: then nobody has the token. *)
NextAttempt(t) == IF Broken = "attempts start at 1 again" /\ status[t] = "ready" THEN 1 ELSE attempt[t] + 1
Lease(t, whose) ==
    /\ attempt' = [attempt EXCEPT ![t] = NextAttempt(t)]
    /\ status' = [status EXCEPT ![t] = "active"]
    /\ holder' = [holder EXCEPT ![t] = whose]
    /\ left' = [left EXCEPT ![t] = IF whose = Person THEN 0 ELSE LeaseTime]
    /\ won' = [won EXCEPT ![t] = 0]
    /\ UNCHANGED <<links, blockers, halfway>>

Claim(a, t) ==
    /\ Open(t) /\ attempt[t] < LastAttempt
    /\ Lease(t, a)
    /\ \/ hand' = [hand EXCEPT ![a][t] = NextAttempt(t)]
       \/ UNCHANGED hand

(* Who shares a name with the holder is taken for the holder: what stores do that know no tokens. *)
ClaimAgain(a, t) ==
    /\ Broken = "claims by name" /\ Held(t) /\ holder[t] # Person
    /\ hand' = [hand EXCEPT ![a][t] = attempt[t]]
    /\ UNCHANGED <<status, attempt, holder, left, links, blockers, won, halfway>>

Renew(a, t) ==
    /\ Proves(a, t)
    /\ left' = [left EXCEPT ![t] = LeaseTime]
    /\ UNCHANGED <<status, attempt, holder, links, blockers, hand, won, halfway>>

(* A person may take any unfinished task from anybody, whatever it waits for, and keeps it until it is put back. *)
TakeOver(t) ==
    /\ ~Over(t) /\ attempt[t] < LastAttempt
    /\ Lease(t, Person)
    /\ UNCHANGED hand

PutBack(t) ==
    /\ status[t] = "active" /\ holder[t] = Person
    /\ status' = [status EXCEPT ![t] = "ready"]
    /\ UNCHANGED <<attempt, holder, left, links, blockers, hand, won, halfway>>

(* A task goes back, or to a person if there is no attempt left. *)
GiveBack(t) ==
    /\ status' = [status EXCEPT ![t] = IF attempt[t] = LastAttempt THEN "escalated" ELSE "ready"]
    /\ left' = [left EXCEPT ![t] = 0]
    /\ UNCHANGED <<attempt, holder, links, blockers, hand, won, halfway>>

Fail(a, t) == Proves(a, t) /\ GiveBack(t)
Exhaust(t) == Expired(t) /\ attempt[t] = LastAttempt /\ GiveBack(t)

(* The counters of those who waited for `ended` go down in the same transaction. *)
Released(ended) ==
    [t \in Tasks |-> blockers[t] - Cardinality({on \in ended : <<t, on>> \in links /\ ~Over(on)})]

(* One who reads the counters first and writes them later: what another has written in between is lost. *)
UnblockLater(ended) ==
    /\ halfway' = halfway \union {[what |-> "unblock", task |-> t, on |-> on, read |-> blockers[t]] :
                                  t \in UNION {Dependents(o) : o \in ended}, on \in ended}
    /\ UNCHANGED blockers
UnblockNow(ended) == blockers' = Released(ended) /\ UNCHANGED halfway
Unblock(ended) == IF Broken = "counters read before" THEN UnblockLater(ended) ELSE UnblockNow(ended)

Done(a, t) ==
    /\ MayFinish(a, t)
    /\ status' = [status EXCEPT ![t] = "done"]
    /\ won' = [won EXCEPT ![t] = hand[a][t]]
    /\ left' = [left EXCEPT ![t] = 0]
    /\ Unblock({t})
    /\ UNCHANGED <<attempt, holder, links, hand>>

(* A canceled task releases those who wait for it, or draws along those of them that nobody works on. *)
Idle(t) == status[t] \in {"ready", "escalated"}
RECURSIVE Cascade(_)
Cascade(gone) ==
    LET more == gone \union {t \in Tasks : Idle(t) /\ \E on \in gone : <<t, on>> \in links}
    IN IF more = gone THEN gone ELSE Cascade(more)

Cancel(t) ==
    LET ended == IF Policy = "cascades" THEN Cascade({t}) ELSE {t}
        told == IF Policy = "escalates" THEN {d \in Dependents(t) : status[d] = "ready"} ELSE {}
    IN /\ status' = [d \in Tasks |-> IF d \in ended THEN "canceled" ELSE IF d \in told THEN "escalated" ELSE status[d]]
       /\ left' = [left EXCEPT ![t] = 0]
       /\ Unblock(ended)
       /\ UNCHANGED <<attempt, holder, links, hand, won>>

CancelHeld(a, t) == Proves(a, t) /\ Cancel(t)
CancelIdle(t) == Idle(t) /\ Cancel(t)

(* A person lets an escalated task go on, or opens a canceled one again: then others wait for it again. *)
GoOn(t) ==
    /\ status[t] = "escalated"
    /\ status' = [status EXCEPT ![t] = "ready"]
    /\ UNCHANGED <<attempt, holder, left, links, blockers, hand, won, halfway>>

Reopen(t) ==
    /\ status[t] = "canceled"
    /\ status' = [status EXCEPT ![t] = "ready"]
    /\ blockers' = [d \in Tasks |-> blockers[d] + (IF d \in Dependents(t) THEN 1 ELSE 0)]
    /\ UNCHANGED <<attempt, holder, left, links, hand, won, halfway>>

(* Links come and go at any time, also while their tasks are being worked on. *)
PutLink(t, on, counts) ==
    /\ links' = links \union {<<t, on>>}
    /\ blockers' = [blockers EXCEPT ![t] = @ + (IF counts THEN 1 ELSE 0)]
    /\ UNCHANGED <<status, attempt, holder, left, hand, won>>

LinksInOneGo == Broken \notin {"looks for cycles before", "looks at ends before"}
Link(t, on) ==
    /\ LinksInOneGo /\ t # on /\ <<t, on>> \notin links /\ ~ClosesCycle(t, on)
    /\ PutLink(t, on, ~Over(on))
    /\ UNCHANGED halfway

(* One who looks in one transaction and writes in the next. *)
LookToLink(t, on) ==
    /\ ~LinksInOneGo /\ t # on /\ <<t, on>> \notin links /\ ~ClosesCycle(t, on)
    /\ halfway' = halfway \union {[what |-> "link", task |-> t, on |-> on, read |-> IF Over(on) THEN 0 ELSE 1]}
    /\ UNCHANGED <<status, attempt, holder, left, links, blockers, hand, won>>

Unlink(t, on) ==
    /\ <<t, on>> \in links
    /\ links' = links \ {<<t, on>>}
    /\ blockers' = [blockers EXCEPT ![t] = @ - (IF Over(on) THEN 0 ELSE 1)]
    /\ UNCHANGED <<status, attempt, holder, left, hand, won, halfway>>

GoThrough(intent) ==
    /\ halfway' = halfway \ {intent}
    /\ \/ /\ intent.what = "unblock"
          /\ blockers' = [blockers EXCEPT ![intent.task] = IF intent.read = 0 THEN 0 ELSE intent.read - 1]
          /\ UNCHANGED <<status, attempt, holder, left, links, hand, won>>
       \/ /\ intent.what = "link" /\ <<intent.task, intent.on>> \notin links
          /\ Broken = "looks for cycles before" \/ ~ClosesCycle(intent.task, intent.on)
          /\ PutLink(intent.task, intent.on,
                     IF Broken = "looks at ends before" THEN intent.read = 1 ELSE ~Over(intent.on))

(* Time goes on; and a clock that is set back makes leases longer, also those that were just over. *)
Tick == \E t \in Tasks : left[t] > 0 /\ left' = [d \in Tasks |-> IF left[d] > 0 THEN left[d] - 1 ELSE 0]
ClockSetBack ==
    /\ \E t \in Tasks : status[t] = "active"
    /\ left' = [t \in Tasks |-> IF status[t] = "active" /\ holder[t] # Person /\ left[t] < LeaseTime
                                THEN left[t] + 1 ELSE left[t]]
Time == (Tick \/ ClockSetBack) /\ UNCHANGED <<status, attempt, holder, links, blockers, hand, won, halfway>>

Next ==
    \/ \E a \in Agents, t \in Tasks :
          Claim(a, t) \/ ClaimAgain(a, t) \/ Renew(a, t) \/ Done(a, t) \/ Fail(a, t) \/ CancelHeld(a, t)
    \/ \E t \in Tasks : TakeOver(t) \/ PutBack(t) \/ Exhaust(t) \/ CancelIdle(t) \/ GoOn(t) \/ Reopen(t)
    \/ \E t, on \in Tasks : Link(t, on) \/ LookToLink(t, on) \/ Unlink(t, on)
    \/ \E intent \in halfway : GoThrough(intent)
    \/ Time

(* Somebody asks for work now and then, time goes on, and what was begun is ended. *)
Fairness ==
    /\ \A t \in Tasks : WF_vars(\E a \in Agents : Claim(a, t))
    /\ WF_vars(\E intent \in halfway : GoThrough(intent))

Spec == Init /\ [][Next]_vars /\ Fairness

-----------------------------------------------------------------------------
(* What is promised. *)

TypeOK ==
    /\ status \in [Tasks -> {"ready", "active", "escalated", "done", "canceled"}]
    /\ attempt \in [Tasks -> 0..LastAttempt]
    /\ holder \in [Tasks -> Agents \union {Person, Nobody}]
    /\ left \in [Tasks -> 0..LeaseTime]
    /\ links \subseteq Tasks \X Tasks
    /\ blockers \in [Tasks -> 0..Cardinality(Tasks)]
    /\ hand \in [Agents -> [Tasks -> 0..LastAttempt]]
    /\ won \in [Tasks -> 0..LastAttempt]

OneHolder == \A t \in Tasks : Cardinality({a \in Agents : Proves(a, t)}) <= 1

FinishedByTheLatest == \A t \in Tasks : won[t] # 0 => won[t] = attempt[t]

CountersTrue == halfway = {} => \A t \in Tasks : blockers[t] = Cardinality(Waits(t))

NoCycle == \A t \in Tasks : \A on \in Tasks : <<t, on>> \in links => t \notin Before({on}, links)

(* What nobody holds and nothing keeps back can be claimed; so no task is ever out of reach. *)
NothingLost ==
    \A t \in Tasks : (status[t] = "ready" \/ Expired(t)) /\ Waits(t) = {} /\ halfway = {} => Open(t)

AttemptsRise ==
    [][\A t \in Tasks : /\ attempt'[t] >= attempt[t]
                        /\ \A a \in Agents : hand'[a][t] # hand[a][t] => hand'[a][t] > attempt[t]]_vars

NeverTooEarly ==
    [][\A t \in Tasks : attempt'[t] > attempt[t] /\ holder'[t] \in Agents => Waits(t) = {}]_vars

(* Whatever is free and stays so is claimed at last. *)
Free(t) == (status[t] = "ready" \/ Expired(t)) /\ Waits(t) = {} /\ attempt[t] < LastAttempt
EveryFreeTaskIsClaimed == \A t \in Tasks : Free(t) ~> ~Free(t)
=============================================================================
