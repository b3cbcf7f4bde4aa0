/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Classification as tierc_maps.h describes it: the outer maps, and the questions that are asked of
 * a thread.  Whoever includes this brings what it knows of the thread (a task, a test's packet):
 *
 *	tierc_open()        the seed of a slot, if it holds one
 *	tierc_ask_thread()  names, kind, number of cgroup components
 *	tierc_ask_cgroup()  once for each component of the cgroup's path, in order
 *	tierc_ask_missing() for the depths above the path's own
 *	tierc_rule()        the answer
 *
 * Define TIERC_PIN to have the maps pinned by their names when the object is loaded.
 */
#ifndef TIERC_CLASSIFY_H
#define TIERC_CLASSIFY_H

#include "tierc_bpf.h"

#ifdef TIERC_PIN
#define TIERC_PINNED __uint(pinning, LIBBPF_PIN_BY_NAME);
#else
#define TIERC_PINNED
#endif

/*
 * The variables keep full definitions in the type information: what is reached through pointers
 * alone becomes a forward declaration, from which no sizes can be told.
 */
#define TIERC_OUTER(table, type_, key_, value_, entries_, flags_, frozen_) \
	struct inner_##table { \
		__uint(type, BPF_MAP_TYPE_##type_); \
		__uint(max_entries, entries_); \
		__uint(map_flags, flags_); \
		__type(key, key_); \
		__type(value, value_); \
	}; \
	struct inner_##table *keep_##table; \
	key_ keep_key_##table; \
	value_ keep_value_##table; \
	struct { \
		__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS); \
		__uint(max_entries, TIERC_SLOTS); \
		__type(key, tierc_u32); \
		TIERC_PINNED \
		__array(values, struct inner_##table); \
	} tierc_##table SEC(".maps");
TIERC_TABLES(TIERC_OUTER)

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, tierc_u32);
	__type(value, struct tierc_active);
	TIERC_PINNED
} tierc_active SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, tierc_u32);
	__type(value, struct tierc_abi);
	TIERC_PINNED
} tierc_abi SEC(".maps");

/* The empty set. */
const struct tierc_vec tierc_nothing = {};

#define TIERC_NO_RULE TIERC_MAX_RULES
#define TIERC_VEC_WORDS (TIERC_MAX_RULES / 64)

/* How far the answer is. */
struct tierc_answer {
	struct tierc_vec fits;	/* rules that fit so far */
	struct tierc_vec any;	/* rules that found their name at some depth */
	struct tierc_vec groups;	/* rules that found one of their groups */
	u32 slot;
	u32 level;	/* components of the cgroup's path */
};

#define TIERC_INNER(table, answer) map_lookup(&tierc_##table, &(answer)->slot)

/* What is in force: the slot below, the generation above.  0 is no policy. */
INLINE u64 tierc_in_force(void)
{
	u32 zero = 0;
	u64 *active = map_lookup(&tierc_active, &zero);

	return active ? READ_ONCE(*active) : 0;
}

/* The head record of a slot, NULL if it holds no seed. */
INLINE const struct tierc_head *tierc_open(u32 slot)
{
	u32 zero = 0;
	void *inner = map_lookup(&tierc_head, &slot);
	const struct tierc_head *head = inner ? map_lookup(inner, &zero) : NULL;

	return head && head->seed ? head : NULL;
}

INLINE void tierc_join(struct tierc_vec *set, const struct tierc_vec *more)
{
	for (int i = 0; i < TIERC_VEC_WORDS; i++)
		set->words[i] |= more->words[i];
}

/*
 * fits &= match | dontcare; no match is the empty set.  One branch for each, not one for each word:
 * the verifier follows them all.
 */
INLINE void tierc_narrow(struct tierc_answer *answer, const struct tierc_vec *match, u32 dimension)
{
	void *dontcare = TIERC_INNER(dontcare, answer);
	const struct tierc_vec *rest = dontcare ? map_lookup(dontcare, &dimension) : NULL;

	if (!rest)
		rest = &tierc_nothing;
	if (!match)
		match = &tierc_nothing;
	for (int i = 0; i < TIERC_VEC_WORDS; i++)
		answer->fits.words[i] &= match->words[i] | rest->words[i];
}

/* The keys hold a name of TIERC_COMM_LEN bytes each; their prefix length is set here. */
INLINE void tierc_ask_thread(struct tierc_answer *answer, struct tierc_comm_key *comm,
			     struct tierc_comm_key *leader, u32 kind, u32 level)
{
	u32 bounded = level > TIERC_CGROUP_DEPTH ? TIERC_LEVEL_DEEPER : level;
	void *inner;

	__builtin_memset(&answer->fits, 0xff, sizeof(answer->fits));
	__builtin_memset(&answer->any, 0, sizeof(answer->any));
	__builtin_memset(&answer->groups, 0, sizeof(answer->groups));
	answer->level = level;
	comm->bits = leader->bits = 8 * TIERC_COMM_LEN;
	inner = TIERC_INNER(comm, answer);
	tierc_narrow(answer, inner ? map_lookup(inner, comm) : NULL, TIERC_DIM_COMM);
	inner = TIERC_INNER(leader, answer);
	tierc_narrow(answer, inner ? map_lookup(inner, leader) : NULL, TIERC_DIM_LEADER);
	inner = TIERC_INNER(kind, answer);
	tierc_narrow(answer, inner ? map_lookup(inner, &kind) : NULL, TIERC_DIM_KIND);
	inner = TIERC_INNER(level, answer);
	tierc_narrow(answer, inner ? map_lookup(inner, &bounded) : NULL, TIERC_DIM_LEVEL);
}

/*
 * One component of the path, depth 1 being the child of the root.  The key holds its name, zeros
 * behind it; a name that does not fit with its NUL has none, and is a miss.
 */
INLINE void tierc_ask_cgroup(struct tierc_answer *answer, u32 depth, struct tierc_cgroup_key *key)
{
	void *inner = TIERC_INNER(cgroup, answer);
	const struct tierc_vec *match = NULL;

	if (inner && !key->name[TIERC_CGROUP_NAME_LEN - 1]) {
		key->depth = 0;
		match = map_lookup(inner, key);
		if (match)
			tierc_join(&answer->any, match);
		key->depth = depth;
		match = depth <= TIERC_CGROUP_DEPTH ? map_lookup(inner, key) : NULL;
	}
	if (depth <= TIERC_CGROUP_DEPTH)
		tierc_narrow(answer, match, TIERC_DIM_CGROUP + depth);
}

/* The same component by its id, for rules whose cgroups only the node knows. */
INLINE void tierc_ask_group(struct tierc_answer *answer, u64 id)
{
	void *inner = TIERC_INNER(group, answer);
	u32 *number = inner ? map_lookup(inner, &id) : NULL;
	const struct tierc_vec *match;

	if (!number)
		return;
	inner = TIERC_INNER(groupvec, answer);
	match = inner ? map_lookup(inner, number) : NULL;
	if (match)
		tierc_join(&answer->groups, match);
}

INLINE void tierc_ask_missing(struct tierc_answer *answer)
{
	for (u32 depth = 1; depth <= TIERC_CGROUP_DEPTH; depth++)
		if (depth > answer->level)
			tierc_narrow(answer, NULL, TIERC_DIM_CGROUP + depth);
}

/* The numbers of bits by the top six bits of their product with the constant below. */
const u8 tierc_bits[64] = {
	0,  1,	2,  53, 3,  7,	54, 27, 4,  38, 41, 8,	34, 55, 48, 28, 62, 5,	39, 46, 44, 42,
	22, 9,	24, 35, 59, 56, 49, 18, 29, 11, 63, 52, 6,  26, 37, 40, 33, 47, 61, 45, 43, 21,
	23, 58, 17, 10, 51, 25, 36, 32, 60, 20, 57, 16, 50, 31, 19, 15, 30, 14, 13, 12,
};

/*
 * The number of the lowest set bit of a word that is not 0.  BPF has no instruction for it; this is
 * a de Bruijn sequence, for the verifier would follow each outcome of a branch.
 */
INLINE u32 tierc_lowest_bit(u64 word)
{
	u32 bit = tierc_bits[(word & -word) * 0x022fdd63cc95386dULL >> 58];

	OPAQUE(bit);
	return bit;
}

/* The first rule that fits, or TIERC_NO_RULE. */
INLINE u32 tierc_rule(struct tierc_answer *answer)
{
	tierc_narrow(answer, &answer->any, TIERC_DIM_CGROUP);
	tierc_narrow(answer, &answer->groups, TIERC_DIM_GROUP);
	for (u32 i = 0; i < TIERC_VEC_WORDS; i++) {
		u64 word = answer->fits.words[i];

		if (word)
			return 64 * i + tierc_lowest_bit(word);
	}
	return TIERC_NO_RULE;
}

/* The band of a rule; of threads that no rule has, the default one. */
INLINE u32 tierc_band_of(struct tierc_answer *answer, u32 rule, const struct tierc_head *head)
{
	void *inner = TIERC_INNER(rules, answer);
	u32 *band = rule != TIERC_NO_RULE && inner ? map_lookup(inner, &rule) : NULL;

	return band ? *band : head->default_band;
}

#endif /* TIERC_CLASSIFY_H */
