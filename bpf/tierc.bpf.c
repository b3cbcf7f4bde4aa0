/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A sched_ext scheduler for the seeds that tierc emits.
 *
 * - Threads are classified by the seed in force (tierc_classify.h), and keep the answer until
 *   something it rests on changes (tierc_task.h).
 * - Tiers run in strict order, but for their floors; inside a tier time is shared by weight
 *   (tierc_queues.h).  A band that may preempt takes the CPU of the worst tier that runs where it
 *   may run itself.
 * - Hard domains are never left, soft ones only rather than wait.  Affinity is always kept.
 * - Another seed is taken over between two operations (tierc_policy.h).  Without a seed everyone
 *   shares alike.
 *
 * It has no user-space part: the object is registered, and seeds are put in force, by bpftool.
 * Everything that it knows beyond its maps goes when it is unregistered, and the kernel schedules
 * as before.
 */
#define TIERC_PIN
#include "tierc_take.h"

/* How long queues of an earlier policy are looked at even if they are empty. */
#define STALE_FOR (100 * MSEC)
#define STALE_BATCH 32
#define NO_LLC 0xffffffffU

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct tierc_exit);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} tierc_exit SEC(".maps");

/* Per-CPU variable of the kernel: what CPUs that share a last-level cache have in common. */
extern const int sd_llc_id __attribute__((weak, section(".ksyms")));

/* --- Choosing a CPU ------------------------------------------------------------------------- */

/* Takes an idle CPU out of a mask, as near to prev as the kernel can say; negative if none is. */
NOINLINE s32 take_idle(struct task_struct *p TRUSTED, s32 prev, u64 wake_flags)
{
	struct task *t = task_of(p);
	struct bpf_cpumask *mask;
	s32 cpu = -1;

	if (!t)
		return -1;
	mask = t->mask;
	if (!mask)
		return -1;
	if (!bpf_cpumask_test_cpu(prev, cast_mask(mask)))
		wake_flags = 0;
	if (t->flags & TIERC_BAND_IDLE_CORE) {
		cpu = scx_bpf_pick_idle_cpu(cast_mask(mask), SCX_PICK_IDLE_CORE);
		if (cpu >= 0)
			return cpu;
	}
	if (scx_bpf_select_cpu_and) {
		cpu = scx_bpf_select_cpu_and(p, prev, wake_flags, cast_mask(mask), 0);
		if (cpu < 0 && t->flags & TIERC_BAND_SOFT)
			cpu = scx_bpf_select_cpu_and(p, prev, wake_flags, &p->cpus_mask, 0);
		return cpu;
	}
	if (bpf_cpumask_test_cpu(prev, cast_mask(mask)) && scx_bpf_test_and_clear_cpu_idle(prev))
		return prev;
	cpu = scx_bpf_pick_idle_cpu(cast_mask(mask), 0);
	if (cpu < 0 && t->flags & TIERC_BAND_SOFT)
		cpu = scx_bpf_pick_idle_cpu(&p->cpus_mask, 0);
	return cpu;
}

SEC("struct_ops/tierc_select_cpu")
int tierc_select_cpu(u64 *ctx)
{
	struct task_struct *p = (void *)ctx[0];
	s32 prev = (s32)ctx[1], cpu;
	u64 wake_flags = ctx[2], cur = policy();
	struct task *t = task_of(p);
	struct bpf_cpumask *mask;

	if (!t)
		return prev;
	if (outdated(p, t, cur))
		judge(p, cur);
	t->fresh = 1;
	cpu = take_idle(p, prev, wake_flags);
	if (cpu >= 0) {
		t->queued_at = time_ns();
		place(p, t, 1);
		dsq_insert(p, SCX_DSQ_LOCAL, t->slice, 0);
		return cpu;
	}
	mask = t->mask;
	if (!mask || bpf_cpumask_test_cpu(prev, cast_mask(mask)))
		return prev;
	cpu = bpf_cpumask_any_distribute(cast_mask(mask));
	return (u32)cpu < scx_bpf_nr_cpu_ids() ? cpu : prev;
}

/* --- Waiting and preempting ----------------------------------------------------------------- */

/*
 * Finds a CPU whose thread has to give way, and takes it off the list, so that the next that asks
 * gets another one: in the thread's domain, or if "beyond" wherever it may run.  Negative if there is
 * none.
 */
NOINLINE s32 find_victim(struct task_struct *p TRUSTED, s32 near, u64 cur, u32 beyond)
{
	struct task *t = task_of(p);
	struct view *view = view_of(cur);
	const struct cpumask *where;
	struct bpf_cpumask *mask;
	struct bpf_iter_num it;
	s32 found = -1;
	int *next;

	if (!t || !view)
		return -1;
	mask = t->mask;
	if (!mask)
		return -1;
	where = beyond ? &p->cpus_mask : cast_mask(mask);
	bpf_iter_num_new(&it, 0, MAX_TIERS);
	while ((next = bpf_iter_num_next(&it))) {
		u32 tier = MAX_TIERS - 1 - *next, cpu;
		struct bpf_cpumask *running;

		if (tier <= t->tier)
			break;
		if (!(view->tiers & 1U << (tier & 31)))
			continue;
		running = victims_of(tier);
		if (!running)
			continue;
		cpu = near;
		if (!bpf_cpumask_test_cpu(cpu, where) ||
		    !bpf_cpumask_test_cpu(cpu, cast_mask(running)))
			cpu = bpf_cpumask_any_and_distribute(where, cast_mask(running));
		if (cpu < scx_bpf_nr_cpu_ids() && bpf_cpumask_test_and_clear_cpu(cpu, running)) {
			found = cpu;
			break;
		}
	}
	bpf_iter_num_destroy(&it);
	return found;
}

/*
 * Whether a thread that wakes is far enough behind the one that runs, in the same queue.  If not, it
 * is at least looked at the next tick who comes first.
 */
INLINE _Bool overtakes(struct task *t, s32 number)
{
	struct cpu *cpu = cpu_of(number);
	u64 ran, now = time_ns();

	if (!cpu || cpu->queue != t->queue || cpu->granted || !cpu->charged_at)
		return 0;
	ran = now - cpu->charged_at;
	if ((s64)(cpu->vtime + ran * 100 / (cpu->weight ? cpu->weight : 1) -
		  (t->vtime + WAKE_GRANULARITY * t->ms)) > 0)
		return 1;
	cpu->asked = 1;
	return 0;
}

/*
 * A CPU that was asked to give way for one thread is on no list until that one runs.  Whoever wants it
 * in between is remembered, so that it is looked at then who comes first.
 */
INLINE void remember(u32 tier, s32 near)
{
	struct cpu *cpu = cpu_of(near);
	u32 *bits = cpu ? unmet_of(cpu->shard) : NULL, bit = 1U << (tier & 31);

	if (bits && !(READ_ONCE(*bits) & bit))
		__sync_fetch_and_or(bits, bit);
}

#define KICK_SHIFT 32
#define NO_CPU (~0ULL)

/*
 * Finds a CPU for a thread: an idle one, or one that runs something worse.  Returns its number, and
 * from bit KICK_SHIFT up how to tell it; NO_CPU if there is none.
 */
NOINLINE u64 find_cpu(struct task_struct *p TRUSTED, s32 near, u64 cur, u64 flags)
{
	struct task *t = task_of(p);
	struct bpf_cpumask *mask;
	struct tierc_stat *stat;
	s32 cpu = -1;

	if (!t)
		return NO_CPU;
	mask = t->mask;
	if (!mask)
		return NO_CPU;
	if (bpf_cpumask_test_cpu(near, cast_mask(mask)) && scx_bpf_test_and_clear_cpu_idle(near))
		cpu = near;
	if (cpu < 0)
		cpu = scx_bpf_pick_idle_cpu(cast_mask(mask), 0);
	if (cpu < 0 && t->flags & TIERC_BAND_SOFT)
		cpu = scx_bpf_pick_idle_cpu(&p->cpus_mask, 0);
	if (cpu >= 0)
		return SCX_KICK_IDLE << KICK_SHIFT | (u32)cpu;
	if (t->flags & TIERC_BAND_PREEMPT)
		cpu = find_victim(p, near, cur, 0);
	if (cpu < 0 && t->flags & TIERC_BAND_PREEMPT && t->flags & TIERC_BAND_SOFT)
		cpu = find_victim(p, near, cur, 1);
	if (cpu < 0 && flags & SCX_ENQ_WAKEUP && overtakes(t, near))
		cpu = near;
	if (cpu < 0) {
		if (t->flags & TIERC_BAND_PREEMPT)
			remember(t->tier, near);
		return NO_CPU;
	}
	stat = stat_of(t->band, generation_of(cur));
	if (stat)
		stat->preempts++;
	return SCX_KICK_PREEMPT << KICK_SHIFT | (u32)cpu;
}

INLINE void tell_cpu(u64 found)
{
	if (found != NO_CPU)
		scx_bpf_kick_cpu((u32)found, found >> KICK_SHIFT);
}

/* Whether a thread does the kernel's own work for one CPU, and no rule speaks of it. */
INLINE _Bool is_cpu_work(struct task_struct *p, struct task *t)
{
	return p->flags & PF_KTHREAD && p->nr_cpus_allowed == 1 && t->rule == TIERC_NO_RULE;
}

SEC("struct_ops/tierc_enqueue")
int tierc_enqueue(u64 *ctx)
{
	struct task_struct *p = (void *)ctx[0];
	u64 flags = ctx[1], cur = policy(), found, dsq;
	struct task *t = task_of(p);
	s32 near = scx_bpf_task_cpu(p);
	struct bpf_cpumask *mask;
	struct cpu *cpu;
	_Bool here;

	if (!t) {
		dsq_insert(p, SCX_DSQ_GLOBAL, NO_POLICY_SLICE, flags);
		return 0;
	}
	if (t->fresh ? t->epoch != cur : outdated(p, t, cur))
		judge(p, cur);
	t->fresh = 0;
	t->queued_at = time_ns();
	place(p, t, !!(flags & SCX_ENQ_WAKEUP));

	if (is_cpu_work(p, t)) {
		dsq_insert(p, SCX_DSQ_LOCAL, t->slice, flags | SCX_ENQ_PREEMPT);
		return 0;
	}
	mask = t->mask;
	here = !mask || bpf_cpumask_test_cpu(near, cast_mask(mask));
	if (here && flags & SCX_ENQ_LAST) {
		dsq_insert(p, SCX_DSQ_LOCAL, t->slice, flags);
		return 0;
	}
	if (!here && mask) {
		u32 any = bpf_cpumask_any_distribute(cast_mask(mask));

		if (any < scx_bpf_nr_cpu_ids())
			near = any;
	}
	cpu = cpu_of(near);
	dsq = dsq_of(t->queue, cpu ? cpu->shard : 0);
	found = find_cpu(p, near, cur, flags);
	/*
	 * Onto the CPU where it is, past its queue, if that has nobody who was there before: that
	 * spares asking the CPU to come for it.
	 */
	if (here && (u32)found == (u32)near && found != NO_CPU && scx_bpf_dsq_nr_queued(dsq) <= 0) {
		if (found >> KICK_SHIFT == SCX_KICK_PREEMPT)
			flags |= SCX_ENQ_PREEMPT;
		dsq_insert(p, SCX_DSQ_LOCAL, t->slice, flags);
		return 0;
	}
	dsq_insert_vtime(p, dsq, t->slice, order_of(t), flags);
	/* A CPU that is not its own may have gone idle meanwhile. */
	if (found == NO_CPU && !here)
		found = SCX_KICK_IDLE << KICK_SHIFT | (u32)near;
	tell_cpu(found);
	return 0;
}

/* --- Giving CPUs threads -------------------------------------------------------------------- */

/* The DSQ where a thread that waits belongs. */
NOINLINE u64 dsq_for(struct task_struct *p TRUSTED, u64 cur)
{
	struct cpu *cpu = cpu_of(scx_bpf_task_cpu(p));
	struct task *t = task_of(p);

	if (!t)
		return 0;
	if (outdated(p, t, cur)) {
		judge(p, cur);
		place(p, t, 0);
	}
	return dsq_of(t->queue, cpu ? cpu->shard : 0);
}

NOINLINE int after_move(struct task_struct *p TRUSTED, u64 cur)
{
	count(TIERC_COUNT_MOVED);
	tell_cpu(find_cpu(p, scx_bpf_task_cpu(p), cur, 0));
	return 0;
}

/* Moves threads that wait in one DSQ to where the policy in force has them.  Returns how many. */
NOINLINE u32 move_stale_dsq(u64 dsq, u64 cur)
{
	struct bpf_iter_scx_dsq it;
	struct task_struct *p;
	u32 moved = 0;

	if (bpf_iter_scx_dsq_new(&it, dsq, 0)) {
		bpf_iter_scx_dsq_destroy(&it);
		return 0;
	}
	while ((p = bpf_iter_scx_dsq_next(&it))) {
		u64 to = dsq_for(p, cur);
		struct task *t = task_of(p);

		if (!t || moved >= STALE_BATCH)
			break;
		if (to == dsq)
			continue;
		if (dsq_move(&it, p, to, t->slice, order_of(t)))
			after_move(p, cur);
		moved++;
	}
	bpf_iter_scx_dsq_destroy(&it);
	return moved;
}

/* Empties the queues of hard bands of an earlier policy in a slot, as far as one operation may. */
NOINLINE int move_stale(u32 slot, u64 cur)
{
	u64 since = READ_ONCE(changed_at), left, done;
	struct view *view = view_of(cur);
	struct bpf_iter_num it;
	u32 shard = 0;

	OPAQUE(slot);
	if (!view || slot >= TIERC_SLOTS)
		return 0;
	left = READ_ONCE(stale[slot]);
	/* Those in use again: what waits there is judged when it runs. */
	done = slot == VIEW_OF(cur) ? left & view->hard : 0;
	left &= ~done;
	bpf_iter_num_new(&it, 0, TIERC_MAX_BANDS * MAX_SHARDS);
	while (bpf_iter_num_next(&it)) {
		u64 dsq = dsq_of(queue_of_band(slot, tierc_lowest_bit(left)), shard);

		if (!left)
			break;
		if (scx_bpf_dsq_nr_queued(dsq) > 0) {
			move_stale_dsq(dsq, cur);
			break;
		}
		shard++;
		if (shard < READ_ONCE(shards))
			continue;
		shard = 0;
		if (time_ns() - since > STALE_FOR)
			done |= left & -left;
		left &= left - 1;
	}
	bpf_iter_num_destroy(&it);
	if (!done)
		return 0;
	__sync_fetch_and_and(&stale[slot], ~done);
	if (READ_ONCE(changed_at) != since)
		__sync_fetch_and_or(&stale[slot], done);
	return 0;
}

/* Whether a thread is outside its soft domain although a CPU there idles. */
NOINLINE int is_away(struct task_struct *p TRUSTED, u32 number)
{
	struct task *t = task_of(p);
	const struct cpumask *idle;
	struct bpf_cpumask *mask;
	int away;

	if (!t || !(t->flags & TIERC_BAND_SOFT))
		return 0;
	mask = t->mask;
	if (!mask || bpf_cpumask_test_cpu(number, cast_mask(mask)) || !scx_bpf_get_idle_cpumask ||
	    !scx_bpf_put_idle_cpumask)
		return 0;
	idle = scx_bpf_get_idle_cpumask();
	away = bpf_cpumask_intersects(cast_mask(mask), idle);
	scx_bpf_put_idle_cpumask(idle);
	return away;
}

/* Lists a CPU under the tier it runs; one that runs on a floor is under none. */
INLINE void list_victim(struct cpu *cpu, u32 number, u32 tier, _Bool listed)
{
	struct bpf_cpumask *running = victims_of(cpu->tier);

	if (running && (cpu->tier != tier || !listed) &&
	    bpf_cpumask_test_cpu(number, cast_mask(running)))
		bpf_cpumask_clear_cpu(number, running);
	cpu->tier = tier;
	running = victims_of(tier);
	if (running && listed && !bpf_cpumask_test_cpu(number, cast_mask(running)))
		bpf_cpumask_set_cpu(number, running);
}

/* Lets the thread that has just run go on: nobody who waits comes first, so it is on no floor. */
INLINE void keep(struct task_struct *prev, struct task *t, struct cpu *cpu, u32 number)
{
	cpu->granted = 0;
	list_victim(cpu, number, t->tier, 1);
	set_slice(prev, t->slice);
}

SEC("struct_ops/tierc_dispatch")
int tierc_dispatch(u64 *ctx)
{
	u32 number = (u32)ctx[0], tiers, best = MAX_TIERS;
	struct task_struct *prev = (void *)ctx[1];
	u64 cur = policy(), lanes;
	struct view *view = view_of(cur);
	struct cpu *cpu = cpu_of(number);
	struct task *t = NULL;
	struct bpf_cpumask *mask;
	struct bpf_iter_num it;

	if (!view || !cpu)
		return 0;
	if (READ_ONCE(stale[0]))
		move_stale(0, cur);
	if (READ_ONCE(stale[1]))
		move_stale(1, cur);
	lanes = lanes_of(number, cur);
	tiers = view->tiers | READ_ONCE(stale_tiers);
	if (prev && prev->scx.flags & SCX_TASK_QUEUED) {
		t = task_of(prev);
		if (t && !outdated(prev, t, cur)) {
			mask = t->mask;
			if (mask && (t->flags & TIERC_BAND_SOFT ?
					     !is_away(prev, number) :
					     bpf_cpumask_test_cpu(number, cast_mask(mask)))) {
				best = t->tier;
				tiers |= 1U << (best & 31);
			}
		}
	}
	if (take_starving(number, cur, lanes) || take_owed(number, cur, lanes))
		return 0;
	bpf_iter_num_new(&it, 0, MAX_TIERS);
	while (bpf_iter_num_next(&it)) {
		u32 tier = tierc_lowest_bit(tiers);
		u64 own;

		if (!tiers || tier >= MAX_TIERS)
			break;
		tiers &= tiers - 1;
		own = lanes & view->hard_in_tier[tier];
		if (tier == best && t && prev) {
			u64 next = goes_on(prev, number, own, cur);

			if (next == GOES_ON) {
				keep(prev, t, cpu, number);
				break;
			}
			if (next && take_from(next, cpu))
				break;
		}
		if (take(tier, number, own, VIEW_OF(cur)))
			break;
		if (tier == best && t && prev) {
			/* Whoever waits may not run here. */
			keep(prev, t, cpu, number);
			break;
		}
	}
	bpf_iter_num_destroy(&it);
	return 0;
}

/* --- Running -------------------------------------------------------------------------------- */

SEC("struct_ops/tierc_running")
int tierc_running(u64 *ctx)
{
	struct task_struct *p = (void *)ctx[0];
	u64 cur = READ_ONCE(current), now = time_ns(), waited, start, *clock;
	struct task *t = task_of(p);
	u32 number = this_cpu(), queue, better, *bits;
	struct cpu *cpu = cpu_of(number);
	struct tierc_stat *stat;

	if (!t || !cpu)
		return 0;
	t->fresh = 0;
	queue = t->queue;
	clock = map_lookup(&clocks, &queue);
	/* One that goes first because it runs briefly is ahead of the others' time. */
	start = order_of(t) - BURST * t->ms;
	if (clock && (s64)(start - *clock) > 0)
		WRITE_ONCE(*clock, start);
	cpu->charged_at = now;
	cpu->vtime = t->vtime;
	cpu->weight = weight_of(p, t);
	cpu->queue = t->queue;
	cpu->granted = cpu->grant;
	cpu->grant = 0;
	cpu->share = cpu->next_share ? cpu->next_share : 1;
	cpu->next_share = 0;
	cpu->asked = 0;
	list_victim(cpu, number, t->tier, !cpu->granted);
	stat = stat_of(t->band, generation_of(cur));
	if (stat) {
		waited = t->queued_at ? now - t->queued_at : 0;
		stat->runs++;
		stat->wait_ns += waited;
		if (waited > stat->wait_max_ns)
			stat->wait_max_ns = waited;
	}
	t->queued_at = 0;
	tell(p, t, cur, number);
	if (cpu->granted) {
		set_slice(p, FLOOR_GRANT);
	} else if (t->sent_back != cur && t->epoch != cur) {
		/*
		 * It may belong elsewhere now: let it be enqueued again.  But once only, for the
		 * kernel does not ask about every thread (one that may not migrate just now).
		 */
		t->sent_back = cur;
		scx_bpf_kick_cpu(number, SCX_KICK_PREEMPT);
	} else if (!is_cpu_work(p, t)) {
		bits = unmet_of(cpu->shard);
		better = bits ? READ_ONCE(*bits) & ((1U << (t->tier & 31)) - 1) : 0;
		if (better && who_waits(number, better, cur)) {
			/* Once: those who wait may be allowed on other CPUs only. */
			__sync_fetch_and_and(bits, ~better);
			scx_bpf_kick_cpu(number, SCX_KICK_PREEMPT);
		}
	}
	return 0;
}

SEC("struct_ops/tierc_stopping")
int tierc_stopping(u64 *ctx)
{
	struct task_struct *p = (void *)ctx[0];
	struct task *t = task_of(p);
	struct cpu *cpu = cpu_of(this_cpu());

	if (!t || !cpu)
		return 0;
	charge(p, t, cpu, READ_ONCE(current), time_ns());
	cpu->charged_at = 0;
	cpu->granted = 0;
	return 0;
}

/* Forgets the tiers of earlier policies once nobody waits there. */
NOINLINE int clear_stale_tiers(void)
{
	u64 since = READ_ONCE(changed_at);
	u32 left = READ_ONCE(stale_tiers), done = left, shard = 0;
	struct bpf_iter_num it;

	if (time_ns() - since <= STALE_FOR)
		return 0;
	bpf_iter_num_new(&it, 0, MAX_TIERS * MAX_SHARDS);
	while (bpf_iter_num_next(&it)) {
		if (!left)
			break;
		if (scx_bpf_dsq_nr_queued(dsq_of(tierc_lowest_bit(left), shard)) > 0)
			done &= ~(left & -left);
		shard++;
		if (shard < READ_ONCE(shards))
			continue;
		shard = 0;
		left &= left - 1;
	}
	bpf_iter_num_destroy(&it);
	__sync_fetch_and_and(&stale_tiers, ~done);
	if (READ_ONCE(changed_at) != since)
		__sync_fetch_and_or(&stale_tiers, done);
	return 0;
}

SEC("struct_ops/tierc_tick")
int tierc_tick(u64 *ctx)
{
	struct task_struct *p = (void *)ctx[0];
	u64 cur = policy();
	struct task *t = task_of(p);
	u32 number = this_cpu(), better, *bits;
	struct cpu *cpu = cpu_of(number);
	struct view *view = view_of(cur);

	if (!t || !cpu || !view)
		return 0;
	charge(p, t, cpu, cur, time_ns());
	if (outdated(p, t, cur)) {
		set_slice(p, 0);
		return 0;
	}
	if (cpu->granted)
		return 0;
	if (cpu->asked || is_away(p, number)) {
		cpu->asked = 0;
		set_slice(p, 0);
		return 0;
	}
	/* Better work that waits here although nobody was asked to give way. */
	better = view->preempting & ((1U << (t->tier & 31)) - 1);
	if (who_waits(number, better, cur)) {
		set_slice(p, 0);
	} else {
		bits = unmet_of(cpu->shard);
		if (bits && READ_ONCE(*bits) & better)
			__sync_fetch_and_and(bits, ~better);
	}
	if (READ_ONCE(stale_tiers))
		clear_stale_tiers();
	return 0;
}

/* --- Threads come, go and change ------------------------------------------------------------ */

SEC("struct_ops/tierc_set_cpumask")
int tierc_set_cpumask(u64 *ctx)
{
	struct task *t = task_of((void *)ctx[0]);

	if (t)
		t->epoch = 0;
	return 0;
}

SEC("struct_ops/tierc_enable")
int tierc_enable(u64 *ctx)
{
	struct task *t = task_of((void *)ctx[0]);

	if (t) {
		t->ms = 0;
		t->epoch = 0;
	}
	return 0;
}

SEC("struct_ops.s/tierc_init_task")
int tierc_init_task(u64 *ctx)
{
	struct task_struct *p = (void *)ctx[0];
	struct task *t = task_storage_get(&tasks, p, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);
	struct bpf_cpumask *mask;

	if (!t)
		return -12; /* ENOMEM */
	/* Until it is judged: the kernel does not ask about every thread before it runs. */
	t->rule = TIERC_NO_RULE;
	t->band = TIERC_STAT_NO_POLICY;
	t->slice = NO_POLICY_SLICE;
	t->weight = 100;
	mask = bpf_cpumask_create();
	if (!mask)
		return -12;
	mask = kptr_xchg(&t->mask, mask);
	if (mask)
		bpf_cpumask_release(mask);
	return 0;
}

/* --- CPUs come and go ----------------------------------------------------------------------- */

/* The first CPU of those that share a CPU's last-level cache, or what else the kernel calls it. */
INLINE u32 llc_of(u32 cpu)
{
	const int *id = &sd_llc_id ? per_cpu_ptr(&sd_llc_id, cpu) : NULL;

	return id ? (u32)*id : 0;
}

u32 llcs;	/* in memory: what a loop counts in a register, the verifier follows to its end */

/* The lowest CPU known so far that shares a CPU's last-level cache. */
INLINE u32 lowest_of(u32 number, u32 cpus_in_all)
{
	u32 llc = llc_of(number);

	/* The kernel calls a cache by its first CPU, or counts them: then neighbours tell. */
	if (llc < number && llc < cpus_in_all && llc_of(llc) == llc)
		return llc;
	if (number && llc_of(number - 1) == llc)
		return number - 1;
	return number;
}

/*
 * Numbers the last-level caches by their lowest CPU and shares them out to the shards, once: what waits
 * in a shard stays there, and the kernel says of a CPU that is offline that it has a cache of its own.
 * One that comes later is counted to the cache of the one before it.
 */
NOINLINE int share_out(void)
{
	u32 cpus_in_all = scx_bpf_nr_cpu_ids();
	struct bpf_iter_num it;
	int *next;

	WRITE_ONCE(llcs, 0);
	bpf_iter_num_new(&it, 0, TIERC_MAX_CPUS);
	while ((next = bpf_iter_num_next(&it))) {
		u32 number = *next, lowest;
		struct cpu *cpu = cpu_of(number), *first;

		if (number >= cpus_in_all || !cpu)
			break;
		lowest = lowest_of(number, cpus_in_all);
		if (!cpu->usable && number)
			lowest = number - 1;
		first = cpu_of(lowest);
		if (lowest != number && first) {
			cpu->llc = first->llc;
		} else {
			cpu->llc = READ_ONCE(llcs);
			WRITE_ONCE(llcs, cpu->llc + 1);
		}
	}
	bpf_iter_num_destroy(&it);
	shards = llcs < MAX_SHARDS ? llcs : MAX_SHARDS;
	bpf_iter_num_new(&it, 0, TIERC_MAX_CPUS);
	while ((next = bpf_iter_num_next(&it))) {
		u32 number = *next, shard, all = READ_ONCE(llcs);
		struct cpu *cpu = cpu_of(number);

		if (number >= cpus_in_all || !cpu)
			break;
		shard = all ? cpu->llc * READ_ONCE(shards) / all : 0;
		OPAQUE(shard);
		if (shard >= MAX_SHARDS)
			shard = MAX_SHARDS - 1;
		cpu->shard = shard;
		if (cpu->usable)
			count_cpu(shard, 1);
	}
	bpf_iter_num_destroy(&it);
	return 0;
}

/* Takes note of a CPU that has come or is about to go. */
static NOINLINE void set_usable(u32 number, _Bool is)
{
	struct cpu *cpu = cpu_of(number);
	u64 bit = 1ULL << (number & 63);
	struct bpf_cpumask *mask;
	u32 word = number / 64;

	OPAQUE(word);
	if (!cpu || word >= TIERC_MAX_CPUS / 64)
		return;
	cpu->usable = is;
	bpf_rcu_read_lock();
	mask = usable_mask();
	if (mask && is)
		bpf_cpumask_set_cpu(number, mask);
	else if (mask)
		bpf_cpumask_clear_cpu(number, mask);
	bpf_rcu_read_unlock();
	if (is)
		__sync_fetch_and_or(&usable_cpus[word], bit);
	else
		__sync_fetch_and_and(&usable_cpus[word], ~bit);
	__sync_fetch_and_add(&usable_changes, 1);
}

INLINE void topology_changed(u32 number, _Bool is)
{
	struct cpu *cpu = cpu_of(number);

	if (cpu && !cpu->usable == is)
		count_cpu(cpu->shard, is ? 1 : -1);
	set_usable(number, is);
	find_orphans(0);
	find_orphans(1);
	__sync_fetch_and_add(&current, NEXT_COUNT);
	count(TIERC_COUNT_HOTPLUG);
}

SEC("struct_ops.s/tierc_cpu_online")
int tierc_cpu_online(u64 *ctx)
{
	topology_changed((u32)ctx[0], 1);
	return 0;
}

SEC("struct_ops.s/tierc_cpu_offline")
int tierc_cpu_offline(u64 *ctx)
{
	topology_changed((u32)ctx[0], 0);
	return 0;
}

/* --- Start and end -------------------------------------------------------------------------- */

static NOINLINE int new_mask(struct mask_holder *holder)
{
	struct bpf_cpumask *mask;

	if (!holder)
		return -22; /* EINVAL */
	mask = bpf_cpumask_create();
	if (!mask)
		return -12;
	mask = kptr_xchg(&holder->mask, mask);
	if (mask)
		bpf_cpumask_release(mask);
	return 0;
}

static NOINLINE int make_masks(void)
{
	struct bpf_iter_num it;
	int *next, failed = 0;

	bpf_iter_num_new(&it, 0, MAX_TIERS + 1);
	while ((next = bpf_iter_num_next(&it))) {
		u32 number = *next, zero = 0;

		if (number < MAX_TIERS)
			failed = new_mask(map_lookup(&victims, &number));
		else
			failed = new_mask(map_lookup(&usable, &zero));
		if (failed)
			break;
	}
	bpf_iter_num_destroy(&it);
	return failed;
}

static NOINLINE int make_queues(void)
{
	struct bpf_iter_num it;
	int *next, failed = 0;

	bpf_iter_num_new(&it, 0, QUEUES * MAX_SHARDS);
	while ((next = bpf_iter_num_next(&it))) {
		failed = scx_bpf_create_dsq(DSQ_BASE + *next, -1);
		if (failed)
			break;
	}
	bpf_iter_num_destroy(&it);
	return failed;
}

static NOINLINE void find_cpus(void)
{
	const struct cpumask *online = scx_bpf_get_online_cpumask();
	struct bpf_iter_num it;
	int *next;

	bpf_iter_num_new(&it, 0, TIERC_MAX_CPUS);
	while ((next = bpf_iter_num_next(&it))) {
		u32 number = *next;

		if (number >= scx_bpf_nr_cpu_ids())
			break;
		if (bpf_cpumask_test_cpu(number, online))
			set_usable(number, 1);
	}
	bpf_iter_num_destroy(&it);
	scx_bpf_put_cpumask(online);
}

SEC("struct_ops.s/tierc_init")
int tierc_init(u64 *ctx)
{
	static const struct tierc_abi abi = TIERC_ABI_INIT;
	static const struct tierc_exit none = {};
	u32 zero = 0, no_view = NO_VIEW;
	struct view *view = map_lookup(&views, &no_view);
	int failed;

	(void)ctx;
	if (!view || scx_bpf_nr_cpu_ids() > TIERC_MAX_CPUS)
		return -22;
	view->tiers = 1;
	view->n_bands = 1;
	map_update(&tierc_abi, &zero, &abi, 0);
	map_update(&tierc_exit, &zero, &none, 0);
	failed = make_masks();
	if (failed)
		return failed;
	find_cpus();
	share_out();
	return make_queues();
}

SEC("struct_ops/tierc_exit")
int tierc_ended(u64 *ctx)
{
	struct scx_exit_info *info = (void *)ctx[0];
	struct tierc_exit *end;
	u32 zero = 0;

	end = map_lookup(&tierc_exit, &zero);
	if (!end)
		return 0;
	end->kind = info->kind;
	end->code = info->exit_code;
	read_kernel_str(end->reason, sizeof(end->reason), info->reason);
	read_kernel_str(end->message, sizeof(end->message), info->msg);
	return 0;
}

SEC(".struct_ops.link")
struct sched_ext_ops tierc = {
	.select_cpu = (void *)tierc_select_cpu,
	.enqueue = (void *)tierc_enqueue,
	.dispatch = (void *)tierc_dispatch,
	.tick = (void *)tierc_tick,
	.running = (void *)tierc_running,
	.stopping = (void *)tierc_stopping,
	.set_cpumask = (void *)tierc_set_cpumask,
	.init_task = (void *)tierc_init_task,
	.enable = (void *)tierc_enable,
	.cpu_online = (void *)tierc_cpu_online,
	.cpu_offline = (void *)tierc_cpu_offline,
	.init = (void *)tierc_init,
	.exit = (void *)tierc_ended,
	/* Threads that run alone are asked as well, they may have to go elsewhere; so are dying ones. */
	.flags = SCX_OPS_ENQ_LAST | SCX_OPS_ENQ_EXITING,
	.timeout_ms = 30000,
	.name = "tierc",
};

char LICENSE[] SEC("license") = "GPL";
