------------------------------- MODULE Guard --------------------------------
(* Claims on a Notion page, which knows no compare-and-set: kept apart by time alone (docs/decisions/0010).             *)
(*                                                                                                                    *)
(* A claim reads the page, writes its token, lets Settle ticks pass and reads again. All of it may take as long as it   *)
(* likes: the agent measures by its own clock and gives up if it was too slow. What it has written by then may arrive   *)
(* at any later time. Agents are off by up to Skew ticks about what time it is. Each agent claims once; its token is    *)
(* its name.                                                                                                            *)
(*                                                                                                                    *)
(* All times are kept as ticks since or until something, and no further than anybody looks, so there are finitely many.  *)
(* Broken names one rule that is taken away; "nothing" is dibs.                                                         *)
EXTENDS Integers, FiniteSets, TLC

CONSTANTS Agents,
          Window,      \* from sending the first read to hearing of the write: at most
          Settle,      \* from hearing of the write to sending the read that confirms: at least
          Staleness,   \* how old an answer about a page may be
          LeaseTime,
          GuardBand,   \* the holder is silent from so long before the end of its lease
          StealAfter,  \* and others take the task no sooner than so long after it
          Skew,
          Late,        \* how long a release may be on its way
          Timely,      \* a claim or renewal that was on its way for longer is known to be late: by the times on the page
          Edits,       \* whether a person edits the page's text now and then
          Renewals,    \* whether leases are renewed; without, there is much less to look at
          Broken

Nobody == "nobody"

VARIABLES page,     \* what it says: token, ticks left of the lease, ticks since it was edited and by whom, and
                    \* whether its last claim or renewal came late
          past,     \* what it said a moment ago, which an answer may still show
          pending,  \* writes on their way, some of them given up by their senders
          agents    \* where each is in its claim

vars == <<page, past, pending, agents>>

Symmetry == Permutations(Agents)

Max(a, b) == IF a > b THEN a ELSE b
Min(a, b) == IF a < b THEN a ELSE b

Written(token, left, ago) == [token |-> token, left |-> left, age |-> 0, late |-> ago > Timely, person |-> FALSE]
FreePage == [token |-> Nobody, left |-> 0, age |-> LeaseTime, late |-> FALSE, person |-> FALSE]

(* What an answer may show now. *)
Shown == {page} \union {was.page : was \in past}

(* By this agent's clock, the agent that the page names is silent. A write that came late may have replaced the claim   *)
(* of an agent that still works: the page is left alone for the length of a lease after it, whatever end it shows. The  *)
(* page alone decides, not who asks; and a person's edit of its text changes nothing.                                   *)
ComesLate(p) ==
    CASE Broken = "trusts the end it reads" -> FALSE
      [] Broken = "takes a person's edit for a late write" -> p.late \/ p.person
      [] Broken = "goes by the asker's lease" -> TRUE
      [] OTHER -> p.late /\ ~p.person
Waits == IF Broken = "goes by the asker's lease" THEN LeaseTime + 2 ELSE LeaseTime
Ended(p) == IF ComesLate(p) THEN Max(p.left, Waits - p.age) ELSE p.left
FreeFor(a, p) == p.token = Nobody \/ Ended(p) - agents[a].skew <= -StealAfter

Trusts(a, left) == left - agents[a].skew > GuardBand
Believes(a) == agents[a].at \in {"holds", "renews"} /\ Trusts(a, agents[a].lease)

-----------------------------------------------------------------------------
Init ==
    /\ page = FreePage
    /\ past = {}
    /\ pending = {}
    /\ agents \in [Agents -> [at : {"idle"}, since : {0}, waited : {0}, lease : {0}, landed : {FALSE}, skew : 0..Skew]]

Become(a, at) == agents' = [agents EXCEPT ![a].at = at]
Quit(a) == agents' = [agents EXCEPT ![a] = [@ EXCEPT !.at = "out", !.since = 0, !.waited = 0, !.lease = 0, !.landed = FALSE]]

Begin(a) ==
    /\ agents[a].at = "idle"
    /\ Become(a, "reads")
    /\ UNCHANGED <<page, past, pending>>

(* The end of the lease is reckoned by the agent's own clock. *)
FirstLook == IF Broken = "judges by a list" THEN Shown \union {FreePage} ELSE Shown
ReadFirst(a) ==
    /\ agents[a].at = "reads"
    /\ \E p \in FirstLook :
          IF FreeFor(a, p)
          THEN agents' = [agents EXCEPT ![a].at = "has read", ![a].lease = LeaseTime + agents[a].skew]
          ELSE Quit(a)
    /\ UNCHANGED <<page, past, pending>>

InTime(a) == agents[a].since <= Window \/ Broken = "takes its time"

Send(a) ==
    /\ agents[a].at = "has read"
    /\ IF InTime(a)
       THEN /\ pending' = pending \union {[what |-> "claim", by |-> a, left |-> agents[a].lease, ago |-> 0]}
            /\ Become(a, "writes")
       ELSE Quit(a) /\ UNCHANGED pending
    /\ UNCHANGED <<page, past>>

GiveUp(a) ==
    /\ agents[a].at = "writes"
    /\ Quit(a)
    /\ UNCHANGED <<page, past, pending>>

(* A write replaces what it names, whatever was there; nobody is asked. *)
After(w) ==
    CASE w.what = "claim" -> Written(w.by, w.left, w.ago)
      [] w.what = "renewal" -> Written(page.token, w.left, w.ago)
      [] OTHER -> Written(Nobody, 0, 0)

(* Nobody can see a late write under a person's edit: that they meet is excluded, and broken below. *)
Edit ==
    /\ Edits /\ page.token # Nobody /\ ~page.person
    /\ ~page.late \/ Broken = "a person edits what came late"
    /\ page' = [page EXCEPT !.age = 0, !.person = TRUE]
    /\ UNCHANGED <<past, pending, agents>>

Commit(w) ==
    /\ page' = After(w)
    /\ past' = IF Staleness = 0 THEN {} ELSE past \union {[page |-> page, ago |-> 0]}
    /\ pending' = pending \ {w}
    /\ agents' = IF agents[w.by].at \in {"writes", "renews"} /\ w.what \in {"claim", "renewal"}
                 THEN [agents EXCEPT ![w.by].landed = TRUE] ELSE agents

Hear(a) ==
    /\ agents[a].at = "writes" /\ agents[a].landed
    /\ IF ~InTime(a) /\ Broken # "goes on though slow"
       THEN Quit(a)
       ELSE agents' = [agents EXCEPT ![a] = [@ EXCEPT
                !.at = IF Broken = "does not read back" THEN "holds" ELSE "settles",
                !.since = 0, !.waited = 0, !.landed = FALSE]]
    /\ UNCHANGED <<page, past, pending>>

LookAgain(a) ==
    /\ agents[a].at = "settles" /\ agents[a].waited >= Settle
    /\ agents' = [agents EXCEPT ![a].at = "confirms", ![a].waited = 0]
    /\ UNCHANGED <<page, past, pending>>

Confirm(a) ==
    /\ agents[a].at = "confirms"
    /\ \E p \in Shown :
          IF p.token = a /\ Trusts(a, p.left)
          THEN agents' = [agents EXCEPT ![a].at = "holds", ![a].lease = p.left]
          ELSE Quit(a)
    /\ UNCHANGED <<page, past, pending>>

(* The holder looks whether the page is still its own, then writes; the answer shows whether it was. An answer that is *)
(* heard after the lease it had is no longer to be trusted counts for nothing: somebody may have found the page free.  *)
Renew(a) ==
    /\ Renewals /\ agents[a].at = "holds" /\ Believes(a)
    /\ \E p \in Shown : p.token = a /\ Trusts(a, p.left)
    /\ pending' = pending \union {[what |-> "renewal", by |-> a, left |-> LeaseTime + agents[a].skew, ago |-> 0]}
    /\ Become(a, "renews")
    /\ UNCHANGED <<page, past>>

HearOfRenewal(a) ==
    /\ agents[a].at = "renews"
    /\ IF agents[a].landed /\ (Believes(a) \/ Broken = "renews though late")
       THEN \E p \in Shown :
               IF p.token = a /\ Trusts(a, p.left)
               THEN agents' = [agents EXCEPT ![a].at = "holds", ![a].lease = p.left, ![a].landed = FALSE]
               ELSE Quit(a)
       ELSE Quit(a)
    /\ UNCHANGED <<page, past, pending>>

(* Said once: if its answer is lost the holder stops, for the word may still be on its way. *)
Release(a) ==
    /\ (agents[a].at = "holds" /\ Believes(a)) \/ agents[a].at = "gives back again"
    /\ \E p \in Shown : p.token = a /\ Trusts(a, p.left)
    /\ LET what == IF agents[a].at = "holds" THEN "release" ELSE "second release"
       IN pending' = pending \union {[what |-> what, by |-> a, left |-> 0, ago |-> 0]}
    /\ IF Broken = "gives back twice" /\ agents[a].at = "holds" THEN Become(a, "gives back again") ELSE Quit(a)
    /\ UNCHANGED <<page, past>>

-----------------------------------------------------------------------------
(* Time passes for everybody. Only a release is bounded in how late it comes. *)
IsRelease(w) == w.what \in {"release", "second release"}
Sooner(left) == Max(left - 1, -StealAfter)
Aged(p) == [p EXCEPT !.left = Sooner(@), !.age = Min(@ + 1, LeaseTime + StealAfter)]
Older(a) == [a EXCEPT
    !.since = IF a.at \in {"reads", "has read", "writes"} THEN Min(@ + 1, Window + 1) ELSE @,
    !.waited = IF a.at = "settles" THEN Min(@ + 1, Settle) ELSE @,
    !.lease = IF a.at \in {"idle", "reads", "out"} THEN @ ELSE Max(@ - 1, 0)]

Tick ==
    /\ \A w \in pending : IsRelease(w) => w.ago < Late
    /\ page' = Aged(page)
    /\ past' = {[page |-> Aged(was.page), ago |-> was.ago + 1] : was \in {p \in past : p.ago < Staleness}}
    /\ pending' = {[w EXCEPT !.left = Sooner(@), !.ago = IF IsRelease(w) THEN @ + 1 ELSE Min(@ + 1, Timely + 1)] : w \in pending}
    /\ agents' = [a \in Agents |-> Older(agents[a])]

Next ==
    \/ \E a \in Agents :
          \/ Begin(a) \/ ReadFirst(a) \/ Send(a) \/ GiveUp(a) \/ Hear(a) \/ LookAgain(a) \/ Confirm(a)
          \/ Renew(a) \/ HearOfRenewal(a) \/ Release(a)
    \/ \E w \in pending : Commit(w)
    \/ Edit
    \/ Tick

Spec == Init /\ [][Next]_vars

-----------------------------------------------------------------------------
OneHolder == Cardinality({a \in Agents : Believes(a)}) <= 1

(* A lease that came in time is free for every agent when it is over, whoever asks, and whatever a person has edited. *)
FreeWhenOver ==
    page.token # Nobody /\ ~page.late /\ page.left <= -StealAfter =>
        \A a \in Agents : agents[a].skew = 0 => FreeFor(a, page)

(* To be violated: a model in which nobody ever gets the task proves nothing. *)
NobodyEverHolds == \A a \in Agents : ~Believes(a)
=============================================================================
