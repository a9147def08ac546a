/* The protocol of the platform, for the model checker spin. README.md says what the model covers, what it leaves out and how to run it.
 *
 * An inline named Type_function is what that function of the sources does; a second name behind two underscores tells two uses apart.
 * Each step takes place whole, and a process can die between any two steps. Names in small letters belong to the world around the platform:
 * the broker, APNs, time, clients and faults.
 */

/* --- How large the world is: spin -a -DNAME=NUMBER ------------------------------------------------------------------------------------ */

#ifndef NOTIFICATIONS
#define NOTIFICATIONS 1
#endif
/* Faults of any kind, and further ones of those that concern the control stream: a dispatcher's death, its lost connection, its slow link. */
#ifndef FAULTS
#define FAULTS 1
#endif
#ifndef CONTROL_FAULTS
#define CONTROL_FAULTS 0
#endif
#ifndef LOGOUTS
#define LOGOUTS 0
#endif
#ifndef CANCELS
#define CANCELS 0
#endif
#ifndef EXPIRIES
#define EXPIRIES 0
#endif
#ifndef REPLAYS
#define REPLAYS 0
#endif

#define TOKEN_SERVICES 2
#define DISPATCHERS 2
/* Jobs that a dispatcher has at once. A job that a lost connection made stale takes a place too. */
#define SLOTS 2
/* Tries until a delivery is given up. A replayed delivery has a second life, and its tries are counted on. */
#define TRIES 2
#if REPLAYS > 0
#define LIVES 2
#define ATTEMPTS 4
#else
#define LIVES 1
#define ATTEMPTS 2
#endif

/* The verifier names each of these places once when it gets there. A promise that holds only because nothing happens would show. */
#define reached(place) c_code { static int known; if (!known) { known = 1; printf("reached %s\n", #place); } }
#define reached_if(condition, place) if :: (condition) -> reached(place) :: else fi

/* --- PostgreSQL: a notification with one delivery, and its installation --------------------------------------------------------------- */

mtype = { UNDECIDED, ENDED, FAILED };

typedef Row {
    bool committed;
    bool published;
    byte lease;             /* 0: any relay may have it; otherwise the token service that has it, and one */
    byte epoch;             /* of the owner for whom it was accepted */
    mtype class;
    bool life;              /* true after a replay */
    bool counted;           /* the notification waits for one delivery less */
    bool cancelled;
    bool cancel_is_open     /* no process knows yet that the control stream has the cancellation */
};
Row row[NOTIFICATIONS];
byte owner_epoch = 1;
bool fence_is_open;

/* --- RabbitMQ ------------------------------------------------------------------------------------------------------------------------- */

typedef Queues {
    byte ready[ATTEMPTS];   /* jobs in push.jobs, by the number of their earlier tries */
    byte delayed[ATTEMPTS]; /* jobs in push.retry */
    bool ended[LIVES];      /* outcome events, by the life of the delivery */
    bool failed[LIVES];
    bool letter             /* a job in push.dead */
};
Queues queue[NOTIFICATIONS];

/* The control stream: the place of a message in it, from 1 on, or 0 where the stream does not have it. */
byte stream_length;
byte fence_at;
byte cancel_at;

/* --- Token services: how far one is with publishing a notification -------------------------------------------------------------------- */

/* Of what is stopped, an outcome event is handed on. */
mtype = { NOTHING, PROMISED, CLAIMED, HANDED_ON, UNCONFIRMED, STOPPED, UNCONFIRMED_STOP };
typedef Publishing { mtype stage[NOTIFICATIONS] };
Publishing publishing[TOKEN_SERVICES];
mtype replaying;            /* the replay of notification 0, by any token service */

/* --- Dispatchers ---------------------------------------------------------------------------------------------------------------------- */

mtype = { CATCHING_UP, CURRENT };
typedef Control {
    mtype standing;
    byte marker_after;      /* messages of the stream before the marker */
    bool marker_is_old;
    byte read;              /* messages of the stream that were read */
    bool taking;
    bool slow;              /* nothing comes from the broker: no control message, no confirmation */
    bool lost               /* the broker gave its jobs back to the queue, and it does not know yet */
#ifdef HISTORY
    ; bool had_it
#endif
};
Control control[DISPATCHERS];

mtype = { EMPTY, WAITING, IN_POOL, SENT, DONE };
mtype = { NONE, OWED, AGAIN, STORED };      /* a message about a job: in the core, in the publisher for the second time, in the broker */
mtype = { RETRY, WAIT, LETTER };
typedef Job {
    mtype phase;
    byte about;             /* the notification */
    byte attempt;
    bool unacknowledged;    /* the broker waits for its acknowledgement */
    bool stale;
    mtype outcome;          /* the outcome event */
    mtype class;
    mtype copy;             /* the retry or the dead letter */
    mtype kind;
    bool sent;              /* from here to APNs; this and the next one are the judge's */
    bool excused
};
Job job[DISPATCHERS * SLOTS];

/* --- The world, and what the judge remembers ------------------------------------------------------------------------------------------ */

byte sends = NOTIFICATIONS, faults = FAULTS, control_faults = CONTROL_FAULTS, logouts = LOGOUTS, cancels = CANCELS, expiries = EXPIRIES, replays = REPLAYS;
bool expired[NOTIFICATIONS];
bool accepted[NOTIFICATIONS];               /* 202 was answered */
bool fence_answered, fence_in_force;        /* in force: answered as effective a second ago */
bool cancel_answered, cancel_in_force;
byte licence[NOTIFICATIONS];                /* how often it may still be handed to APNs: see hand_over */

/* Only for what can be reached: what happened before. */
#ifdef HISTORY
bool handed_over;
#endif

hidden byte i;

/* --- What is judged after every step --------------------------------------------------------------------------------------------------- */

#define is_queued(n, a) (queue[n].ready[a] > 0 || queue[n].delayed[a] > 0)
#define is_with(k, n) (job[k].unacknowledged && job[k].about == n && job[k].attempt / TRIES == row[n].life)
#define leads_to_an_outcome(n) (!row[n].published || \
    is_queued(n, TRIES * row[n].life) || is_queued(n, TRIES * row[n].life + 1) || \
    is_with(0, n) || is_with(1, n) || is_with(2, n) || is_with(3, n) || \
    queue[n].ended[row[n].life] || queue[n].failed[row[n].life] || \
    (row[n].life && queue[n].letter))
#define is_kept(n) (row[n].committed || publishing[0].stage[n] == PROMISED || publishing[1].stage[n] == PROMISED)

/* Promise 1: a delivery that was accepted has its outcome, or something durable leads to one. */
#define is_lost(n) (accepted[n] && (!is_kept(n) || (row[n].committed && row[n].class == UNDECIDED && !leads_to_an_outcome(n))))

/* By these names the verifier says what was broken. */
hidden byte promise_1, promise_2, promise_3, promise_6;
#define keep(promise, condition) promise = (condition); assert(promise)

inline judge() {
    keep(promise_1, !is_lost(0) && !is_lost(NOTIFICATIONS - 1))
}

/* Two dispatchers are alike, and so are the places of a dispatcher's jobs. States that differ in their numbers alone become one state: each
 * step ends with all of them in order. */
#define rank(k) (((((((job[k].phase * 4 + job[k].attempt) * 32 + job[k].outcome) * 32 + job[k].copy) * 32 + job[k].kind) * 2 + \
    job[k].unacknowledged) * 2 + job[k].stale) * 4 + job[k].sent * 2 + job[k].excused)
#define rank_of_control(d) (((((control[d].read * 4 + control[d].marker_after) * 2 + control[d].marker_is_old) * 32 + control[d].standing) * 2 + \
    control[d].taking) * 4 + control[d].slow * 2 + control[d].lost)
#define comes_first(a, b) (rank(a) < rank(b) || (rank(a) == rank(b) && (job[a].about < job[b].about || (job[a].about == job[b].about && job[a].class < job[b].class))))
#define exchange(x, y) swap = x; x = y; y = swap

inline exchange_jobs(a, b) {
    exchange(job[a].phase, job[b].phase);
    exchange(job[a].about, job[b].about);
    exchange(job[a].attempt, job[b].attempt);
    exchange(job[a].unacknowledged, job[b].unacknowledged);
    exchange(job[a].stale, job[b].stale);
    exchange(job[a].outcome, job[b].outcome);
    exchange(job[a].class, job[b].class);
    exchange(job[a].copy, job[b].copy);
    exchange(job[a].kind, job[b].kind);
    exchange(job[a].sent, job[b].sent);
    exchange(job[a].excused, job[b].excused)
}

inline exchange_dispatchers() {
    exchange(control[0].standing, control[1].standing);
    exchange(control[0].marker_after, control[1].marker_after);
    exchange(control[0].marker_is_old, control[1].marker_is_old);
    exchange(control[0].read, control[1].read);
    exchange(control[0].taking, control[1].taking);
    exchange(control[0].slow, control[1].slow);
    exchange(control[0].lost, control[1].lost);
#ifdef HISTORY
    exchange(control[0].had_it, control[1].had_it);
#endif
    exchange_jobs(0, 2);
    exchange_jobs(1, 3)
}

inline sort() {
    if
    :: comes_first(1, 0) -> exchange_jobs(0, 1)
    :: else
    fi;
    if
    :: comes_first(3, 2) -> exchange_jobs(2, 3)
    :: else
    fi;
    if
    :: rank_of_control(1) < rank_of_control(0) || (rank_of_control(1) == rank_of_control(0) &&
        (comes_first(2, 0) || (!comes_first(0, 2) && comes_first(3, 1)))) -> exchange_dispatchers()
    :: else
    fi
}

hidden byte swap;

/* One option of a process: where the condition holds, it takes place whole. */
#define step(condition, what) d_step { (condition) -> what; skip }

/* --- Token service: accept, publish, take over ----------------------------------------------------------------------------------------- */

#define is_over(n) (expired[n] || row[n].cancelled || owner_epoch > row[n].epoch)
#define waits(n) (row[n].committed && !row[n].published)
#define is_led_by(t, n) (row[n].lease == t + 1)
#define lease_is_over(n) (row[n].lease == 0 || publishing[row[n].lease - 1].stage[n] == NOTHING)

/* One transaction: the notification and its job, with this process's lease. */
inline NotificationStore_insert(n, process) {
    sends--;
    row[n].committed = true;
    row[n].lease = process + 1;
    row[n].epoch = owner_epoch;
    licence[n] = 1
}

inline NotificationIntake_accept(t, n) {
    NotificationStore_insert(n, t);
    accepted[n] = true;
    publishing[t].stage[n] = HANDED_ON
}

/* The broker has the job, and its confirmation is on its way. */
inline JobPublisher_publish(t, n) {
    reached_if(n == 0 && t == 1, published_by_another_token_service);
    queue[n].ready[0]++;
    publishing[t].stage[n] = UNCONFIRMED
}

/* The connection is lost before the confirmation came: the job is published again. */
inline PublisherLoop_lost__jobs(t, n) {
    licence[n]++;
    publishing[t].stage[n] = HANDED_ON
}

/* The same for the outcome event of a delivery that is not sent any more. */
inline JobPublisher_publish__stopped(t, n) {
    queue[n].ended[0] = true;
    publishing[t].stage[n] = UNCONFIRMED_STOP
}

inline PublisherLoop_lost__stopped(t, n) { publishing[t].stage[n] = STOPPED }

/* What became of publishing is written down. */
inline ConfirmWriter_commit(t, n) {
    JobStore_record(n);
    publishing[t].stage[n] = NOTHING
}

inline ConfirmWriter_commit__refused(t, n) {
    JobStore_record__refused(n);
    publishing[t].stage[n] = NOTHING
}

inline JobStore_record(n) {
    row[n].published = true;
    row[n].lease = 0
}

inline JobStore_record__refused(n) {
    if
    :: !row[n].published -> row[n].lease = 0
    :: else
    fi
}

inline lease_ends(n) { row[n].lease = 0 }

inline JobStore_claim(t, n) {
    row[n].lease = t + 1;
    publishing[t].stage[n] = CLAIMED
}

/* After the claim's transaction. A delivery that may not be sent any more gets an outcome event. One that has its outcome, or that a replay
 * reopened, has its bit: nothing is left to publish. */
inline JobStore_resolve(t, n) {
    if
    :: row[n].class == UNDECIDED && !row[n].life && !is_over(n) -> publishing[t].stage[n] = HANDED_ON
    :: row[n].class == UNDECIDED && !row[n].life && is_over(n) ->
        reached_if(owner_epoch > row[n].epoch, fenced_by_a_relay);
        publishing[t].stage[n] = STOPPED
    :: else -> ConfirmWriter_commit(t, n)
    fi
}

/* --- Token service: outcomes ----------------------------------------------------------------------------------------------------------- */

/* One transaction. The first outcome in a delivery's life counts, and an outcome that comes again changes nothing. */
inline OutcomeApplication_apply(n, which, as) {
    if
    :: row[n].class == UNDECIDED && row[n].life == which -> OutcomeStore_finish(n, as)
#ifdef SETTLE_TWICE
    :: row[n].class != UNDECIDED && row[n].life == which -> OutcomeStore_countInNotifications(n)
#endif
    :: else
    fi
}

inline OutcomeStore_finish(n, as) {
    row[n].class = as;
    OutcomeStore_countInNotifications(n)
}

/* The notification waits for one delivery less. */
inline OutcomeStore_countInNotifications(n) {
    keep(promise_1, !row[n].counted);
    row[n].counted = true
}

inline token_service(t, n) {
    if
    /* The two are alike, so the first notification may as well come to the first of them. */
#ifdef ANSWER_BEFORE_COMMIT
    :: step(sends > 0 && !accepted[n] && t <= n, accepted[n] = true; publishing[t].stage[n] = PROMISED)
    :: step(publishing[t].stage[n] == PROMISED && sends > 0, NotificationIntake_accept(t, n))
#else
    :: step(sends > 0 && !row[n].committed && t <= n, NotificationIntake_accept(t, n))
    /* The commit's answer is lost: the process knows of nothing, and its client of an error. */
    :: step(sends > 0 && !row[n].committed && t <= n && faults > 0, faults--; NotificationStore_insert(n, t))
#endif
    :: step(publishing[t].stage[n] == HANDED_ON, JobPublisher_publish(t, n))
    /* The broker refuses it. */
    :: step(publishing[t].stage[n] == HANDED_ON && faults > 0, faults--; ConfirmWriter_commit__refused(t, n))
    :: step(publishing[t].stage[n] == UNCONFIRMED && faults > 0, faults--; PublisherLoop_lost__jobs(t, n))
    :: step(publishing[t].stage[n] == UNCONFIRMED, ConfirmWriter_commit(t, n))
    /* The commit's answer is lost: it is written down again. */
    :: step(publishing[t].stage[n] == UNCONFIRMED && waits(n) && faults > 0, faults--; JobStore_record(n))
    :: step(publishing[t].stage[n] == STOPPED, JobPublisher_publish__stopped(t, n))
    :: step(publishing[t].stage[n] == STOPPED && faults > 0, faults--; ConfirmWriter_commit__refused(t, n))
    :: step(publishing[t].stage[n] == UNCONFIRMED_STOP && faults > 0, faults--; PublisherLoop_lost__stopped(t, n))
    :: step(publishing[t].stage[n] == UNCONFIRMED_STOP, ConfirmWriter_commit(t, n))
#ifdef LOST_CONFIRM_IS_A_CONFIRM
    :: step(publishing[t].stage[n] == HANDED_ON && faults > 0, faults--; ConfirmWriter_commit(t, n))
#endif
#ifdef RELAY_IGNORES_LEASES
    :: step(waits(n) && publishing[t].stage[n] == NOTHING, JobStore_claim(t, n))
#else
    :: step(waits(n) && publishing[t].stage[n] == NOTHING && lease_is_over(n), JobStore_claim(t, n))
#endif
    :: step(publishing[t].stage[n] == CLAIMED, JobStore_resolve(t, n))
    /* It stands still for longer than its lease. What it does afterwards is one job too many. */
    :: step(waits(n) && is_led_by(t, n) && publishing[t].stage[n] != NOTHING && faults > 0, faults--; licence[n]++; lease_ends(n))
    fi
}

/* The broker has the event no more. */
inline OutcomeConsumer_applyInParts(events) { events = false }

/* By any token service. */
#ifdef ACKNOWLEDGE_BEFORE_APPLY
#define dies_between(events, which, as) OutcomeConsumer_applyInParts(queue[n].events[which])
#else
#define dies_between(events, which, as) OutcomeApplication_apply(n, which, as)
#endif
#define consume(events, which, as) \
    :: step(queue[n].events[which], OutcomeApplication_apply(n, which, as); OutcomeConsumer_applyInParts(queue[n].events[which])) \
    :: step(queue[n].events[which] && faults > 0, faults--; dies_between(events, which, as))

inline outcome_consumer(n) {
    if
    consume(ended, 0, ENDED)
    consume(failed, 0, FAILED)
#if LIVES > 1
    consume(ended, 1, ENDED)
    consume(failed, 1, FAILED)
#endif
    fi
}

/* --- Token service: fences, cancellations, replays. Any of them, because a relay goes on where one died -------------------------------- */

inline SignOut_logOut() {
    logouts--;
    owner_epoch = 2;
    fence_is_open = true
}

inline ControlPublisher_publish(place) {
    stream_length++;
    place = stream_length
}

/* The stream has confirmed it: the answer says that it is effective. Where that is not written down, the fence comes once more, which says nothing new. */
inline FencePublisher_publish() {
    ControlPublisher_publish(fence_at);
    fence_is_open = false;
    fence_answered = true
}

inline Cancellation_cancel(n) {
    cancels--;
    row[n].cancelled = true;
    row[n].cancel_is_open = true
}

inline Cancellation_publish(n) {
    ControlPublisher_publish(cancel_at);
    row[n].cancel_is_open = false;
    cancel_answered = true
}

inline registry() {
    if
    :: step(logouts > 0, SignOut_logOut())
    :: step(fence_is_open, FencePublisher_publish())
#ifdef FENCE_ANSWERED_BEFORE_CONFIRM
    :: step(fence_is_open && !fence_answered, fence_answered = true)
#endif
    :: step(cancels > 0 && row[0].committed && row[0].class == UNDECIDED, Cancellation_cancel(0))
    :: step(row[0].cancel_is_open, Cancellation_publish(0))
    fi
}

#if REPLAYS > 0
/* The registry decides anew whether the delivery may be sent, and opens it again. A replay that broke off finds what it had opened. */
inline DeadLetterStore_reopen() {
    replays--;
    if
    :: row[0].class == FAILED && !row[0].life && !is_over(0) ->
        row[0].class = UNDECIDED;
        row[0].life = true;
        row[0].counted = false;
        licence[0]++;
        replaying = HANDED_ON
    :: row[0].class == UNDECIDED && row[0].life -> replaying = HANDED_ON
    /* Its outcome is not applied yet: the letter stays. */
    :: row[0].class == UNDECIDED && !row[0].life
    :: else -> queue[0].letter = false
    fi
}

inline JobPublisher_publishConfirmed() {
    queue[0].ready[TRIES]++;
    replaying = UNCONFIRMED
}

/* Confirmed: the letter goes. */
inline DeadLetterService_replay() {
    queue[0].letter = false;
    replaying = NOTHING
}

/* The operator hears of an error and calls again. */
inline replay_breaks_off() {
    if
    :: replaying == UNCONFIRMED -> licence[0]++; replays++
    :: replaying == HANDED_ON -> replays++
    :: else
    fi;
    replaying = NOTHING
}

inline dead_letters() {
    if
    :: step(replays > 0 && queue[0].letter && replaying == NOTHING, DeadLetterStore_reopen())
    :: step(replaying == HANDED_ON, JobPublisher_publishConfirmed())
    :: step(replaying == UNCONFIRMED, DeadLetterService_replay())
    fi
}
#endif

/* --- Dispatcher: the control stream ---------------------------------------------------------------------------------------------------- */

#define knows(d, place) (place > 0 && control[d].read >= place)
#define knows_of_cancel(d, n) (n == 0 && knows(d, cancel_at))
#define knows_of_fence(d, n) (row[n].epoch < 2 && knows(d, fence_at))

/* The gate closes, here and where the connection is lost, until the marker that is published here has come back. */
inline ControlFollower_askForProof(d) {
    control[d].standing = CATCHING_UP;
    control[d].marker_after = stream_length;
    control[d].marker_is_old = false
}

/* The connection that reads the stream was lost, or never was, and is there. */
inline ControlFollower_connection(d) {
#ifdef NO_MARKER
    control[d].standing = CURRENT;
    control[d].taking = true
#else
    ControlFollower_askForProof(d)
#endif
}

inline ControlFollower_obey(d) { control[d].read++ }

inline ControlFollower_obey__marker(d) {
    if
#ifndef MARKER_MAY_BE_OLD
    :: control[d].marker_is_old ->
        reached(old_marker_refused);
        ControlFollower_askForProof(d)
#endif
    :: else -> DispatcherCore_follow(d)
    fi
}

inline DispatcherCore_follow(d) {
    control[d].standing = CURRENT;
    control[d].marker_after = 0;
    control[d].marker_is_old = false;
    control[d].taking = true;
    DispatcherCore_sendWaiting(d)
}

inline DispatcherCore_sendWaiting(d) {
    for (i : d * SLOTS .. d * SLOTS + SLOTS - 1) {
        if
        :: job[i].phase == WAITING ->
            DispatcherCore_sift(d, i);
            DispatcherCore_send(d, i);
            reached_if(job[i].phase == IN_POOL, waited_for_the_gate)
        :: else
        fi
    }
}

/* The broker owes a confirmation for too long. A dispatcher at rest notices by its heartbeats. */
inline ControlFollower_doubt(d) { ControlFollower_askForProof(d) }

/* --- Dispatcher: the line -------------------------------------------------------------------------------------------------------------- */

inline DispatcherCore_begin(d, k, n, a) {
    keep(promise_3, control[d].taking);
#ifdef HISTORY
    reached_if(control[1 - d].had_it && a == 0, taken_over_by_another_dispatcher);
    control[d].had_it = true;
#endif
    queue[n].ready[a]--;
    job[k].about = n;
    job[k].attempt = a;
    job[k].unacknowledged = true;
    DispatcherCore_sift(d, k);
    DispatcherCore_send(d, k)
}

inline DispatcherCore_sift(d, k) {
    if
    :: expired[job[k].about] -> DispatcherCore_stop__expired(k)
    :: !expired[job[k].about] && knows_of_cancel(d, job[k].about) ->
        reached(cancelled_when_taken);
        DispatcherCore_stop(k)
    :: !expired[job[k].about] && !knows_of_cancel(d, job[k].about) && knows_of_fence(d, job[k].about) ->
        reached_if(job[k].attempt == 0, fenced_when_taken);
        reached_if(job[k].attempt == 1, retry_fenced);
        reached_if(job[k].attempt == 2, replay_fenced);
        DispatcherCore_stop(k)
    :: else -> job[k].phase = IN_POOL
    fi
}

inline DispatcherCore_send(d, k) {
    if
    :: job[k].phase == IN_POOL && control[d].standing != CURRENT -> job[k].phase = WAITING
    :: else
    fi
}

/* The connection's thread, at the last moment: ControlGate_stopReason. */
inline APNsConnection_submit(d, k) {
    if
#ifndef EXPIRY_ASKED_AT_TAKE_ONLY
    :: expired[job[k].about] ->
        reached(expired_in_a_pool);
        DispatcherCore_stop__expired(k)
#endif
    :: else -> ControlGate_stopReason(d, k)
    fi
}

inline ControlGate_stopReason(d, k) {
    if
#ifndef STALE_JOB_IS_SENT
    :: job[k].stale ->
        reached(stale_job_stopped);
        clear(k)
#endif
#ifndef CANCEL_ASKED_AT_TAKE_ONLY
    :: !job[k].stale && knows_of_cancel(d, job[k].about) ->
        reached(cancelled_in_a_pool);
        DispatcherCore_stop(k)
#endif
    :: !job[k].stale && !knows_of_cancel(d, job[k].about) && control[d].standing != CURRENT -> job[k].phase = WAITING
#ifndef FENCE_ASKED_AT_TAKE_ONLY
    :: !job[k].stale && !knows_of_cancel(d, job[k].about) && control[d].standing == CURRENT && knows_of_fence(d, job[k].about) ->
        reached(fenced_in_a_pool);
        DispatcherCore_stop(k)
#endif
    :: else -> hand_over(k)
    fi
}

/* APNs gets it. Here promises 2, 3 and 6 are kept or broken. */
inline hand_over(k) {
    job[k].phase = SENT;
    job[k].sent = true;
    excuse(k);
#ifdef HISTORY
    reached_if(job[k].attempt == 0 && handed_over, handed_over_twice);
    handed_over = true;
#endif
    keep(promise_2, licence[job[k].about] > 0);
    keep(promise_3, !(fence_in_force && row[job[k].about].epoch < 2));
    keep(promise_6, !expired[job[k].about] && !(cancel_in_force && job[k].about == 0));
    licence[job[k].about]--
}

/* Promise 2. A dispatcher or its connection to the broker died while the job was between being sent, here or to a delayed queue, and being
 * acknowledged. It is excused once: one more copy may reach APNs. */
inline excuse(k) {
    if
    :: !job[k].unacknowledged && !job[k].stale && !job[k].excused &&
       (job[k].sent || (job[k].copy != OWED && (job[k].kind == RETRY || job[k].kind == WAIT))) ->
        job[k].excused = true;
        licence[job[k].about]++
    :: else
    fi
}

/* APNs has answered for good, or the notification says that nothing more is to be tried. */
inline DispatcherCore_takeAnswers__final(d, k) {
    reached_if(job[k].attempt == 0, delivered_by_the_first_try);
    reached_if(job[k].attempt == 1, delivered_by_a_retry);
    reached_if(job[k].attempt == 2, delivered_by_a_replay);
    reached_if(fence_in_force && row[job[k].about].epoch == 2, delivered_to_the_next_owner);
    DispatcherCore_report(k, ENDED)
}

/* APNs could not, or its answer did not come. */
inline DispatcherCore_takeAnswers__again(k) {
    if
    /* The broker delivers it anew: what is left of it is that copy's business. */
    :: job[k].stale -> clear(k)
    :: else -> DispatcherCore_tryAgain(k)
    fi
}

inline DispatcherCore_tryAgain(k) {
    if
    :: job[k].attempt % TRIES == TRIES - 1 || expired[job[k].about] ->
        DispatcherCore_report(k, FAILED);
        DispatcherCore_publishSteps__dead(k)
    :: else ->
        licence[job[k].about]++;
        DispatcherCore_publishSteps__retry(k, RETRY)
    fi
}

/* What left before does not end as if it had not. */
inline DispatcherCore_stop__expired(k) {
    if
    :: job[k].attempt % TRIES == 0 -> DispatcherCore_report(k, ENDED)
    :: job[k].attempt % TRIES > 0 && job[k].stale -> DispatcherCore_report(k, FAILED)
    :: else ->
        DispatcherCore_report(k, FAILED);
        DispatcherCore_publishSteps__dead(k)
    fi
}

inline DispatcherCore_stop(k) { DispatcherCore_report(k, ENDED) }

inline DispatcherCore_report(k, as) {
    job[k].phase = DONE;
    job[k].outcome = OWED;
    job[k].class = as;
    DispatcherCore_flush__outcome(k)
}

inline DispatcherCore_publishSteps__dead(k) {
    job[k].copy = OWED;
    job[k].kind = LETTER
}

inline DispatcherCore_publishSteps__retry(k, as) {
    job[k].phase = DONE;
    job[k].copy = OWED;
    job[k].kind = as
}

/* It waited for the gate for a minute. */
inline DispatcherCore_moveWaiting(k) { DispatcherCore_publishSteps__retry(k, WAIT) }

/* The broker has the message, and its confirmation is on its way. */
inline DispatcherCore_flush__outcome(k) {
    job[k].outcome = STORED;
    if
    :: job[k].class == ENDED -> queue[job[k].about].ended[job[k].attempt / TRIES] = true
    :: else -> queue[job[k].about].failed[job[k].attempt / TRIES] = true
    fi
}

inline DispatcherCore_flush__copy(k) {
    job[k].copy = STORED;
    if
    :: job[k].kind == RETRY -> queue[job[k].about].delayed[job[k].attempt + 1]++
    :: job[k].kind == WAIT -> queue[job[k].about].delayed[job[k].attempt]++
    :: else ->
        reached(given_up);
        queue[job[k].about].letter = true
    fi;
    excuse(k)
}

inline DispatcherCore_confirm__outcome(k) {
    job[k].outcome = NONE;
    SettlementLedger_pay(k)
}

inline DispatcherCore_confirm__copy(k) {
    job[k].copy = NONE;
    SettlementLedger_pay(k)
}

inline SettlementLedger_pay(k) {
    if
    :: job[k].phase == DONE && job[k].outcome == NONE && job[k].copy == NONE -> SettlementBook_acknowledgeSettled(k)
    :: else
    fi
}

/* The broker has the job no more. Where the connection that brought it is gone, the acknowledgement goes nowhere. */
inline SettlementBook_acknowledgeSettled(k) { clear(k) }

/* The connection that brought the jobs is gone. What has left is still reported, and the rest is the business of the copies. */
inline DispatcherCore_forgetReceipts(d) {
    control[d].lost = false;
    for (i : d * SLOTS .. d * SLOTS + SLOTS - 1) {
        if
        :: job[i].phase == WAITING && !job[i].unacknowledged -> clear(i)
        :: job[i].phase != EMPTY && job[i].phase != WAITING && !job[i].unacknowledged && !job[i].stale ->
            job[i].stale = true;
#ifndef RETRIES_OUTLIVE_THE_CONNECTION
            if
            :: job[i].copy == OWED && job[i].kind != LETTER ->
                forget_copy(i);
                SettlementLedger_pay(i)
            :: else
            fi
#endif
        :: else
        fi
    }
}

/* Of a retry that is not with the broker, or not again, no further try comes. */
inline forget_copy(k) {
    if
    :: (job[k].copy == OWED && job[k].kind == RETRY) || (job[k].copy == AGAIN && job[k].kind != LETTER) ->
        assert(licence[job[k].about] > 0);
        licence[job[k].about]--
    :: else
    fi;
    job[k].copy = NONE;
    job[k].kind = 0
}

inline clear(k) {
    job[k].phase = EMPTY;
    job[k].about = 0;
    job[k].attempt = 0;
    job[k].unacknowledged = false;
    job[k].stale = false;
    job[k].outcome = NONE;
    job[k].class = 0;
    job[k].copy = NONE;
    job[k].kind = 0;
    job[k].sent = false;
    job[k].excused = false
}

/* Of two free places, the first. */
#define place_is_free(d, s) (job[d * SLOTS + s].phase == EMPTY && (s == 0 || job[d * SLOTS].phase != EMPTY))
#define take(n, a) \
    :: step(may_take(d) && place_is_free(d, s) && queue[n].ready[a] > 0, DispatcherCore_begin(d, job_number, n, a))
#ifdef TAKE_BEFORE_THE_MARKER
#define may_take(d) (!control[d].lost)
#else
#define may_take(d) (control[d].taking && !control[d].lost)
#endif
#define job_number (d * SLOTS + s)
#define this job[job_number]

inline line(d, s) {
    if
    take(0, 0)
    take(0, 1)
#if LIVES > 1
    take(0, 2)
    take(0, 3)
#endif
#if NOTIFICATIONS > 1
    take(1, 0)
    take(1, 1)
#endif
    :: step(this.phase == IN_POOL, APNsConnection_submit(d, job_number))
    :: step(this.phase == SENT, DispatcherCore_takeAnswers__final(d, job_number))
    :: step(this.phase == SENT, DispatcherCore_takeAnswers__again(job_number))
    :: step(this.phase == WAITING && faults > 0, faults--; DispatcherCore_moveWaiting(job_number))
    :: step(this.outcome == OWED || this.outcome == AGAIN, DispatcherCore_flush__outcome(job_number))
    :: step(this.copy == OWED || this.copy == AGAIN, DispatcherCore_flush__copy(job_number))
    :: step(this.outcome == STORED && !control[d].slow, DispatcherCore_confirm__outcome(job_number))
    :: step(this.copy == STORED && !control[d].slow, DispatcherCore_confirm__copy(job_number))
#ifdef ACKNOWLEDGE_BEFORE_CONFIRM
    :: step(this.phase == DONE && this.unacknowledged, this.unacknowledged = false; this.excused = true)
#endif
    fi
}

inline control_follower(d) {
    if
    :: step(!control[d].slow && control[d].read < stream_length && (control[d].standing != CATCHING_UP || control[d].read < control[d].marker_after),
            ControlFollower_obey(d))
    :: step(!control[d].slow && control[d].standing == CATCHING_UP && control[d].read == control[d].marker_after, ControlFollower_obey__marker(d))
#ifndef NO_HEARTBEAT
    :: step(control[d].slow && control[d].standing == CURRENT, ControlFollower_doubt(d))
#endif
    :: step(control[d].slow, control[d].slow = false)
    :: step(control[d].lost, DispatcherCore_forgetReceipts(d))
    fi
}

/* --- Time ------------------------------------------------------------------------------------------------------------------------------ */

#define due(n, a) :: step(queue[n].delayed[a] > 0, queue[n].delayed[a]--; queue[n].ready[a]++)

/* A second is enough for a control message to arrive, or for its absence to be noticed. */
#ifdef NO_HEARTBEAT
#define second_is_enough(d) (control[d].standing != CURRENT || control[d].slow || control[d].read == stream_length)
#else
#define second_is_enough(d) (control[d].standing != CURRENT || (!control[d].slow && control[d].read == stream_length))
#endif

inline a_second_passes() {
    if
    :: fence_answered && !fence_in_force ->
        fence_in_force = true;
        markers_grow_old(fence_at)
    :: else
    fi;
    if
    :: cancel_answered && !cancel_in_force ->
        cancel_in_force = true;
        markers_grow_old(cancel_at)
    :: else
    fi
}

/* A marker that was there before that message. */
inline markers_grow_old(place) {
    for (i : 0 .. DISPATCHERS - 1) {
        if
        :: control[i].standing == CATCHING_UP && control[i].marker_after < place -> control[i].marker_is_old = true
        :: else
        fi
    }
}

inline time() {
    if
    due(0, 0)
    due(0, 1)
#if LIVES > 1
    due(0, 2)
    due(0, 3)
#endif
#if NOTIFICATIONS > 1
    due(1, 0)
    due(1, 1)
#endif
    :: step(((fence_answered && !fence_in_force) || (cancel_answered && !cancel_in_force)) && second_is_enough(0) && second_is_enough(1),
            a_second_passes())
    :: step(expiries > 0 && row[0].committed && !expired[0], expiries--; expired[0] = true)
    fi
}

/* --- Faults ---------------------------------------------------------------------------------------------------------------------------- */

inline token_service_dies(t) {
    for (i : 0 .. NOTIFICATIONS - 1) {
        if
        :: publishing[t].stage[i] == UNCONFIRMED && waits(i) && is_led_by(t, i) -> licence[i]++
        :: else
        fi;
        publishing[t].stage[i] = NOTHING
    }
}

inline broker_takes_jobs_back(d) {
    for (i : d * SLOTS .. d * SLOTS + SLOTS - 1) {
        if
        :: job[i].unacknowledged ->
            job[i].unacknowledged = false;
            queue[job[i].about].ready[job[i].attempt]++;
            excuse(i)
        :: else
        fi
    }
}

inline dispatcher_dies(d) {
    broker_takes_jobs_back(d);
    for (i : d * SLOTS .. d * SLOTS + SLOTS - 1) {
        forget_copy(i);
        clear(i)
    }
    control[d].read = 0;
    control[d].taking = false;
    control[d].slow = false;
    control[d].lost = false;
    ControlFollower_connection(d)
}

/* What the broker has not confirmed is published again, though the broker may have it. */
inline PublisherLoop_lost__results(d) {
    for (i : d * SLOTS .. d * SLOTS + SLOTS - 1) {
        if
        :: job[i].outcome == STORED -> job[i].outcome = AGAIN
        :: else
        fi;
        if
        :: job[i].copy == STORED && job[i].kind != LETTER ->
            licence[job[i].about]++;
            job[i].copy = AGAIN
        :: job[i].copy == STORED && job[i].kind == LETTER -> job[i].copy = AGAIN
        :: else
        fi
    }
}

#define has_unconfirmed(k) (job[k].outcome == STORED || job[k].copy == STORED)
#define is_publishing(t) (publishing[t].stage[0] != NOTHING || publishing[t].stage[NOTIFICATIONS - 1] != NOTHING)
#define dead_lettered_twice(n, a) \
    :: step(faults > 0 && queue[n].delayed[a] > 0, faults--; licence[n]++; queue[n].ready[a]++)

inline use_up_control_fault() {
    if
    :: control_faults > 0 -> control_faults--
    :: else -> faults--
    fi
}

/* x is a token service or a dispatcher. */
inline fault(x) {
    if
    :: step(faults > 0 && is_publishing(x), faults--; token_service_dies(x))
    :: step(faults + control_faults > 0, use_up_control_fault(); dispatcher_dies(x))
    :: step(faults > 0 && (job[x * SLOTS].unacknowledged || job[x * SLOTS + 1].unacknowledged),
            faults--; broker_takes_jobs_back(x); control[x].lost = true)
    :: step(faults + control_faults > 0 && control[x].standing == CURRENT, use_up_control_fault(); ControlFollower_connection(x))
#if LOGOUTS + CANCELS > 0
    :: step(faults + control_faults > 0 && !control[x].slow, use_up_control_fault(); control[x].slow = true)
#endif
    :: step(faults > 0 && (has_unconfirmed(x * SLOTS) || has_unconfirmed(x * SLOTS + 1)), faults--; PublisherLoop_lost__results(x))
    fi
}

inline fault_of_anybody() {
    if
    /* The broker died in between: a delayed job is dead-lettered at least once. */
    dead_lettered_twice(0, 0)
    dead_lettered_twice(0, 1)
#if LIVES > 1
    dead_lettered_twice(0, 2)
    dead_lettered_twice(0, 3)
#endif
#if NOTIFICATIONS > 1
    dead_lettered_twice(1, 0)
    dead_lettered_twice(1, 1)
#endif
#if REPLAYS > 0
    :: step(faults > 0 && replaying != NOTHING, faults--; replay_breaks_off())
#endif
    fi
}

/* --- The end: the world comes to rest at any moment, and what is under way must come to its end by itself ------------------------------ */

inline rest() {
    if
    :: step(sends + faults + control_faults + logouts + cancels + expiries > 0, sends = 0; faults = 0; control_faults = 0; logouts = 0; cancels = 0; expiries = 0)
    fi
}

inline last_judgement() {
    timeout -> d_step {
        for (i : 0 .. NOTIFICATIONS - 1) {
            keep(promise_1, !row[i].committed || (row[i].class != UNDECIDED && row[i].published && row[i].counted))
        }
        for (i : 0 .. DISPATCHERS * SLOTS - 1) { keep(promise_1, job[i].phase == EMPTY) }
        keep(promise_3, !fence_is_open);
        keep(promise_6, !row[0].cancel_is_open)
    }
}

init {
    d_step {
        for (i : 0 .. NOTIFICATIONS - 1) {
            row[i].class = UNDECIDED;
            publishing[0].stage[i] = NOTHING;
            publishing[1].stage[i] = NOTHING
        }
        for (i : 0 .. DISPATCHERS * SLOTS - 1) { clear(i) }
        /* Both have started. Starts are what follows a death. */
        control[0].standing = CURRENT;
        control[0].taking = true;
        control[1].standing = CURRENT;
        control[1].taking = true;
        replaying = NOTHING
    }
end:
    do
    :: atomic {
        if
        :: token_service(0, 0)
        :: token_service(1, 0)
        :: outcome_consumer(0)
#if NOTIFICATIONS > 1
        :: token_service(0, 1)
        :: token_service(1, 1)
        :: outcome_consumer(1)
#endif
        :: registry()
#if REPLAYS > 0
        :: dead_letters()
#endif
        :: control_follower(0)
        :: control_follower(1)
        :: line(0, 0)
        :: line(0, 1)
        :: line(1, 0)
        :: line(1, 1)
        :: time()
        :: fault(0)
        :: fault(1)
        :: fault_of_anybody()
        :: rest()
        fi;
        d_step { judge(); sort(); skip }
    }
    :: last_judgement(); break
    od
}
