/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * From which DSQ a CPU takes its next thread.
 *
 * Its own shard comes first, so that threads stay near the memory they use.  But each shard has the
 * threads that happened to wake there, and so a crowded one would go on giving each less than another
 * one does.  So a CPU that is about to run a thread of its own shard looks at one other shard, a
 * different one each time: if a thread of the same queue waits there which is far behind in virtual
 * time, that comes first, and stays.  Where nobody has to wait, nobody is moved.
 */
#ifndef TIERC_TAKE_H
#define TIERC_TAKE_H

#include "tierc_task.h"

/* How far behind one in its own shard a thread must be that a CPU takes from another, in ms of its time. */
#define AWAY 8
/* Of those who wait there, how many are looked at for one that may run on the CPU. */
#define LOOK_AT 4
#define NO_TIME (~0ULL)
/* Who has waited for so long is run at once, whatever else there is; each CPU looks so often. */
#define STARVES (2000 * MSEC)
#define SEARCH (250 * MSEC)

/* The first thread that waits in a DSQ and may run on a CPU; NULL if there is none. */
INLINE struct task *first_for(u64 dsq, u32 number)
{
	struct task *found = NULL;
	struct bpf_iter_scx_dsq it;
	struct task_struct *p;
	u32 seen = 0;

	if (!bpf_iter_scx_dsq_new(&it, dsq, 0)) {
		while ((p = bpf_iter_scx_dsq_next(&it))) {
			struct task *t = task_of(p);

			if (t && bpf_cpumask_test_cpu(number, &p->cpus_mask)) {
				found = t;
				break;
			}
			if (++seen >= LOOK_AT)
				break;
		}
	}
	bpf_iter_scx_dsq_destroy(&it);
	return found;
}

/* The virtual time of that thread, and "more" milliseconds of its time; NO_TIME if there is none. */
NOINLINE u64 first_time(u64 dsq, u32 number, u32 more)
{
	struct task *t = first_for(dsq, number);

	return t ? t->vtime + more * t->ms : NO_TIME;
}

/*
 * The DSQ of a queue in another shard where a thread waits that is far behind a virtual time; 0 if
 * there is none in the shard that is looked at this time.
 */
NOINLINE u64 needier(u32 queue, u32 number, u64 vtime)
{
	struct cpu *cpu = cpu_of(number);
	u32 n = shards, other;
	u64 dsq, first;

	if (!cpu || n < 2 || vtime == NO_TIME)
		return 0;
	other = (cpu->looked + 1) % n;
	if (other == cpu->shard)
		other = (other + 1) % n;
	cpu->looked = other;
	dsq = dsq_of(queue, other);
	if (scx_bpf_dsq_nr_queued(dsq) <= 0)
		return 0;
	first = first_time(dsq, number, AWAY);
	return first != NO_TIME && (s64)(vtime - first) > 0 ? dsq : 0;
}

/* Takes a thread for a CPU from a DSQ. */
INLINE _Bool take_from(u64 dsq, struct cpu *cpu)
{
	s32 queued = scx_bpf_dsq_nr_queued(dsq);

	if (!dsq_move_to_local(dsq))
		return 0;
	cpu->next_share = queued > 0 ? queued : 1;
	return 1;
}

/*
 * Takes a thread for a CPU from the queue of a tier or of the bands of "lanes": from its own shard,
 * then from the others, or the other way round where somebody is far behind there.
 */
NOINLINE int take(u32 tier, u32 number, u64 lanes, u32 view)
{
	struct cpu *cpu = cpu_of(number);
	struct bpf_iter_num it;
	u32 n = shards, shard, left, own = 1, looked = 0, taken = 0;
	u64 open = lanes, from;

	if (!cpu || !n)
		return 0;
	shard = cpu->shard;
	left = n;
	bpf_iter_num_new(&it, 0, MAX_SHARDS + 2 * TIERC_MAX_BANDS);
	while (bpf_iter_num_next(&it)) {
		u32 queue = pick_queue(tier, shard, open, view, own);

		if (queue >= QUEUES) {
			if (!--left)
				break;
			shard = (shard + 1) % n;
			open = lanes;
			own = 1;
			continue;
		}
		from = dsq_of(queue, shard);
		/* Once: where it looks at other shards. */
		if (left == n && n > 1 && !looked) {
			u64 other = needier(queue, number, first_time(from, number, 0));

			looked = 1;
			if (other && take_from(other, cpu)) {
				taken = 1;
				break;
			}
		}
		if (take_from(from, cpu)) {
			taken = 1;
			break;
		}
		/* Those that wait there may not run here. */
		if (queue < MAX_TIERS)
			own = 0;
		else
			open &= ~(1ULL << ((queue - MAX_TIERS) & 63));
	}
	bpf_iter_num_destroy(&it);
	return taken;
}

/* How far the first thread that waits in a DSQ is behind a virtual time; 0 if none waits. */
NOINLINE s64 first_behind(u64 dsq, u64 vtime)
{
	struct bpf_iter_scx_dsq it;
	struct task_struct *p;
	s64 behind = 0;

	if (!bpf_iter_scx_dsq_new(&it, dsq, 0)) {
		p = bpf_iter_scx_dsq_next(&it);
		if (p)
			behind = vtime - p->scx.dsq_vtime;
	}
	bpf_iter_scx_dsq_destroy(&it);
	return behind;
}

/* Whether the first thread in a DSQ that may run on a CPU has waited for very long. */
NOINLINE int starves(u64 dsq, u32 number, u64 now)
{
	struct task *t = first_for(dsq, number);

	return t && t->queued_at && (s64)(now - t->queued_at) > (s64)STARVES;
}

/*
 * Takes a thread that starves.  Floors are those of a shard: a thread that may run on one CPU only
 * gets nothing of its tier's where a higher tier never leaves that CPU, while its like run elsewhere.
 */
NOINLINE int take_starving(u32 number, u64 cur, u64 lanes)
{
	struct view *view = view_of(cur);
	struct cpu *cpu = cpu_of(number);
	u64 now = time_ns();
	struct bpf_iter_num it;
	u32 tiers, shard, taken = 0;

	if (!view || !cpu || now - cpu->searched_at < SEARCH)
		return 0;
	cpu->searched_at = now;
	shard = cpu->searched + 1 < shards ? cpu->searched + 1 : 0;
	cpu->searched = shard;
	tiers = view->tiers;
	bpf_iter_num_new(&it, 0, MAX_TIERS + TIERC_MAX_BANDS);
	while (bpf_iter_num_next(&it)) {
		u64 dsq;

		if (tiers) {
			dsq = dsq_of(tierc_lowest_bit(tiers), shard);
			tiers &= tiers - 1;
		} else if (lanes) {
			dsq = dsq_of(queue_of_band(VIEW_OF(cur), tierc_lowest_bit(lanes)), shard);
			lanes &= lanes - 1;
		} else {
			break;
		}
		if (scx_bpf_dsq_nr_queued(dsq) > 0 && starves(dsq, number, now) &&
		    take_from(dsq, cpu)) {
			cpu->grant = 1;
			taken = 1;
			break;
		}
	}
	bpf_iter_num_destroy(&it);
	return taken;
}

#define GOES_ON 1

/*
 * Whether the thread that has just run goes on before those of its tier that wait: GOES_ON; else the
 * DSQ where the next one waits, or 0 if it is to be found in the CPU's own shard.
 */
NOINLINE u64 goes_on(struct task_struct *prev TRUSTED, u32 number, u64 lanes, u64 cur)
{
	struct task *t = task_of(prev);
	struct cpu *cpu = cpu_of(number);
	u64 ran, vtime, other;
	u32 queue;

	if (!t || !cpu)
		return 0;
	ran = (time_ns() - cpu->charged_at) * 100 / weight_of(prev, t);
	vtime = t->vtime + ran;
	queue = pick_queue(t->tier, cpu->shard, lanes, VIEW_OF(cur), 1);
	if (queue != QUEUES) {
		if (queue != t->queue || !cpu->charged_at)
			return 0;
		if (first_behind(dsq_of(queue, cpu->shard), vtime + more_burst(t, ran)) >= 0)
			return 0;
	}
	other = cpu->charged_at ? needier(t->queue, number, vtime) : 0;
	return other ? other : GOES_ON;
}

/* Takes a thread for a CPU from one of the tiers that have saved enough to run. */
NOINLINE int take_owed(u32 number, u64 cur, u64 lanes)
{
	u32 owed = owed_tiers(number, cur, lanes), taken = 0;
	struct view *view = view_of(cur);
	struct cpu *cpu = cpu_of(number);
	struct bpf_iter_num it;

	if (!owed || !view || !cpu)
		return 0;
	bpf_iter_num_new(&it, 0, MAX_TIERS);
	while (bpf_iter_num_next(&it)) {
		u32 tier = tierc_lowest_bit(owed);

		if (!owed || tier >= MAX_TIERS)
			break;
		owed &= owed - 1;
		if (take(tier, number, lanes & view->hard_in_tier[tier], VIEW_OF(cur))) {
			cpu->grant = 1;
			count(TIERC_COUNT_FLOORS);
			taken = 1;
			break;
		}
	}
	bpf_iter_num_destroy(&it);
	return taken;
}

#endif /* TIERC_TAKE_H */
