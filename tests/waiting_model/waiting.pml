/* How the threads of a run wait for each other, as Spin sees it: the protocol of docs/internals/WAITING.md, with
 * the names of readers/engine/run.cc, and nothing else. A step is one access of what threads share, with what its thread
 * does by itself before and behind it; a look at several variables is one step where it follows the registration,
 * for what changes between two of its parts may as well change behind all of them. All interleavings are looked at.
 * Memory is sequentially consistent (docs/MEMORY_ORDER.md has the orders).
 *
 * A hang is an invalid end state: nobody can go on, and not everybody is at its end. What is lost is an assertion.
 * check_waiting_model.py runs this once for each size, and once for each value of BREAK, which must fail.
 *
 * Left out: memory orders; blocks of several credits; the ring of tasks that is full; threads of streams, which
 * wake as consumers do; what a consumer is told that holds everything; LateWakes, which finds what this has not.
 */

/* ---- Sizes ---- */
#ifndef LANES
#define LANES 2     /* lane l is of worker l % 2 */
#endif
#ifndef TURNS
#define TURNS 2     /* of lane 0 */
#endif
#ifndef TURNS_OF_OTHERS
#define TURNS_OF_OTHERS TURNS
#endif
#define TURNS_OF(l) ((l) == 0 -> TURNS : TURNS_OF_OTHERS)
#ifndef PARTS_OF_FIRST
#define PARTS_OF_FIRST 1  /* blocks of a turn of lane 0; of the others one */
#endif
#define PARTS(l) ((l) == 0 -> PARTS_OF_FIRST : 1)
#ifndef CREDITS
#define CREDITS 1
#endif
#ifndef AHEAD
#define AHEAD 0     /* blocks that a worker frames ahead; 0: as many as there are credits */
#endif
#ifndef KINDS
#define KINDS 3     /* how many rows of a block may be left: 1: 0; 2: 0 or 2; 3: 0, 1 or 2 */
#endif
#define BATCH 2     /* rows of a batch */
#ifndef SLOTS
#define SLOTS 2     /* batches in memory, or deliveries that have room */
#endif
/* What the plan ends in: BATCHES written as blocks come, RECORDS handed out as they are, or batches of a SHUFFLE,
 * whose blocks give their credit back when they are planned and their memory when their rows are written. */
#define BATCHES 0
#define RECORDS 1
#define SHUFFLE 2
#ifndef SINK
#define SINK BATCHES
#endif
#ifndef HELD
#define HELD BATCH  /* blocks that a shuffle may hold */
#endif
#ifndef SHARE
#define SHARE 0     /* 1: idle writers are woken for every task */
#endif
#ifndef ENGINE
#define ENGINE 0    /* 1: lane 0 is read by an engine */
#endif
#ifndef SCHEDULE
#define SCHEDULE 0  /* 1: files of unknown length: a lane that is far ahead is told to wait */
#endif
#ifndef LEAVES
#define LEAVES 0    /* 1: the consumer may leave before the end */
#endif
#ifndef EVENTS
#define EVENTS 0    /* 1: the consumer's sleep in steps, else it waits for what it needs in one */
#endif
#ifndef STREAM
#define STREAM 0    /* 1: lane 0 alone, of worker 1, which writes nothing and plans */
#endif
#ifndef STOPPER
#define STOPPER 0   /* 1: another thread than the consumer may stop the run */
#endif

/* ---- What may be broken: see check_waiting_model.py ---- */
#define NOTHING 0
#define STOP_WAKE 1
#define ASK_WAKE 2
#define IDLE_WAKE 3
#define TASK_WAKE 4
#define CREDIT_WAKE 5
#define AHEAD_WAKE 6
#define DUE_WAKE 7
#define MOVED_WAKE 8
#define ENGINE_WAKE 9
#define PUBLISH_REQUEST 10
#define RELEASE_ASK 11
#define RECYCLE_ASK 12
#define BATCH_DONE_ASK 13
#define ROOM_ASK 14
#define DELIVERY_WAKE 15
#define END_WAKE 16
#define CANCEL_WAKE 17
#define DUE_WAKE_AT_FIRST_POP_ALONE 20
#define NO_SECOND_LOOK 21
#define LOOK_BEFORE_REGISTERING 22
#define NO_SECOND_LOOK_IN_ENGINE 23
#define PLAN_WITHOUT_LOOP 24
#define CREDIT_WAKE_TOO_EARLY 25
#define ASK_WAKE_TOO_EARLY 26
#define NO_SECOND_LOOK_FOR_ROOM 27
#define NO_SECOND_LOOK_OF_CONSUMER 28
#define DUE_WAKE_TOO_EARLY 29
#define WAITING_NOTED_TOO_LATE 30
#define ENGINE_WAKE_NOT_KEPT 31
#ifndef BREAK
#define BREAK NOTHING
#endif

#define BLOCKS(l) ((l) == 0 -> TURNS * PARTS_OF_FIRST : TURNS_OF_OTHERS)
#define MOST_BATCHES (LANES * 4 + 1)
#define MOST_HELD (LANES * CREDITS + HELD + 1)
#define UNKNOWN 255
#if STREAM
#define OwnerOf(l) 1
#define WriterFor(l) 0
#define IsCurrent(w) (me == (w) && me == 0)
#define Writes (me == 0)
#define FirstLane 0
#define HasFirst (me == 1)
#else
#define OwnerOf(l) ((l) % 2)
#define WriterFor(l) ((l) % 2)
#define IsCurrent(w) (me == (w))
#define Writes 1
#define FirstLane me
#define HasFirst (me < LANES)
#endif
#if SINK == RECORDS
#define MOST_HELD_BY_CONSUMER UNKNOWN
#else
#define MOST_HELD_BY_CONSUMER SLOTS
#endif

/* ---- What threads share ---- */
bit stop = 0
bit plan_wanted = 0
byte plan_requests = 0
byte credits[LANES] = CREDITS
byte due = 0
chan published[LANES] = [CREDITS + 2] of { byte }       /* the rows of each block */
chan tasks[2] = [SLOTS * BATCH] of { byte, byte, byte } /* batch, block, rows */
byte holds[MOST_HELD]                                   /* of blocks that were planned */
byte lane_of[MOST_HELD]
byte pending[MOST_BATCHES]                              /* writes of a batch to come, and one for the plan */
bit asleep[2] = 0                                       /* the one waiter on a worker's eventcount */
bit ended[2] = 0
bit ready[MOST_BATCHES]                                 /* the sequenced ring of deliveries */
byte head = 0
byte out_end = UNKNOWN
bit cancelled = 0
bit consumer_asleep = 0
#if AHEAD > 0
byte ahead[2] = 0
#endif
#if SINK == RECORDS
bit room_wanted = 0
byte block_of[MOST_BATCHES]
#else
byte free_slots = SLOTS
#endif
#if SINK == SHUFFLE
byte held = 0
byte in_work = 0
byte first_ref[MOST_BATCHES]
byte second_ref[MOST_BATCHES]
#endif
#if ENGINE
#define IDLE 0
#define SUBMITTED 1
#define FINISHED 2
#define REAPED 3
byte reading = IDLE                                     /* lane 0's block, which worker 0 fills */
bit in_engine = 0                                       /* bit 0 of its engine_word */
bit engine_woken = 0                                    /* sticky until the next Reap returns */
#endif
#if SCHEDULE
byte turns_read[LANES] = 0
bit told_to_wait[LANES] = 0                             /* and the version is still the same */
bit lanes_wait = 0
#endif

/* ---- The plan's own: of the thread that runs it ---- */
bit planning = 0
bit plan_ended = 0
bit failed = 0                                          /* a shuffle had no memory */
byte turn = 0
bit owes_due_wake = 0
byte planned[LANES] = 0
byte next_batch = 0
byte batch_rows = 0                                     /* in the batch that is open */
byte rows_planned = 0
#if SINK == SHUFFLE
bit has_slot = 0
bit closed = 0                                          /* a batch is, and has no slot */
byte waiting_block = 0                                  /* 1 + its rows: taken, waits for memory */
byte open_ref = 0
byte closed_first = 0
byte closed_second = 0
#else
byte pending_rows = 0                                   /* of pending_block, without a slot or room */
byte pending_block = 0
bit has_slot = 0
#endif

/* ---- Waking ---- */
#if ENGINE
/* engine_word is looked at first; the engine keeps the wake until a Reap returns. */
inline Wake(w) {
  atomic { saw_engine = (w == 0 && in_engine); asleep[w] = 0 };
  if
  :: saw_engine && BREAK != ENGINE_WAKE ->
     saw_engine = 0;
     engine_woken = (BREAK != ENGINE_WAKE_NOT_KEPT || engine_waits)
  :: else -> saw_engine = 0
  fi
}
#define IsIdle(w) (asleep[w] || (w == 0 && in_engine))
#else
inline Wake(w) { asleep[w] = 0 }
#define IsIdle(w) (asleep[w])
#endif

/* The preferred one always; another one that is idle, too, where that one is at work. */
inline WakeAny(w) {
#if ENGINE
  if
  :: !IsIdle(w) && IsIdle(1 - w) && BREAK != IDLE_WAKE -> Wake((1 - w))
  :: else
  fi;
#else
  asleep[1 - w] = asleep[1 - w] && (asleep[w] || BREAK == IDLE_WAKE);
#endif
  Wake(w)
}

/* By a thread that is no worker; a worker only sets plan_wanted: it looks before it rests. */
inline AskForPlan() {
#if BREAK == ASK_WAKE
  plan_wanted = 1
#elif BREAK == ASK_WAKE_TOO_EARLY
  WakeAny(0);
  plan_wanted = 1
#else
  plan_wanted = 1;
  WakeAny(0)
#endif
}

/* Behind what it waits for. */
inline WakeConsumer(without) {
#if EVENTS
  if :: BREAK != without -> consumer_asleep = 0 :: else fi
#else
  skip
#endif
}

/* ---- Memory that comes back ---- */
#if AHEAD > 0
#define GiveAhead(l) atomic { \
    give_wake = give_wake || (ahead[OwnerOf(l)] == AHEAD && BREAK != AHEAD_WAKE); \
    ahead[OwnerOf(l)]-- }
#else
#define GiveAhead(l) skip
#endif

/* The first step of GiveCredits; the last one is taken where a wake is due. */
#define GiveCredit(l) give_wake = (credits[l] == 0 && BREAK != CREDIT_WAKE); credits[l]++

inline WakeOwner() {
  if
  :: give_wake ->
     atomic { give_wake = 0; give_to = OwnerOf(dropped_lane); dropped_lane = 0 };
     Wake(give_to);
     give_to = 0
  :: else -> dropped_lane = 0
  fi
}

/* Credits come back with the last hold, where they are not the plan's to give. */
#if SINK == SHUFFLE
#define GiveOnDrop(b) held--
#else
#define GiveOnDrop(b) \
    dropped_lane = lane_of[b]; \
    GiveCredit(dropped_lane); \
    give_wake = give_wake && BREAK != CREDIT_WAKE_TOO_EARLY
#endif
#define LetGo(b, rows_dropped) \
    holds[b] = holds[b] - (rows_dropped); \
    if \
    :: holds[b] == 0 -> dropped_last = 1; GiveOnDrop(b); lane_of[b] = 0 \
    :: else \
    fi
inline GiveBack() {
  if
  :: dropped_last ->
     dropped_last = 0;
#if SINK == SHUFFLE
#if BREAK != RECYCLE_ASK
     if
     :: IsCurrent(me) -> plan_wanted = 1
     :: else -> AskForPlan()
     fi
#endif
#else
     GiveAhead(dropped_lane);
     WakeOwner()
#endif
  :: else
  fi
}
inline Drop(b, rows_dropped) {
#if BREAK == CREDIT_WAKE_TOO_EARLY
  if :: holds[b] == rows_dropped && credits[lane_of[b]] == 0 -> Wake(OwnerOf(lane_of[b])) :: else fi;
#endif
  atomic { LetGo(b, rows_dropped) };
  GiveBack()
}

/* Who drops the last write of a batch delivers it. */
inline FinishOne(b) {
  atomic {
    pending[b]--;
    if
    :: pending[b] == 0 ->
       is_last = 1;
       ready[b] = 1;
#if SINK == SHUFFLE
       in_work--
#endif
    :: else
    fi
  };
  if
  :: is_last ->
     is_last = 0;
     WakeConsumer(DELIVERY_WAKE);
#if SINK == SHUFFLE && BREAK != BATCH_DONE_ASK
     plan_wanted = 1
#endif
  :: else
  fi
}

/* ---- The plan ---- */
inline WakeWriter(to) {
#if BREAK != TASK_WAKE
  if
  :: SHARE -> WakeAny(to)
  :: !SHARE && !IsCurrent(to) -> Wake(to)
  :: else
  fi;
#endif
  to = 0
}

/* What is planned goes out while it may, and a batch is closed where it is whole. */
#if BREAK == BATCH_DONE_ASK
#define PlanAsksItself() skip
#else
#define PlanAsksItself() plan_wanted = 1
#endif
#if SINK == BATCHES
#define ToGo (pending_rows > 0)
#define MayGo (pending_rows > 0 && (has_slot || free_slots > 0))
#define MayClose (has_slot && (batch_rows == BATCH || (plan_ended && pending_rows == 0)))
#define TakeRows(b, rows) pending_rows = rows; pending_block = (rows > 0 -> b : 0)
#define BatchesInAll ((rows_planned + BATCH - 1) / BATCH)
#elif SINK == RECORDS
#define ToGo (pending_rows > 0)
#define HasRoom (next_batch < head + SLOTS)
#define MayGo (pending_rows > 0 && (asked_for_room == 0 || (HasRoom && BREAK != NO_SECOND_LOOK_FOR_ROOM)))
#define MayClose 0
/* A delivery holds its block once, and one of damaged records alone holds none. */
#define TakeRows(b, rows) pending_rows = rows; pending_block = (rows > 0 -> b : 0); holds[b] = 1 + (rows == 2)
#define BatchesInAll (next_batch + (pending_rows > 0))
#else
#define ToGo (closed)
#define MayGo (closed && !has_slot && free_slots > 0)
#define MayClose (has_slot)
#define TakeRows(b, rows) row = rows; \
    do \
    :: row > 0 -> \
       row--; \
       if \
       :: batch_rows == 0 -> open_ref = b; batch_rows = 1 \
       :: else -> \
          assert(!closed); \
          closed = 1; closed_first = open_ref; closed_second = b; batch_rows = 0; open_ref = 0 \
       fi \
    :: else -> break \
    od
#define BatchesInAll ((rows_planned + BATCH - 1) / BATCH)
#endif

/* Behind a block of lane `turn`. */
#define NextTurn() if \
    :: planned[turn] % PARTS(turn) == 0 -> \
       turn = (turn + 1) % LANES; \
       row = 0; \
       do \
       :: row < LANES && planned[turn] == BLOCKS(turn) -> turn = (turn + 1) % LANES; row++ \
       :: else -> break \
       od; \
       all_planned = (row == LANES); \
       row = 0 \
    :: else \
    fi

/* The block of the lane whose turn it is: each once, and in its order. `taken`: 1 + its rows. */
#define PlanBlock() assert(taken > 0 && planned[turn] < BLOCKS(turn)); \
    block = 0; \
    do :: holds[block] != 0 -> block++ :: else -> break od; \
    lane_of[block] = turn; \
    holds[block] = taken; \
    planned[turn]++; \
    rows_planned = rows_planned + taken - 1; \
    TakeRows(block, (taken - 1)); \
    taken = 0; \
    has_block = 1; \
    NextTurn()

#if SINK == SHUFFLE
#define MayTake (waiting_block == 0 && taken == 0)
#else
#define MayTake 1
#endif
#define IsIdlePlan (!stop && !MayClose && !ToGo && !has_block && !all_planned && !plan_ended && MayTake)
#define OWES (owes_due_wake && !IsCurrent(OwnerOf(turn)) && BREAK != DUE_WAKE && BREAK != DUE_WAKE_TOO_EARLY)

inline RunPlan() {
  do
  /* What is planned goes out. */
#if SINK == BATCHES
  :: atomic {
       !stop && MayClose ->
       pending[next_batch]--;
       if :: pending[next_batch] == 0 -> ready[next_batch] = 1; is_last = 1 :: else fi;
       next_batch++; batch_rows = 0; has_slot = 0
     };
     if :: is_last -> is_last = 0; WakeConsumer(DELIVERY_WAKE) :: else fi
  :: atomic {
       !stop && !MayClose && MayGo ->
       if :: !has_slot -> free_slots--; has_slot = 1; pending[next_batch] = 1 :: else fi;
       pending[next_batch]++;
       writer = WriterFor(lane_of[pending_block]);
       row = (pending_rows < BATCH - batch_rows -> pending_rows : BATCH - batch_rows);
       tasks[writer]!next_batch, pending_block, row;
       pending_rows = pending_rows - row;
       batch_rows = batch_rows + row;
       row = 0
     };
     WakeWriter(writer)
#elif SINK == RECORDS
  :: atomic {
       !stop && MayGo && HasRoom ->
       ready[next_batch] = 1;
       block_of[next_batch] = (pending_rows == 2 -> pending_block : UNKNOWN);
       next_batch++; pending_rows = 0; pending_block = 0; asked_for_room = 0
     };
     WakeConsumer(DELIVERY_WAKE)
  :: atomic { !stop && MayGo && !HasRoom && asked_for_room == 0 -> asked_for_room = 1 };
     atomic { room_wanted = 1; asked_for_room = 2 }
#else
  :: atomic {
       !stop && MayClose ->
       pending[next_batch]--;
       if :: pending[next_batch] == 0 -> ready[next_batch] = 1; is_last = 1; in_work-- :: else fi;
       next_batch++; has_slot = 0; closed = 0
     };
     if :: is_last -> is_last = 0; WakeConsumer(DELIVERY_WAKE); PlanAsksItself() :: else fi
  :: atomic {
       !stop && MayGo ->
       free_slots--; has_slot = 1;
       first_ref[next_batch] = closed_first; second_ref[next_batch] = closed_second;
       closed_first = 0; closed_second = 0;
       in_work++;
       pending[next_batch] = 2;
       writer = next_batch % 2;
       tasks[writer]!next_batch, 0, 0
     };
     WakeWriter(writer)
  :: atomic {
       !stop && !closed && plan_ended && batch_rows > 0 ->
       closed = 1; closed_first = open_ref; closed_second = UNKNOWN; batch_rows = 0; open_ref = 0
     }
#endif
  :: stop -> break
  /* The plan's own hold of a block, behind what could go out. */
  :: atomic { !stop && has_block && !MayClose && !MayGo -> has_block = 0; LetGo(block, 1); block = 0 };
     GiveBack()
  :: atomic { !stop && !has_block && all_planned -> all_planned = 0; plan_ended = 1; out_end = BatchesInAll };
     WakeConsumer(END_WAKE)
  /* Backlogged, or at the end. */
  :: atomic { !stop && !has_block && !all_planned && ToGo && !MayClose && !MayGo -> asked_for_room = 0; break }
  :: atomic { !stop && !has_block && !all_planned && !ToGo && !MayClose && plan_ended && batch_rows == 0 -> break }
  /* PopBlock */
#if BREAK == DUE_WAKE_TOO_EARLY
  :: atomic { IsIdlePlan && turn != due && !is_early -> is_early = 1 };
     if :: len(published[turn]) == 0 && !IsCurrent(OwnerOf(turn)) -> Wake(OwnerOf(turn)) :: else fi
  :: atomic { IsIdlePlan && turn != due && is_early -> is_early = 0; due = turn; owes_due_wake = 1 }
#else
  :: atomic { IsIdlePlan && turn != due -> due = turn; owes_due_wake = 1 }
#endif
  :: atomic { IsIdlePlan && turn == due && empty(published[turn]) -> wake_due = OWES; owes_due_wake = 0 };
     if :: wake_due -> wake_due = 0; Wake(OwnerOf(turn)) :: else fi;
     break
  :: atomic {
       IsIdlePlan && turn == due && nempty(published[turn]) ->
       published[turn]?taken;
       taken++;
       owes_due_wake = owes_due_wake && BREAK != DUE_WAKE_AT_FIRST_POP_ALONE;
#if SINK != SHUFFLE
       PlanBlock()
     }
#else
       outstanding = (in_work > 0)
     };
     CheckMemory()
  :: atomic { !stop && !MayClose && !ToGo && !has_block && waiting_block > 0 ->
       outstanding = (in_work > 0); taken = waiting_block; waiting_block = 0 };
     CheckMemory()
#endif
  od
}

#if SINK == SHUFFLE
/* What a shuffle has no memory for comes back from batches in work, or the run ends with that. Credits come back with
 * the block that is planned. */
inline CheckMemory() {
  if
  :: atomic { held >= HELD && outstanding -> waiting_block = taken; taken = 0; outstanding = 0 }; break
  :: atomic {
       held >= HELD && !outstanding ->
       failed = 1; plan_ended = 1; batch_rows = 0; taken = 0;
       out_end = next_batch
     };
     WakeConsumer(END_WAKE)
  :: atomic { held < HELD -> held++; outstanding = 0; dropped_lane = turn; GiveCredit(turn) };
     WakeOwner();
     atomic { PlanBlock() }
  fi
}
#endif

inline RequestPlan() {
  atomic { asked = plan_requests; plan_requests++ };
  if
  :: asked != 0 -> asked = 0
  :: else ->
     assert(!planning);
     do
     :: atomic { asked = plan_requests; planning = 1 };
        RunPlan();
        atomic {
          planning = 0;
          plan_requests = (BREAK == PLAN_WITHOUT_LOOP -> 0 : plan_requests - asked);
          asked = 0;
          if :: plan_requests == 0 -> break :: else fi
        }
     od
  fi
}

/* ---- A worker ---- */
#if AHEAD > 0
#define MayFill(l) (credits[l] > 0 && (ahead[me] < AHEAD || due == l))
#else
#define MayFill(l) (credits[l] > 0)
#endif
/* Lane l of mine may begin a block, or go on with one. */
#define Left(l) (filled[(l) / 2] < BLOCKS(l))
#if ENGINE
#define InFlight (me == 0 && (reading == SUBMITTED || reading == FINISHED))
#define Fills(l) (l == 0 && reading != IDLE)
#define CanFill(l) (Left(l) && (Fills(l) -> reading == REAPED : MayFill(l)))
#elif SCHEDULE
#define InFlight 0
#define Fills(l) (begun[(l) / 2])
#define CanFill(l) (Left(l) && (Fills(l) -> !told_to_wait[l] : MayFill(l)))
#else
#define InFlight 0
#define Fills(l) 0
#define CanFill(l) (Left(l) && MayFill(l))
#endif
#define HasWork (stop || (Writes && (plan_wanted || len(tasks[0]) > 0 || len(tasks[1]) > 0)) || \
                 (HasFirst && CanFill(FirstLane)) || HasSecond)
#if LANES > 2
#define HasSecond (me + 2 < LANES && CanFill(me + 2))
#else
#define HasSecond 0
#endif
#define Place(l) (filled[(l) / 2] / PARTS(l))

#define NextLane() lane = (HasFirst && CanFill(FirstLane) -> FirstLane : UNKNOWN); \
    if \
    :: HasSecond && (lane == UNKNOWN || Place(me + 2) < Place(me)) -> \
       lane = me + 2 \
    :: else \
    fi; \
    if \
    :: lane != UNKNOWN && !Fills(lane) -> assert(credits[lane] > 0); credits[lane]-- \
    :: else \
    fi

#if SCHEDULE
/* Behind what others have read, by more than a turn: FileSchedule does not know which file comes. */
#define IsFarAhead(l, m) (turns_read[m] < TURNS_OF(m) && (turns_read[m] + 1 < turns_read[l] || \
                          (turns_read[m] + 1 == turns_read[l] && m < l)))
inline AskSchedule(l) {
  atomic {
    is_held_up = IsFarAhead(l, (1 - l));
    begun[(l) / 2] = is_held_up;
    if
    :: is_held_up ->
       told_to_wait[l] = 1;
       lanes_wait = (BREAK != WAITING_NOTED_TOO_LATE)
    :: else
    fi
  };
  if :: is_held_up && BREAK == WAITING_NOTED_TOO_LATE -> lanes_wait = 1 :: else fi
}
inline EndTurn(l) {
  atomic {
    turns_read[l]++;
    told_to_wait[0] = 0;
    told_to_wait[1] = 0;
    moved = (lanes_wait && BREAK != MOVED_WAKE);
    lanes_wait = 0
  };
  if
  :: moved -> moved = 0; Wake(0); Wake(1)
  :: else
  fi
}
#endif

inline Publish(l) {
  if
  :: rows = 0
#if KINDS > 1
  :: rows = 2
#endif
#if KINDS > 2
  :: rows = 1
#endif
  fi;
#if AHEAD > 0
  ahead[me]++;
#endif
  filled[l / 2]++;
  published[l]!rows;
  rows = 0
}

inline WriteRows() {
#if SINK == SHUFFLE
  Drop(first_ref[batch], 1);
  if
  :: second_ref[batch] == UNKNOWN
  :: else -> Drop(second_ref[batch], 1)
  fi;
  atomic { first_ref[batch] = 0; second_ref[batch] = 0 };
#else
  Drop(task, task_rows);
#endif
  FinishOne(batch);
  atomic { batch = 0; task = 0; task_rows = 0 }
}

#if ENGINE
bit engine_waits = 0
inline RestInEngine() {
  in_engine = 1;
  if
  :: atomic { HasWork && BREAK != NO_SECOND_LOOK_IN_ENGINE -> skip }
  :: else ->
     engine_waits = 1;
     (engine_woken || reading == FINISHED)
  fi;
  atomic {
    engine_waits = 0;
    engine_woken = 0;
    if :: reading == FINISHED -> reading = REAPED :: else fi
  };
  in_engine = 0
}
#endif

inline RestOnEvents() {
#if BREAK == LOOK_BEFORE_REGISTERING
  if
  :: HasWork
  :: else -> asleep[me] = 1; !asleep[me]
  fi
#else
  asleep[me] = 1;
  if
  :: atomic { HasWork && BREAK != NO_SECOND_LOOK -> asleep[me] = 0 }
  :: else -> !asleep[me]
  fi
#endif
}

proctype Worker(byte me) {
  byte filled[2];                 /* blocks of each of its lanes */
#if SCHEDULE
  bit begun[2];                   /* one that was begun, and told to wait */
  bit is_held_up, moved;
#endif
  byte lane, rows, batch, task, task_rows, taken, block, row, asked, dropped_lane, writer, give_to;
  byte asked_for_room;
  bit has_block, all_planned, dropped_last, is_last, give_wake, wake_due, is_early;
#if ENGINE
  bit saw_engine;
#endif
#if SINK == SHUFFLE
  bit outstanding;
#endif

again:
  if
  :: stop -> goto done
  :: atomic { !stop && Writes && plan_wanted -> plan_wanted = 0 }; goto plan
  :: atomic { !stop && Writes && !plan_wanted && nempty(tasks[me]) -> tasks[me]?batch, task, task_rows };
     WriteRows();
     goto again
  :: atomic {
       !stop && Writes && !plan_wanted && empty(tasks[me]) && nempty(tasks[1 - me]) ->
       tasks[1 - me]?batch, task, task_rows
     };
     WriteRows();
     goto again
  :: atomic { !stop && (!Writes || (!plan_wanted && empty(tasks[me]) && empty(tasks[1 - me]))) -> NextLane() }
  fi;
  if
  :: lane == UNKNOWN ->
     lane = 0;
#if ENGINE
     if
     :: InFlight -> RestInEngine(); goto again
     :: else
     fi;
#endif
     RestOnEvents();
     goto again
#if ENGINE
  :: lane == 0 && me == 0 && reading == IDLE -> reading = SUBMITTED; goto again
  :: lane == 0 && me == 0 && reading == REAPED -> reading = IDLE
#endif
  :: else
  fi;
#if SCHEDULE
  AskSchedule(lane);
  if
  :: is_held_up -> atomic { is_held_up = 0; lane = 0 }; goto again
  :: else
  fi;
  if :: (filled[lane / 2] + 1) % PARTS(lane) == 0 -> EndTurn(lane) :: else fi;
#endif
  atomic { Publish(lane); lane = 0 };
#if BREAK == PUBLISH_REQUEST
  goto again;
#endif
plan:
  RequestPlan();
  goto again;
done:
  ended[me] = 1
}

/* ---- The consumer ---- */
inline StopRun() {
  atomic { stop = 1; cancelled = 1 };
  WakeConsumer(CANCEL_WAKE);
#if BREAK != STOP_WAKE
  Wake(0);
  Wake(1);
#endif
  ended[0] && ended[1]
}

inline ReleaseOldest() {
#if SINK == RECORDS
  oldest = head - held_by_me;
  if
  :: block_of[oldest] != UNKNOWN -> Drop(block_of[oldest], 1)
  :: else
  fi;
  atomic { block_of[oldest] = 0; held_by_me--; oldest = 0 };
#else
  atomic { free_slots++; held_by_me-- };
#endif
#if BREAK != RELEASE_ASK
  AskForPlan()
#endif
}

#define IsReady (head < out_end && ready[head])
#define IsOver (cancelled || head >= out_end)

/* It takes what comes, holds it, lets go of it and goes on, or leaves, as it likes. One that held everything and
 * asked for more would be told so: it lets go before. */
proctype Consumer() {
  byte held_by_me;
#if SINK == RECORDS
  byte oldest, dropped_lane, give_to;
  bit dropped_last, give_wake, got;
#endif
#if ENGINE
  bit saw_engine;
#endif

again:
  if
  :: held_by_me > 0 -> ReleaseOldest(); goto again
  :: held_by_me < MOST_HELD_BY_CONSUMER
#if LEAVES
  :: goto leave
#endif
  fi;
wait:
#if EVENTS
  consumer_asleep = 1;
  if
  :: atomic { BREAK != NO_SECOND_LOOK_OF_CONSUMER && (IsOver || IsReady) -> consumer_asleep = 0 }
  :: else -> !consumer_asleep
  fi;
  if
  :: IsOver || IsReady
  :: else -> goto wait
  fi;
#endif
  if
  :: IsOver -> goto over
  :: atomic { !IsOver && IsReady -> ready[head] = 0; head++; held_by_me++ }
#if SINK == RECORDS
  /* It is told that it holds what the next block needs, where that is so (StarvedBy). */
  :: atomic {
       timeout && held_by_me > 0 && !IsOver && !IsReady ->
       assert(!plan_wanted && pending_rows == 0 && credits[turn] == 0 && empty(published[turn]));
       goto again
     }
#endif
  fi;
#if SINK == RECORDS
  atomic { got = room_wanted; room_wanted = 0 };
  if
  :: got && BREAK != ROOM_ASK -> got = 0; AskForPlan()
  :: else -> got = 0
  fi;
#endif
  goto again;
over:
  /* Nothing was lost on the way. */
  assert(cancelled || failed || (plan_ended && head == out_end && planned[0] == BLOCKS(0) &&
                       planned[LANES - 1] == BLOCKS(LANES - 1)));
leave:
#if STOPPER
  skip
#else
  StopRun()
#endif
}

#if STOPPER
proctype Stopper() {
#if ENGINE
  bit saw_engine;
#endif
  StopRun()
}
#endif

#if ENGINE
/* It delivers when it likes, or so late that everybody else has come to rest: then nobody may rest beside work. */
proctype Medium() {
  bit is_late;
  if :: is_late = 0 :: is_late = 1 fi;
end:
  do
  :: !is_late && reading == SUBMITTED -> reading = FINISHED
  :: atomic {
       is_late && timeout && reading == SUBMITTED ->
       assert(!stop && !plan_wanted && len(tasks[0]) == 0 && len(tasks[1]) == 0);
       reading = FINISHED
     }
  od
}
#endif

init {
  atomic {
    run Worker(0);
    run Worker(1);
    run Consumer();
#if STOPPER
    run Stopper();
#endif
#if ENGINE
    run Medium();
#endif
  }
}
