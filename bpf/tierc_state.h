/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the scheduler tells of itself, and its switches: maps beside those of tierc_maps.h, pinned
 * by their names, with the same conventions (little-endian, no padding, no other header).  They
 * are not part of the seed ABI: another scheduler need not have them.
 */
#ifndef TIERC_STATE_H
#define TIERC_STATE_H

#include "tierc_maps.h"

/* Index of threads under no policy in "tierc_stats"; bands have their own numbers. */
#define TIERC_STAT_NO_POLICY TIERC_MAX_BANDS
#define TIERC_STATS (TIERC_MAX_BANDS + 1)

/*
 * What threads of a band had, one record for each CPU.  A record counts since its generation came
 * into force; one of another generation than tierc_active's is of an earlier policy: count it as
 * zero.
 */
struct tierc_stat {
	tierc_u32 generation;
	tierc_u32 judged;	/* classifications that led here */
	tierc_u64 run_ns;	/* CPU time */
	tierc_u64 runs;	/* times put on a CPU */
	tierc_u64 wait_ns;	/* from enqueued to running */
	tierc_u64 wait_max_ns;
	tierc_u64 preempts;	/* times a CPU was asked to give way */
};

/* Index into "tierc_counters", u64 for each CPU, since the scheduler was loaded. */
enum tierc_counter {
	TIERC_COUNT_POLICIES = 0,	/* policies put in force, empty ones too */
	TIERC_COUNT_DISJOINT = 1,	/* hard domains ignored: the thread may not run there */
	TIERC_COUNT_FLOORS = 2,	/* times a tier ran before higher ones because of its floor */
	TIERC_COUNT_MOVED = 3,	/* queued threads moved to the queue of a new policy */
	TIERC_COUNT_HOTPLUG = 4,	/* CPUs that came or went */
	TIERC_COUNTERS = 5,
};

/* The only entry of "tierc_knobs". */
struct tierc_knobs {
	tierc_u32 flags;	/* enum tierc_knob */
	tierc_u32 reserved;
};

enum tierc_knob {
	TIERC_KNOB_THREADS = 1 << 0,	/* fill "tierc_threads" */
};

/* Value of "tierc_threads", the key being a thread's id (tierc_u32). */
struct tierc_thread {
	tierc_u32 generation;	/* the policy it was judged by */
	tierc_u32 rule;	/* TIERC_MAX_RULES: none */
	tierc_u32 band;	/* TIERC_STAT_NO_POLICY: no policy */
	tierc_u32 cpu;	/* where it last began to run */
};

/* The only entry of "tierc_exit": how a scheduler ended; all zero while one runs. */
struct tierc_exit {
	tierc_u32 kind;	/* enum scx_exit_kind; 64 to 1023 asked for, 1024 and above errors */
	tierc_u32 reserved;
	tierc_u64 code;
	char reason[64];
	char message[128];
};

#define TIERC_MAP_STATS "tierc_stats"
#define TIERC_MAP_COUNTERS "tierc_counters"
#define TIERC_MAP_KNOBS "tierc_knobs"
#define TIERC_MAP_THREADS "tierc_threads"
#define TIERC_MAP_EXIT "tierc_exit"
#define TIERC_MAX_THREADS 16384

TIERC_SIZE(struct tierc_stat, 48);
TIERC_SIZE(struct tierc_knobs, 8);
TIERC_SIZE(struct tierc_thread, 16);
TIERC_SIZE(struct tierc_exit, 208);

#endif /* TIERC_STATE_H */
