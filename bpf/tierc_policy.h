/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The policy in force, in a form that scheduling can read at once.
 *
 * A seed is copied into a view when it is first seen in force.  Every operation works with one
 * view, by the word "current"; a view that is being made is not current yet, so an operation sees
 * the old policy or the new one.  Views 0 and 1 are those of the slots, TIERC_NO_VIEW is that of
 * no policy: one band for all, fair, preempting nobody.
 */
#ifndef TIERC_POLICY_H
#define TIERC_POLICY_H

#include "tierc_classify.h"
#include "tierc_state.h"

#define MAX_TIERS 16
#define NO_VIEW TIERC_SLOTS
#define VIEWS (TIERC_SLOTS + 1)
#define MSEC 1000000ULL

/* Floor of tiers that ask for none, so that a spinner above cannot get the scheduler ejected. */
#define LEAST_FLOOR 5

struct view {
	u64 hard;	/* bands that have a hard domain */
	u64 orphans;	/* of these, those without a usable CPU: any CPU serves them */
	u64 hard_in_tier[MAX_TIERS];
	u32 floors[MAX_TIERS];	/* thousandths of CPU time */
	u32 tiers;	/* tiers with a band */
	u32 preempting;	/* tiers with a band that may preempt */
	u32 floored;	/* tiers with a floor */
	u32 n_bands;
	u32 generation;
	u32 reserved;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, VIEWS);
	__type(key, u32);
	__type(value, struct view);
} views SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, VIEWS * TIERC_MAX_BANDS);
	__type(key, u32);
	__type(value, struct tierc_band);
} view_bands SEC(".maps");

struct mask_holder {
	struct bpf_cpumask KPTR *mask;
};

/* CPUs that are online and not about to go. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct mask_holder);
} usable SEC(".maps");

u64 usable_cpus[TIERC_MAX_CPUS / 64];	/* the same, as a band has its CPUs */
u32 usable_changes;

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, TIERC_COUNTERS);
	__type(key, u32);
	__type(value, u64);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} tierc_counters SEC(".maps");

/*
 * current: the view in its lowest two bits, above them a count that changes with every policy and
 * with every CPU that comes or goes.  What was found out under another value is out of date.
 */
u64 current = NO_VIEW;
u64 adopted;	/* the word of tierc_active that "current" is about */
u32 changing;	/* someone is making a view */
u64 changed_at;
/* Queues that may hold threads queued under an earlier policy: of hard bands, and of tiers. */
u64 stale[TIERC_SLOTS];
u32 stale_tiers;

#define VIEW_OF(cur) ((u32)((cur) & 3))
#define NEXT_COUNT 4

INLINE void count(u32 what)
{
	u64 *counter = map_lookup(&tierc_counters, &what);

	if (counter)
		(*counter)++;
}

INLINE struct view *view_of(u64 cur)
{
	u32 index = VIEW_OF(cur);

	return map_lookup(&views, &index);
}

INLINE struct tierc_band *band_of(u32 view, u32 band)
{
	u32 index = view * TIERC_MAX_BANDS + band;

	return map_lookup(&view_bands, &index);
}

INLINE struct bpf_cpumask *usable_mask(void)
{
	u32 zero = 0;
	struct mask_holder *holder = map_lookup(&usable, &zero);

	return holder ? holder->mask : NULL;
}

INLINE _Bool in_domain(struct tierc_band *band, u32 cpu)
{
	u32 word = cpu / 64;

	OPAQUE(word);
	return word < TIERC_MAX_CPUS / 64 && band->cpus[word] & 1ULL << (cpu & 63);
}

/* Sets a mask to the CPUs of a band. */
INLINE void fill_mask(struct bpf_cpumask *mask, struct tierc_band *band)
{
	if (bpf_cpumask_populate) {
		bpf_cpumask_populate(mask, band->cpus, sizeof(band->cpus));
	} else {
		struct bpf_iter_num it;
		int *next;

		bpf_cpumask_clear(mask);
		bpf_iter_num_new(&it, 0, TIERC_MAX_CPUS);
		while ((next = bpf_iter_num_next(&it))) {
			u32 cpu = *next;

			if (in_domain(band, cpu))
				bpf_cpumask_set_cpu(cpu, mask);
		}
		bpf_iter_num_destroy(&it);
	}
}

/* Finds the hard bands of a view that have no usable CPU. */
NOINLINE int find_orphans(u32 index)
{
	struct view *view = map_lookup(&views, &index);
	struct bpf_iter_num it;
	u64 orphans, before;
	int *next;

	if (!view)
		return 0;
	/* A CPU may come or go meanwhile, and both look: the last to write has seen all. */
	for (int turn = 0; turn < 3; turn++) {
		before = READ_ONCE(usable_changes);
		orphans = 0;
		bpf_iter_num_new(&it, 0, TIERC_MAX_BANDS);
		while ((next = bpf_iter_num_next(&it))) {
			u32 number = *next;
			struct tierc_band *band = band_of(index, number);
			u64 common = 0;

			if (!band || !(view->hard & 1ULL << (number & 63)))
				continue;
			for (int word = 0; word < TIERC_MAX_CPUS / 64; word++)
				common |= band->cpus[word] & READ_ONCE(usable_cpus[word]);
			if (!common)
				orphans |= 1ULL << (number & 63);
		}
		bpf_iter_num_destroy(&it);
		WRITE_ONCE(view->orphans, orphans);
		if (READ_ONCE(usable_changes) == before)
			break;
	}
	return 0;
}

/* Adds a band to a view. */
INLINE void take_band(struct view *view, u32 number, struct tierc_band *to,
		      const struct tierc_band *from)
{
	u32 tier;

	*to = *from;
	if (to->tier >= MAX_TIERS)
		to->tier = MAX_TIERS - 1;
	if (!to->weight)
		to->weight = 1;
	tier = to->tier;
	OPAQUE(tier);
	tier &= MAX_TIERS - 1;
	view->tiers |= 1U << tier;
	if (to->flags & TIERC_BAND_PREEMPT)
		view->preempting |= 1U << tier;
	if (to->flags & TIERC_BAND_HARD) {
		view->hard |= 1ULL << (number & 63);
		view->hard_in_tier[tier] |= 1ULL << (number & 63);
	}
	if (view->floors[tier] < to->floor)
		view->floors[tier] = to->floor < 1000 ? to->floor : 1000;
}

/* tierc_queues.h: queues of bands begin anew with another seed. */
int forget_served(u32 slot);

/* Makes the view of a slot from its seed.  Returns whether there is one. */
NOINLINE int make_view(u32 slot, u32 generation)
{
	const struct tierc_head *head = tierc_open(slot);
	struct view *view = map_lookup(&views, &slot);
	void *bands = map_lookup(&tierc_bands, &slot);
	struct bpf_iter_num it;
	u32 top;
	int *next;

	if (!head || !view || !bands || !head->n_bands || head->n_bands > TIERC_MAX_BANDS ||
	    head->default_band >= head->n_bands)
		return 0;
	__builtin_memset(view, 0, sizeof(*view));
	forget_served(slot);
	view->n_bands = head->n_bands;
	view->generation = generation;
	bpf_iter_num_new(&it, 0, TIERC_MAX_BANDS);
	while ((next = bpf_iter_num_next(&it))) {
		u32 number = *next;
		const struct tierc_band *from = map_lookup(bands, &number);
		struct tierc_band *to = band_of(slot, number);

		/* A seed may leave numbers out: such a record is zero and has no slice. */
		if (from && to && number < view->n_bands && from->slice_ns)
			take_band(view, number, to, from);
	}
	bpf_iter_num_destroy(&it);
	if (!view->tiers)
		return 0;
	top = tierc_lowest_bit(view->tiers);
	bpf_iter_num_new(&it, 0, MAX_TIERS);
	while ((next = bpf_iter_num_next(&it))) {
		u32 tier = *next;

		if (tier >= MAX_TIERS)
			break;
		if (tier > top && view->tiers & 1U << tier && view->floors[tier] < LEAST_FLOOR)
			view->floors[tier] = LEAST_FLOOR;
		if (view->floors[tier])
			view->floored |= 1U << tier;
	}
	bpf_iter_num_destroy(&it);
	return 1;
}

/* Puts in force what tierc_active says, unless someone is at it.  Returns the new "current". */
NOINLINE u64 change_policy(void)
{
	u64 wanted = tierc_in_force(), cur, hard[TIERC_SLOTS] = {};
	u32 slot = (u32)wanted, target = NO_VIEW, tiers = 0;
	struct view *old;

	if (__sync_val_compare_and_swap(&changing, 0, 1))
		return READ_ONCE(current);
	cur = READ_ONCE(current);
	if (wanted != adopted) {
		old = view_of(cur);
		if (old)
			tiers = old->tiers;
		if (old && VIEW_OF(cur) == 0)
			hard[0] = old->hard;
		if (old && VIEW_OF(cur) == 1)
			hard[1] = old->hard;
		if (wanted && slot < TIERC_SLOTS && make_view(slot, wanted >> 32)) {
			target = slot;
			find_orphans(slot);
		}
		/* The time first: whoever clears the others looks at it afterwards. */
		WRITE_ONCE(changed_at, time_ns());
		__sync_fetch_and_or(&stale[0], hard[0]);
		__sync_fetch_and_or(&stale[1], hard[1]);
		__sync_fetch_and_or(&stale_tiers, tiers);
		/* A CPU that comes or goes counts up as well, outside this lock. */
		for (int i = 0; i < 16; i++) {
			cur = READ_ONCE(current);
			if (__sync_bool_compare_and_swap(&current, cur,
							 ((cur | 3) ^ 3) + NEXT_COUNT + target))
				break;
		}
		WRITE_ONCE(adopted, wanted);
		count(TIERC_COUNT_POLICIES);
	}
	WRITE_ONCE(changing, 0);
	return READ_ONCE(current);
}

/* What an operation works with: read it once. */
INLINE u64 policy(void)
{
	u64 cur = READ_ONCE(current);

	return tierc_in_force() == READ_ONCE(adopted) ? cur : change_policy();
}

#endif /* TIERC_POLICY_H */
