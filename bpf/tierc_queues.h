/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Where threads wait.
 *
 * A queue is a tier, or a band with a hard domain: of such a band, only the CPUs of its domain take
 * threads.  Queues of bands belong to a slot, so that those of two policies do not mix.  Each queue
 * has a virtual clock and is split into shards, a group of neighbouring last-level caches each;
 * a CPU takes from its own shard first.  Each shard of each queue is a DSQ, ordered by virtual time.
 *
 * Floors: in each shard, a tier that has threads waiting saves up its share of the shard's CPU
 * time, and what it runs is taken off.  With enough saved it runs before higher tiers.
 */
#ifndef TIERC_QUEUES_H
#define TIERC_QUEUES_H

#include "tierc_policy.h"

#define MAX_SHARDS 8
#define QUEUES (MAX_TIERS + TIERC_SLOTS * TIERC_MAX_BANDS)
#define DSQ_BASE 0x10000ULL

#define FLOOR_PERIOD (100 * MSEC)	/* for which a tier can save up */
#define FLOOR_GRANT (1 * MSEC)	/* what it must have saved to run */
#define FLOOR_CHECK (MSEC / 2)

struct cpu {
	u64 epoch;	/* "current" for which the next two are right */
	u64 lanes;	/* hard bands of the view that this CPU may take from */
	u64 floors_at;	/* when the floors of its shard were looked at */
	u64 charged_at;	/* of the thread that runs: up to when its time is accounted */
	u64 vtime;	/* its virtual time then */
	u32 weight;
	u32 queue;
	u32 tier;
	u32 share;	/* threads that waited in its queue when it was taken, itself included */
	u32 next_share;	/* the same of the one that was taken and does not run yet */
	u32 shard;
	u32 granted;	/* it runs on a floor: nobody may preempt it */
	u32 grant;	/* the next thread is taken on a floor */
	u32 usable;
	u32 llc;
	u32 asked;	/* a thread of its queue has woken and did not preempt it */
	u32 looked;	/* the other shard that was looked at last */
	u32 searched;	/* the shard that was last searched for threads that starve */
	u32 reserved;
	u64 searched_at;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, TIERC_MAX_CPUS);
	__type(key, u32);
	__type(value, struct cpu);
} cpus SEC(".maps");

/* The virtual clock of each queue: no thread that runs is before it. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, QUEUES);
	__type(key, u32);
	__type(value, u64);
} clocks SEC(".maps");

/*
 * What each shard of each queue got, for one thread, as its weight counts it: queues of one tier take
 * turns by it.  Index: queue * MAX_SHARDS + shard.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, QUEUES * MAX_SHARDS);
	__type(key, u32);
	__type(value, u64);
} served SEC(".maps");

/* How far the queues of a tier have come in that: see turn_over().  Index: tier * MAX_SHARDS + shard. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_TIERS * MAX_SHARDS);
	__type(key, u32);
	__type(value, u64);
} turns SEC(".maps");

struct saving {
	u64 at;	/* up to when it is accounted */
	s64 saved;	/* ns of CPU time */
};

/* Index: tier * MAX_SHARDS + shard. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_TIERS * MAX_SHARDS);
	__type(key, u32);
	__type(value, struct saving);
} savings SEC(".maps");

/* For each tier the CPUs that run it and may be preempted, as far as known. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_TIERS);
	__type(key, u32);
	__type(value, struct mask_holder);
} victims SEC(".maps");

u32 shards = 1;
u32 shard_cpus[MAX_SHARDS];	/* usable CPUs of each */
/* Tiers of threads that wait in each because nobody was found who had to give way, as bits. */
u32 unmet[MAX_SHARDS];

INLINE struct cpu *cpu_of(u32 cpu)
{
	return map_lookup(&cpus, &cpu);
}

INLINE u64 dsq_of(u32 queue, u32 shard)
{
	return DSQ_BASE + queue * MAX_SHARDS + shard;
}

INLINE u32 queue_of_band(u32 view, u32 band)
{
	return MAX_TIERS + view * TIERC_MAX_BANDS + band;
}

INLINE struct bpf_cpumask *victims_of(u32 tier)
{
	struct mask_holder *holder = map_lookup(&victims, &tier);

	return holder ? holder->mask : NULL;
}

INLINE u32 cpus_of_shard(u32 shard)
{
	u32 n;

	OPAQUE(shard);
	n = shard < MAX_SHARDS ? shard_cpus[shard] : 0;
	return n ? n : 1;
}

INLINE void count_cpu(u32 shard, s32 more)
{
	OPAQUE(shard);
	if (shard < MAX_SHARDS)
		__sync_fetch_and_add(&shard_cpus[shard], more);
}

INLINE u32 *unmet_of(u32 shard)
{
	OPAQUE(shard);
	return shard < MAX_SHARDS ? &unmet[shard] : NULL;
}

INLINE u64 *served_of(u32 queue, u32 shard)
{
	u32 index = queue * MAX_SHARDS + shard;

	return map_lookup(&served, &index);
}

/*
 * Accounts what a queue got in a shard.  One that had nobody there for a while comes before the
 * others by "lag" only, not by all that they got meanwhile.
 */
INLINE void turn_over(u32 queue, u32 tier, u32 shard, u64 passed, u64 lag)
{
	u32 index = tier * MAX_SHARDS + shard;
	u64 *got = served_of(queue, shard), *turn = map_lookup(&turns, &index), before;

	if (!got || !turn)
		return;
	before = READ_ONCE(*got);
	if ((s64)(*turn - lag - before) > 0) {
		before = *turn - lag;
		WRITE_ONCE(*got, before);
	} else if ((s64)(before - *turn) > 0) {
		WRITE_ONCE(*turn, before);
	}
	__sync_fetch_and_add(got, passed);
}

INLINE struct saving *saving_of(u32 tier, u32 shard)
{
	u32 index = tier * MAX_SHARDS + shard;

	return map_lookup(&savings, &index);
}

/* The same band may have had another tier before: then what it got says nothing. */
NOINLINE int forget_served(u32 slot)
{
	struct bpf_iter_num it;
	int *next;

	bpf_iter_num_new(&it, 0, TIERC_MAX_BANDS * MAX_SHARDS);
	while ((next = bpf_iter_num_next(&it))) {
		u32 index = queue_of_band(slot, 0) * MAX_SHARDS + *next;
		u64 *got = map_lookup(&served, &index);

		if (got)
			WRITE_ONCE(*got, 0);
	}
	bpf_iter_num_destroy(&it);
	return 0;
}

/* The hard bands that a CPU may take from, kept in its record. */
NOINLINE u64 lanes_of(u32 number, u64 cur)
{
	struct view *view = view_of(cur);
	struct cpu *cpu = cpu_of(number);
	struct bpf_iter_num it;
	u64 lanes = 0;
	int *next;

	if (!view || !cpu)
		return 0;
	if (cpu->epoch == cur)
		return cpu->lanes;
	if (view->hard) {
		bpf_iter_num_new(&it, 0, TIERC_MAX_BANDS);
		while ((next = bpf_iter_num_next(&it))) {
			u32 one = *next;
			struct tierc_band *band = band_of(VIEW_OF(cur), one);
			u64 bit = 1ULL << (one & 63);

			if (band && view->hard & bit &&
			    (view->orphans & bit || in_domain(band, number)))
				lanes |= bit;
		}
		bpf_iter_num_destroy(&it);
	}
	cpu->lanes = lanes;
	cpu->epoch = cur;
	return lanes;
}

/*
 * Of the queues that have threads in a shard, the one that got least there: the queue of a tier,
 * if "own" is set, and those of the bands of "lanes".  QUEUES if none has any.
 */
NOINLINE u32 pick_queue(u32 tier, u32 shard, u64 lanes, u32 view, u32 own)
{
	u32 best = QUEUES;
	u64 least = 0, *got;
	struct bpf_iter_num it;

	if (tier >= MAX_TIERS || shard >= MAX_SHARDS)
		return QUEUES;
	if (own && scx_bpf_dsq_nr_queued(dsq_of(tier, shard)) > 0) {
		got = served_of(tier, shard);
		if (got)
			least = *got;
		best = tier;
	}
	if (!lanes)
		return best;
	bpf_iter_num_new(&it, 0, TIERC_MAX_BANDS);
	while (bpf_iter_num_next(&it)) {
		u32 queue;

		if (!lanes)
			break;
		queue = queue_of_band(view, tierc_lowest_bit(lanes));
		lanes &= lanes - 1;
		if (scx_bpf_dsq_nr_queued(dsq_of(queue, shard)) <= 0)
			continue;
		got = served_of(queue, shard);
		if (got && (best == QUEUES || (s64)(*got - least) < 0)) {
			best = queue;
			least = *got;
		}
	}
	bpf_iter_num_destroy(&it);
	return best;
}

/* Whether a tier has threads that a CPU may take, in its own shard. */
INLINE _Bool waiting(u32 tier, u32 shard, u64 lanes, struct view *view, u64 cur)
{
	OPAQUE(tier);
	if (tier >= MAX_TIERS)
		return 0;
	return pick_queue(tier, shard, lanes & view->hard_in_tier[tier], VIEW_OF(cur), 1) != QUEUES;
}

/* Which of some tiers, as bits, has threads that a CPU may take in its own shard; 0 if none has. */
NOINLINE u32 who_waits(u32 number, u32 tiers, u64 cur)
{
	struct view *view = view_of(cur);
	u64 lanes = lanes_of(number, cur);
	struct cpu *cpu = cpu_of(number);
	struct bpf_iter_num it;
	u32 found = 0;

	if (!view || !cpu)
		return 0;
	bpf_iter_num_new(&it, 0, MAX_TIERS);
	while (bpf_iter_num_next(&it)) {
		u32 tier = tierc_lowest_bit(tiers);

		if (!tiers || tier >= MAX_TIERS)
			break;
		tiers &= tiers - 1;
		if (waiting(tier, cpu->shard, lanes, view, cur)) {
			found = 1U << tier;
			break;
		}
	}
	bpf_iter_num_destroy(&it);
	return found;
}

/*
 * Accounts the floors of a CPU's shard, and returns the tiers that have saved enough to run now, as
 * bits.
 */
NOINLINE u32 owed_tiers(u32 number, u64 cur, u64 lanes)
{
	struct view *view = view_of(cur);
	struct cpu *cpu = cpu_of(number);
	u64 now = time_ns();
	struct bpf_iter_num it;
	u32 owed = 0, left;

	if (!view || !cpu || now - cpu->floors_at < FLOOR_CHECK)
		return 0;
	cpu->floors_at = now;
	left = view->floored;
	bpf_iter_num_new(&it, 0, MAX_TIERS);
	while (bpf_iter_num_next(&it)) {
		u32 tier = tierc_lowest_bit(left);
		struct saving *saving = saving_of(tier, cpu->shard);
		u64 at, passed, rate, most;

		if (!left || tier >= MAX_TIERS || !saving)
			break;
		left &= left - 1;
		at = READ_ONCE(saving->at);
		passed = now - at;
		if (!waiting(tier, cpu->shard, lanes, view, cur)) {
			/* Those that wait for other CPUs save up all the same. */
			if (view->hard_in_tier[tier] & ~lanes &&
			    waiting(tier, cpu->shard, ~0ULL, view, cur))
				continue;
			/* Nothing to save for; what was overspent is forgiven. */
			WRITE_ONCE(saving->at, now);
			WRITE_ONCE(saving->saved, 0);
			continue;
		}
		if ((s64)passed > 0 &&
		    __sync_val_compare_and_swap(&saving->at, at, now) == at) {
			/* A sixteenth more: what switching costs is charged to nobody. */
			rate = (u64)view->floors[tier] * cpus_of_shard(cpu->shard) * 17 / 16;
			if (passed > FLOOR_PERIOD)
				passed = FLOOR_PERIOD;
			most = FLOOR_PERIOD * rate / 1000;
			if (most < 2 * FLOOR_GRANT)
				most = 2 * FLOOR_GRANT;
			__sync_fetch_and_add(&saving->saved, (s64)(passed * rate / 1000));
			if (saving->saved > (s64)most)
				WRITE_ONCE(saving->saved, (s64)most);
		}
		if (saving->saved >= (s64)FLOOR_GRANT)
			owed |= 1U << tier;
	}
	bpf_iter_num_destroy(&it);
	return owed;
}

/* Takes what a thread ran off what its tier saved; a debt is at most what can be saved. */
INLINE void spend(u32 tier, u32 shard, u64 ran, u32 floor)
{
	struct saving *saving = saving_of(tier, shard);
	s64 least;

	if (!saving || !floor)
		return;
	least = -(s64)(FLOOR_PERIOD * floor * cpus_of_shard(shard) / 1000);
	if (least > -(s64)(8 * MSEC))
		least = -(s64)(8 * MSEC);
	__sync_fetch_and_add(&saving->saved, -(s64)ran);
	if (saving->saved < least)
		WRITE_ONCE(saving->saved, least);
}

#endif /* TIERC_QUEUES_H */
