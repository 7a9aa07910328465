/*
 * The claim protocol: one job, from its place in the ready list to its end,
 * with every worker free to crash, to stall and to miss an answer.
 *
 * One atomic or d_step is one remote call: a conditional write of DynamoDB, or
 * one request to a Kubernetes API server. Between two calls anybody else may
 * do anything, for any length of time; that is what a stall is.
 *
 * README.md tells what each name stands for and which rule each switch takes away.
 */

#ifndef DISPATCHERS
#define DISPATCHERS 2
#endif
#ifndef OBSERVERS
#define OBSERVERS 1
#endif
#ifndef EXECUTIONS
#define EXECUTIONS 2            /* the first attempt and its retries */
#endif
#ifndef FAULTS
#define FAULTS 3                /* of any kind, in any mixture: README.md lists the kinds */
#endif

/* ---- the table: the job head and its execution items ---------------------- */

#define QUEUED    0
#define CLAIMED   1
#define PENDING   2
#define RUNNING   3
#define SUCCEEDED 4
#define FAILED    5
#define CANCELLED 6

byte state = QUEUED;
byte fence = 0;
byte owner = 0;                     /* with the fence: the nonce of the claim */
bit stop = 0;                       /* the user's mark; set once, never taken back */
bit ready = 1;                      /* the job has an entry in the ready list */
byte execution = 1;
byte committed[EXECUTIONS + 1];     /* UID by execution; 0 is none; written once */

#define terminal  (state >= SUCCEEDED)
#define on_cluster (state == PENDING || state == RUNNING)

/* ---- the cluster: one name per execution, a new UID per creation ---------- */

#define SUSPENDED 0
#define STARTED   1
#define COMPLETE  2
#define BROKEN    3                 /* the condition Failed */

byte uid[EXECUTIONS + 1];           /* of the object that has the name now; 0: absent */
bit released[EXECUTIONS + 1];       /* its annotation */
byte phase[EXECUTIONS + 1];
byte pods[EXECUTIONS + 1];          /* UID of the object whose pods run; may outlive it */
byte last_uid = 0;

/* ---- what only the model knows -------------------------------------------- */

byte ever_released[EXECUTIONS + 1]; /* UID of the one object released */
bit completed[EXECUTIONS + 1];      /* its work was done to the end */
byte holds[DISPATCHERS + 1];        /* the fence under which a dispatcher is at work */

#ifdef MOVES
bit region = 0;                     /* of the head; the cluster above is this region's */
#define here (r == region)          /* a dispatcher works for one region, whatever becomes of the job */
#else
#define here true
#endif

byte faults = FAULTS;

#define FAULT faults > 0 -> faults--

#ifdef EVENTS_ONLY
bit told[EXECUTIONS + 1];           /* the observer heard that the object was gone, and it was the committed one */
#define notices_absence(x) told[x]
#else
#define notices_absence(x) true     /* it looks, again and again */
#endif

/* The legal transitions, as in shared/jobs/states.py. PENDING may end at once: a short run is seen when it is over. */
#define legal(a, b) ( \
    (a == QUEUED  && (b == CLAIMED || b == FAILED || b == CANCELLED)) || \
    (a == CLAIMED && (b == QUEUED || b == PENDING || b == FAILED || b == CANCELLED)) || \
    (a == PENDING && (b == RUNNING || b == QUEUED || b >= SUCCEEDED)) || \
    (a == RUNNING && (b == QUEUED || b >= SUCCEEDED)))

inline move(to) {
    assert(legal(state, to));
    state = to;
    ready = (to == QUEUED);
    owner = 0;
    assert(!terminal || (pods[1] == 0 && pods[EXECUTIONS] == 0))
}

/* The end of an execution that did not succeed: cancelled, tried again, or failed. */
inline end_execution() {
    assert(stop || !completed[execution]);      /* work that was done is not done again */
    if
#ifndef RETRY_FORGETS_MARK
    :: stop -> move(CANCELLED)
    :: !stop && execution < EXECUTIONS -> execution++; move(QUEUED)
#else
    :: execution < EXECUTIONS -> execution++; move(QUEUED); assert(!stop); stop = 0
#endif
    :: else -> move(FAILED)
    fi
}

/* DELETE with a UID precondition. Pods outlive their object (background propagation). */
inline delete_by_uid(e, u) {
    if
    :: u != 0 && uid[e] == u ->
        assert(committed[e] != u || stop || e < execution);     /* never, unasked, what is to run */
        remove(e)
    :: else
    fi
}

inline remove(e) {
#ifdef EVENTS_ONLY
    if
    :: committed[e] == uid[e] -> told[e] = 1
    :: else
    fi;
#endif
    uid[e] = 0; released[e] = 0; phase[e] = SUSPENDED
}

/* A JSON patch that tests UID and annotation, then sets annotation and suspend: false. */
inline release(e, u) {
    if
#ifdef NO_ANNOTATION_TEST
    :: uid[e] == u ->
        assert(!released[e]);
#else
    :: uid[e] == u && !released[e] ->
#endif
        assert(ever_released[e] == 0);
        ever_released[e] = u;
        released[e] = 1
    :: else
    fi
}

/* ---- dispatcher ------------------------------------------------------------ */

/* May stand before any call: everything in memory is lost, the claim is not. */
#define CRASH FAULT; goto idle

#ifdef NO_FENCE
#define fence_holds true
#else
#define fence_holds (fence == f)
#endif
#ifdef NO_STATE
#define still_claimed true
#else
#define still_claimed (state == CLAIMED)
#endif

#define may_commit (fence_holds && still_claimed && !stop && committed[e] == 0)

proctype dispatcher(byte me) {
    byte f, e, u;                       /* fence, execution, UID */
#ifdef MOVES
    bit r;                              /* the region in whose ready list it has looked */
#endif
    bit unsure;                         /* a call was made whose answer did not come */

idle:
    atomic { f = 0; e = 0; u = 0; unsure = 0; holds[me] = 0 }
end:
    atomic {
        ready -> f = fence; e = execution                   /* query of the ready list */
#ifdef MOVES
        ; r = region
#endif
    }

claim:
    atomic {
        if
        :: CRASH
        :: state == QUEUED && fence == f ->
            assert(here);                                   /* nobody claims what is another region's */
            move(CLAIMED); fence++; owner = me; holds[me] = fence;
            if
            :: f = fence
            :: FAULT; unsure = 1; goto claim
            fi
        :: !(state == QUEUED && fence == f) && unsure && state == CLAIMED && owner == me && fence == f + 1 ->
            f = fence; unsure = 0                           /* its own nonce */
        :: else -> goto idle
        fi
    }

create:
    atomic {
        if
        :: CRASH
        :: goto refuse                                      /* the cluster will not have it */
#ifdef MOVES
        :: !here -> last_uid++; u = last_uid                /* on the old region's cluster, where it stays suspended */
#endif
        :: here && uid[e] == 0 ->
            last_uid++; uid[e] = last_uid; phase[e] = SUSPENDED;
#ifdef UNSUSPENDED
            released[e] = 1;
#endif
            if
            :: u = uid[e]
            :: FAULT; goto adopt               /* ambiguous: look it up first */
            fi
        :: here && uid[e] != 0                              /* 409 */
        fi;
        if
        :: u != 0 -> goto commit
        :: else
        fi
    }

adopt:
    atomic {
        if
        :: CRASH
        :: uid[e] != 0 -> u = uid[e]
        :: uid[e] == 0 -> goto create
        fi
    }

commit:
    atomic {
        if
        :: CRASH
        :: may_commit ->
            assert(here);
            committed[e] = u; move(PENDING); holds[me] = 0;
            if
            :: skip
            :: FAULT; goto commit
            fi
        :: !may_commit && committed[e] == u                 /* its own commit, or another's of the same object */
        :: !may_commit && committed[e] != u && stop && state == CLAIMED && fence == f -> goto clear
        :: !may_commit && committed[e] != u && !(stop && state == CLAIMED && fence == f) ->
#ifdef REFUSED_DELETES
            goto take_back
#else
            goto idle                                       /* the object is left: to be adopted, or a stray */
#endif
        fi
    }

let_run:
    atomic {
        if
        :: CRASH
        :: release(e, u);
            if
            :: skip
            :: FAULT; goto let_run
            fi
        fi;
        goto idle
    }

#ifdef REFUSED_DELETES
take_back:
    atomic { delete_by_uid(e, u); goto idle }
#endif

refuse:
    atomic {
        if
        :: CRASH
        :: fence == f && state == CLAIMED && !stop -> end_execution(); goto idle
        :: fence == f && state == CLAIMED && stop -> goto clear
        :: else -> goto idle
        fi
    }

clear:                                                      /* the claim is ours, and the user wants it to end */
    atomic {
        if
        :: CRASH
        :: uid[e] == 0 -> goto cancelled
        :: uid[e] != 0 -> u = uid[e]
        fi
    }
    atomic {
        if
        :: CRASH
        :: delete_by_uid(e, u);
            u = 0;
            goto clear                                      /* gone only when a read says so */
        fi
    }

cancelled:
    atomic {
        if
        :: CRASH
        :: fence == f && state == CLAIMED && stop ->
            move(CANCELLED);
            if
            :: goto idle
            :: FAULT; goto cancelled
            fi
        :: else -> goto idle
        fi
    }
}

/* ---- sweeper --------------------------------------------------------------- */

/*
 * Time is abstract: the claim of a worker that is gone lapses surely; that of one at work lapses at any moment, and
 * that is a fault. A claim with the user's mark does not lapse: see clear, below.
 */
proctype sweeper() {
end:
    do
    :: d_step {
        state == CLAIMED && !stop && (faults > 0 || holds[owner] != fence) ->
        if
        :: holds[owner] == fence -> faults--
        :: else
        fi;
        move(QUEUED)
    }
#ifdef EARLY_END
    :: d_step { state == PENDING && !stop && faults > 0 -> faults--; end_execution() }  /* "pending for too long" */
#endif
    od
}

/* ---- user ------------------------------------------------------------------ */

/* One conditional write on what was read; refused, it reads again: the same as one step. */
proctype user() {
    if
    :: true                                                 /* never cancels */
    :: d_step {
        if
#ifdef CANCEL_ENDS_CLAIM
        :: state == QUEUED || state == CLAIMED -> move(CANCELLED)
        :: on_cluster -> stop = 1
#else
        :: state == QUEUED -> move(CANCELLED)
        :: !terminal && state != QUEUED -> stop = 1
#endif
        :: terminal
        fi
    }
    fi
}

/* Somebody with kubectl, who owes the fleet nothing. */
proctype hand() {
end:
    do
    :: d_step { faults > 0 && uid[1] != 0 && phase[1] < COMPLETE -> remove(1); faults-- }
    :: d_step { faults > 0 && uid[EXECUTIONS] != 0 && phase[EXECUTIONS] < COMPLETE -> remove(EXECUTIONS); faults-- }
    od
}

/* ---- operator -------------------------------------------------------------- */

#ifdef MOVES
/*
 * Drains the region of a queued job, which is moved once: one conditional write. What its execution has left on the old cluster was never
 * committed, and can't be any more; on the new one there is nothing.
 */
proctype operator() {
end:
    d_step {
        state == QUEUED ->
#ifndef MOVE_KEEPS_FENCE
        fence++;
#endif
        region = 1;
        uid[execution] = 0; released[execution] = 0; phase[execution] = SUSPENDED
    }
#ifdef STOP_ANYWHERE
end_stop:
    d_step { stop && on_cluster -> move(CANCELLED) }        /* the old region's worker finds nothing of it on its own cluster */
#endif
}
#endif

/* ---- observer -------------------------------------------------------------- */

/* Can never be committed, or its execution is over: by facts that never change again. */
#define stray(x) (uid[x] != 0 && (x < execution || (uid[x] != committed[x] && (committed[x] != 0 || terminal))))

#define calls_for(x) (stray(x) || (x == execution && stop && state == CLAIMED) || (x == execution && on_cluster && ( \
    (uid[x] != committed[x] && pods[x] != committed[x] && notices_absence(x)) || \
    (uid[x] == committed[x] && (phase[x] >= COMPLETE || stop || !released[x] || \
        (phase[x] == STARTED && state == PENDING))))))

#define same_run (execution == e && on_cluster && committed[e] == hu)

#define OBSERVER_CRASH FAULT; goto watch

proctype observer() {
    byte e;                             /* the execution it looks at */
    byte cu, cp; bit cr;                /* what the watch has shown of its object */
    byte hu, hs; bit hstop, hover, hmarked;   /* what the table said afterwards */

watch:
    atomic { e = 0; cu = 0; cp = 0; cr = 0; hu = 0; hs = 0; hstop = 0; hover = 0; hmarked = 0 }
end:
    atomic {
        if
        :: calls_for(1) -> e = 1
        :: !calls_for(1) && EXECUTIONS > 1 && calls_for(EXECUTIONS) -> e = EXECUTIONS
        :: !calls_for(1) && !calls_for(EXECUTIONS) && faults > 0 && !terminal -> faults--; e = execution
        fi;
        cu = uid[e]; cr = released[e]; cp = phase[e]
    }

read_head:
    atomic {
        hu = committed[e]; hstop = stop;
        hs = (execution == e && on_cluster -> state : 0);
        hover = (e < execution || (terminal && cu != hu));
        hmarked = (e == execution && stop && state == CLAIMED);
        if
        :: OBSERVER_CRASH
        :: cu != 0 && (hover || (hu != 0 && cu != hu)) -> goto delete_stray
        :: hu == 0 && hmarked -> goto clear
        :: hs != 0 && cu == hu && cp >= COMPLETE -> goto record_end
        :: hs != 0 && cu == hu && cp < COMPLETE && hstop -> goto delete_run
        :: hs != 0 && cu == hu && cp < COMPLETE && !hstop && !cr -> goto let_run
        :: hs == PENDING && cu == hu && cp == STARTED && !hstop && cr -> goto record_start
        :: hs != 0 && cu == 0 -> goto look_again
        :: else -> goto watch
        fi
    }

delete_stray:
    atomic {
        if
        :: OBSERVER_CRASH
        :: delete_by_uid(e, cu); goto watch
        fi
    }

delete_run:
    atomic {
        if
        :: OBSERVER_CRASH
        :: delete_by_uid(e, hu); goto watch
        fi
    }

let_run:
    atomic {
        if
        :: OBSERVER_CRASH
        :: release(e, hu); goto watch
        fi
    }

record_start:
    atomic {
        if
        :: OBSERVER_CRASH
        :: same_run && state == PENDING -> move(RUNNING); goto watch
        :: else -> goto watch
        fi
    }

record_end:
    atomic {
        if
        :: OBSERVER_CRASH
        :: same_run && cp == COMPLETE -> move(SUCCEEDED); goto watch
        :: same_run && cp == BROKEN -> end_execution(); goto watch
        :: else -> goto watch
        fi
    }

look_again:                             /* absence counts when read after the commit was read, pods and all */
    atomic {
        if
        :: OBSERVER_CRASH
#ifndef STALE_ABSENCE
        :: uid[e] == hu -> goto watch
#ifndef IGNORE_PODS
        :: uid[e] != hu && pods[e] == hu -> goto watch
        :: uid[e] != hu && pods[e] != hu
#else
        :: uid[e] != hu
#endif
#else
        :: true
#endif
        fi
    }

record_absence:
    atomic {
        if
        :: OBSERVER_CRASH
#ifdef REQUEUE_SAME
        /* "it was last seen without the annotation, so it has not run" */
        :: same_run && !stop -> committed[e] = 0; move(QUEUED); goto watch
        :: same_run && stop -> move(CANCELLED); goto watch
#else
        :: same_run -> end_execution(); goto watch
#endif
        :: else -> goto watch
        fi
    }

clear:                                  /* a mark on a claim bars every commit, so anybody may clear away */
    atomic {
        if
        :: OBSERVER_CRASH
        :: uid[e] == 0 -> goto record_cleared
        :: uid[e] != 0 -> cu = uid[e]; goto delete_stray
        fi
    }

record_cleared:
    atomic {
        if
        :: OBSERVER_CRASH
        :: execution == e && stop && state == CLAIMED -> move(CANCELLED); goto watch
        :: else -> goto watch
        fi
    }
}

/* ---- Kubernetes ------------------------------------------------------------ */

#define waits(x) (uid[x] != 0 && released[x] && phase[x] == SUSPENDED)
#define orphaned(x) (pods[x] != 0 && pods[x] != uid[x])

inline start(x) {
    assert(uid[x] == committed[x]);             /* nothing runs but the committed object */
    assert(x == execution);                     /* of the execution that is due */
    assert(on_cluster);                         /* of a job that has not ended */
    assert(pods[1] == 0 && pods[EXECUTIONS] == 0);  /* and nothing beside it */
    phase[x] = STARTED; pods[x] = uid[x]
}

/* Kubernetes says Complete or Failed only when no pod is left (1.31 and later). */
inline finish(x) {
    if
    :: phase[x] = COMPLETE; completed[x] = 1
    :: phase[x] = BROKEN
    fi;
    pods[x] = 0; x = 0
}

proctype kubernetes() {
    byte e;
end:
    do
    :: d_step { waits(1) -> start(1) }
    :: d_step { waits(EXECUTIONS) -> start(EXECUTIONS) }
    :: atomic { phase[1] == STARTED -> e = 1; finish(e) }
    :: atomic { phase[EXECUTIONS] == STARTED -> e = EXECUTIONS; finish(e) }
    :: d_step { orphaned(1) -> pods[1] = 0 }        /* pods of an object that is gone, stopped at last */
    :: d_step { orphaned(EXECUTIONS) -> pods[EXECUTIONS] = 0 }
#ifdef TTL
    :: d_step { phase[1] >= COMPLETE -> remove(1) } /* ttlSecondsAfterFinished */
#endif
    od
}

init {
    atomic {
        byte n = 1;
        do
        :: n <= DISPATCHERS -> run dispatcher(n); n++
        :: else -> break
        od;
        n = 1;
        do
        :: n <= OBSERVERS -> run observer(); n++
        :: else -> break
        od;
        n = 0;
#ifndef NO_SWEEPER
        run sweeper();
#endif
#ifdef MOVES
        run operator();
#endif
        run user(); run hand(); run kubernetes()
    }
}

/* ---- properties ------------------------------------------------------------ */

#define tidy(e) (pods[e] == 0 && (uid[e] == 0 || (uid[e] == committed[e] && phase[e] >= COMPLETE)))
#define settled (terminal && tidy(1) && tidy(EXECUTIONS) && (execution == 1 || uid[1] == 0))

#ifdef PROPERTY_SETTLES
ltl settles { <> [] settled }
#endif
#ifdef PROPERTY_FINAL
ltl final { [] (terminal -> [] (terminal && pods[1] == 0 && pods[EXECUTIONS] == 0)) }
#endif
#ifdef PROPERTY_LISTED
ltl listed { [] (ready <-> (state == QUEUED)) }
#endif
