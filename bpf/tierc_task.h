/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Threads: their bands, their virtual time, the CPUs they may use.
 *
 * What was found out about a thread is kept with it, and found out again when its name, its
 * leader's name, its cgroup, its affinity, the policy or the usable CPUs have changed.  There is no
 * event for most of these: it is noticed when the thread wakes or is enqueued, and at ticks; another
 * policy also when it is put on a CPU.  One that runs is then enqueued again, for that is where a
 * thread is judged.
 */
#ifndef TIERC_TASK_H
#define TIERC_TASK_H

#include "tierc_queues.h"

#define NO_POLICY_SLICE (1 * MSEC)
#define LEAST_SLICE (MSEC / 10)
#define TICK (4 * MSEC)	/* slices end at ticks; of most kernels a longer one than theirs */
/* In milliseconds of a thread's time: */
#define LAG 3	/* what a sleeper may be ahead when it wakes */
#define MAX_LAG 100	/* what a thread may be behind */
#define NEW_BEHIND 1	/* what a new thread is behind: forking is no way to more time */
/*
 * A thread comes later in the order by what it has run since it slept, up to this: who runs briefly
 * waits for no more than one time slice, as long as it gets no more than its share.
 */
#define BURST 4
/* A thread that is this much behind the one that runs preempts it, in the same queue. */
#define WAKE_GRANULARITY 1

struct identity {
	u64 comm[2];
	u64 leader[2];
	u64 cgroup;
};

struct task {
	struct bpf_cpumask KPTR *mask;	/* where it may run; soft domains: where it would best */
	u64 epoch;	/* "current" by which it was judged */
	u64 sent_back;	/* "current" for which it was last sent to be judged anew */
	struct identity is;
	u64 vtime;
	u64 queued_at;
	u64 slice;
	u64 ms;	/* a millisecond as its band's weight counts it; 0: it has not been judged yet */
	u64 burst;	/* virtual time since it slept, BURST at most */
	u32 rule;
	u32 band;
	u32 queue;
	u32 tier;
	u32 weight;
	u32 flags;	/* enum tierc_band_flag, HARD only where it holds */
	u32 fresh;	/* judged a moment ago, when a CPU was chosen for it */
	u32 reserved;
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct task);
} tasks SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, TIERC_STATS);
	__type(key, u32);
	__type(value, struct tierc_stat);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} tierc_stats SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct tierc_knobs);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} tierc_knobs SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, TIERC_MAX_THREADS);
	__type(key, u32);
	__type(value, struct tierc_thread);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} tierc_threads SEC(".maps");

INLINE struct task *task_of(struct task_struct *p)
{
	return task_storage_get(&tasks, p, NULL, 0);
}

/* The record of a band on this CPU, begun anew when the policy has changed. */
INLINE struct tierc_stat *stat_of(u32 band, u32 generation)
{
	struct tierc_stat *stat = map_lookup(&tierc_stats, &band);

	if (stat && stat->generation != generation) {
		__builtin_memset(stat, 0, sizeof(*stat));
		stat->generation = generation;
	}
	return stat;
}

INLINE u32 generation_of(u64 cur)
{
	struct view *view = view_of(cur);

	return view && VIEW_OF(cur) != NO_VIEW ? view->generation : 0;
}

INLINE u64 clamp_ahead(u64 vtime, u64 clock, u64 lag, u64 most)
{
	if ((s64)(vtime - (clock - lag)) < 0)
		return clock - lag;
	if ((s64)(vtime - (clock + most)) > 0)
		return clock + most;
	return vtime;
}

/* The weight that counts: that of its band, and its own nice value. */
INLINE u64 weight_of(struct task_struct *p, struct task *t)
{
	u64 weight = (u64)t->weight * p->scx.weight / 100;

	return weight ? weight : 1;
}

/* How far a thread may be behind: two slices, with the tick they end at, as its weight counts them. */
INLINE u64 most_behind(struct task_struct *p, struct task *t)
{
	u64 most = 2 * (t->slice + TICK) * 100 / weight_of(p, t);

	if (most < LAG * t->ms)
		return LAG * t->ms;
	return most < MAX_LAG * t->ms ? most : MAX_LAG * t->ms;
}

INLINE u64 clock_of(u32 queue)
{
	u64 *clock = map_lookup(&clocks, &queue);

	return clock ? READ_ONCE(*clock) : 0;
}

INLINE u64 more_burst(struct task *t, u64 passed)
{
	return t->burst + passed < BURST * t->ms ? t->burst + passed : BURST * t->ms;
}

/* Where a thread comes in its queue. */
INLINE u64 order_of(struct task *t)
{
	return t->vtime + t->burst;
}

/* Brings a thread that will wait or run near the clock of its queue. */
INLINE void place(struct task_struct *p, struct task *t, _Bool woken)
{
	u64 most = most_behind(p, t);

	/* One that was kept waiting, in a shard that is more crowded than others, has more to claim. */
	t->vtime = clamp_ahead(t->vtime, clock_of(t->queue), woken ? LAG * t->ms : most, most);
	if (woken)
		t->burst = 0;
}

/* Reads what a thread is asked for. */
INLINE void identify(struct task_struct *p, struct identity *is)
{
	const u64 *comm = (const u64 *)p->comm, *leader = (const u64 *)p->group_leader->comm;

	is->comm[0] = comm[0];
	is->comm[1] = comm[1];
	is->leader[0] = leader[0];
	is->leader[1] = leader[1];
	is->cgroup = p->cgroups->dfl_cgrp->kn->id;
}

INLINE _Bool same_identity(const struct identity *a, const struct identity *b)
{
	return a->comm[0] == b->comm[0] && a->comm[1] == b->comm[1] &&
	       a->leader[0] == b->leader[0] && a->leader[1] == b->leader[1] &&
	       a->cgroup == b->cgroup;
}

/*
 * What classification works with, too large for the stack.  Operations run with interrupts off, so
 * one for each CPU is enough.
 */
struct scratch {
	struct tierc_answer answer;
	struct tierc_comm_key comm;
	struct tierc_comm_key leader;
	struct tierc_cgroup_key cgroup;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct scratch);
} scratch SEC(".maps");

/* Asks for the component of a cgroup's path at a depth. */
NOINLINE int ask_component(u64 cgroup, u32 depth)
{
	struct cgroup *cgrp = (struct cgroup *)cgroup, *at = NULL;
	u32 zero = 0;
	struct scratch *work = map_lookup(&scratch, &zero);
	struct tierc_cgroup_key *key;
	struct kernfs_node *kn = NULL;
	const char *name = NULL;
	char last = 0;
	u64 id = 0;

	if (!work)
		return 0;
	key = &work->cgroup;
	if (read_kernel(&at, sizeof(at), &cgrp->ancestors[0] + depth) || !at ||
	    read_kernel(&kn, sizeof(kn), &at->kn) || !kn ||
	    read_kernel(&name, sizeof(name), &kn->name) || !name ||
	    read_kernel(&id, sizeof(id), &kn->id))
		return 0;
	__builtin_memset(key, 0, sizeof(*key));
	if (read_kernel_str(key->name, sizeof(key->name), name) == sizeof(key->name)) {
		/* It filled the field: mark one that was cut, so that it cannot match. */
		read_kernel(&last, 1, name + sizeof(key->name) - 1);
		if (last)
			key->name[sizeof(key->name) - 1] = 1;
	}
	tierc_ask_cgroup(&work->answer, depth, key);
	tierc_ask_group(&work->answer, id);
	return 0;
}

#define NOT_CLASSIFIED 0xffffffffU

/* The rule of a thread in the seed of a slot, with its band from bit 16 up. */
NOINLINE u32 classify(struct task_struct *p TRUSTED, u32 slot)
{
	const struct tierc_head *head = tierc_open(slot);
	u32 zero = 0, rule, band;
	struct scratch *work = map_lookup(&scratch, &zero);
	int level = p->cgroups->dfl_cgrp->level, *next;
	u64 cgroup = 0;
	struct bpf_iter_num it;

	if (!head || !work)
		return NOT_CLASSIFIED;
	work->answer.slot = slot;
	read_kernel(&cgroup, sizeof(cgroup), &p->cgroups->dfl_cgrp);
	read_kernel(work->comm.name, sizeof(work->comm.name), p->comm);
	read_kernel(work->leader.name, sizeof(work->leader.name), p->group_leader->comm);
	tierc_ask_thread(&work->answer, &work->comm, &work->leader,
			 p->flags & PF_KTHREAD ? TIERC_KIND_KERNEL : TIERC_KIND_USER,
			 level > 0 ? level : 0);
	bpf_iter_num_new(&it, 1, TIERC_CGROUP_WALK + 1);
	while ((next = bpf_iter_num_next(&it))) {
		if (*next > level)
			break;
		ask_component(cgroup, *next);
	}
	bpf_iter_num_destroy(&it);
	tierc_ask_missing(&work->answer);
	rule = tierc_rule(&work->answer);
	band = tierc_band_of(&work->answer, rule, head);
	return band < TIERC_MAX_BANDS ? band << 16 | rule : NOT_CLASSIFIED;
}

/* Sets the CPUs of a thread: its affinity, within its band's domain where they have any in common. */
NOINLINE int confine(struct task_struct *p TRUSTED, u32 view, u32 number)
{
	struct tierc_band *band = band_of(view, number);
	struct task *t = task_of(p);
	struct bpf_cpumask *mask, *now = usable_mask();

	if (!t)
		return 0;
	mask = t->mask;
	if (!mask)
		return 0;
	if (band && t->flags & (TIERC_BAND_HARD | TIERC_BAND_SOFT)) {
		fill_mask(mask, band);
		bpf_cpumask_and(mask, cast_mask(mask), &p->cpus_mask);
		if (now && bpf_cpumask_intersects(cast_mask(mask), cast_mask(now)))
			return 0;
		if (t->flags & TIERC_BAND_HARD)
			count(TIERC_COUNT_DISJOINT);
		t->flags &= ~(TIERC_BAND_HARD | TIERC_BAND_SOFT);
	}
	bpf_cpumask_copy(mask, &p->cpus_mask);
	return 0;
}

/* Whether what is known of a thread is out of date. */
INLINE _Bool outdated(struct task_struct *p, struct task *t, u64 cur)
{
	struct identity is;

	identify(p, &is);
	return t->epoch != cur || !same_identity(&t->is, &is);
}

/* Finds out anew what there is to know of a thread. */
NOINLINE int judge(struct task_struct *p TRUSTED, u64 cur)
{
	struct task *t = task_of(p);
	struct identity is;
	struct tierc_band *band = NULL;
	struct tierc_stat *stat;
	u32 view = VIEW_OF(cur), found = NOT_CLASSIFIED, number = 0, queue, old;
	u64 ms;

	if (!t)
		return 0;
	identify(p, &is);
	t->is = is;
	t->epoch = cur;
	if (view < TIERC_SLOTS)
		found = classify(p, view);
	if (found != NOT_CLASSIFIED) {
		number = found >> 16;
		band = band_of(view, number);
	}
	t->rule = band ? found & 0xffff : TIERC_NO_RULE;
	t->flags = band ? band->flags : 0;
	t->band = band ? number : TIERC_STAT_NO_POLICY;
	t->tier = band && band->tier < MAX_TIERS ? band->tier : 0;
	t->slice = band && band->slice_ns > LEAST_SLICE ? band->slice_ns : NO_POLICY_SLICE;
	t->weight = band && band->weight ? band->weight : 100;
	confine(p, view, number);
	ms = MSEC * 100 / t->weight;
	if (!ms)
		ms = 1;
	old = t->queue;
	queue = t->flags & TIERC_BAND_HARD ? queue_of_band(view, number) : t->tier;
	if (!t->ms) {
		t->vtime = clock_of(queue) + NEW_BEHIND * ms;
		t->burst = BURST * ms;
	} else if (queue != old) {
		/* Take along how far it was ahead or behind, not the other clock's reading. */
		t->vtime += clock_of(queue) - clock_of(old);
	}
	t->queue = queue;
	t->ms = ms;
	stat = stat_of(t->band, generation_of(cur));
	if (stat)
		stat->judged++;
	return 0;
}

/* Accounts what the thread of a CPU ran since it was last asked. */
INLINE void charge(struct task_struct *p, struct task *t, struct cpu *cpu, u64 cur, u64 now)
{
	struct view *view = view_of(cur);
	struct tierc_stat *stat = stat_of(t->band, generation_of(cur));
	u64 ran = now - cpu->charged_at, passed, *clock;
	u32 tier = t->tier, queue = t->queue;

	if (!cpu->charged_at || (s64)ran <= 0)
		return;
	cpu->charged_at = now;
	passed = ran * 100 / weight_of(p, t);
	t->vtime += passed;
	t->burst = more_burst(t, passed);
	cpu->vtime = t->vtime;
	/* Ever more threads that sleep and wake would hold it back: it goes on a little in any case. */
	clock = map_lookup(&clocks, &queue);
	if (clock)
		__sync_fetch_and_add(clock, ran / 256);
	if (stat)
		stat->run_ns += ran;
	/* No less than what another queue gets at a time, or they would take turns one to one. */
	turn_over(queue, tier, cpu->shard, passed / (cpu->share ? cpu->share : 1),
		  (t->slice + TICK) * 100 / weight_of(p, t));
	OPAQUE(tier);
	if (view && tier < MAX_TIERS)
		spend(tier, cpu->shard, ran, view->floors[tier]);
}

/* Notes for the debug map what was decided about a thread. */
INLINE void tell(struct task_struct *p, struct task *t, u64 cur, u32 cpu)
{
	u32 zero = 0, tid = p->pid;
	struct tierc_knobs *knobs = map_lookup(&tierc_knobs, &zero);

	/* Nothing is known yet of one that the kernel put on a CPU without asking. */
	if (knobs && knobs->flags & TIERC_KNOB_THREADS && t->epoch == cur) {
		struct tierc_thread thread = {
			.generation = generation_of(cur),
			.rule = t->rule,
			.band = t->band,
			.cpu = cpu,
		};

		map_update(&tierc_threads, &tid, &thread, 0);
	}
}

#endif /* TIERC_TASK_H */
