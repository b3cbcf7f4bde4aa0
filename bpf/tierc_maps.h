/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The map ABI between compiled seeds and a sched_ext scheduler.
 *
 * Everything both sides must agree on is here: structures, table geometry, map names, flag bits,
 * limits, and the version.  The header includes nothing and uses only built-in types, so that it
 * compiles as BPF C (with or without vmlinux.h) and as host C11.
 *
 * All numbers are little-endian.  No structure has hidden padding: every byte belongs to a field,
 * and the assertions below hold that.  Unused bytes of names are zero.
 *
 * WHAT A THREAD IS ASKED
 *
 * Rules are ordered and numbered from 0; the first that fits has the thread.  A set of rules is a
 * struct tierc_vec, rule N being bit N % 64 of word N / 64.  Each dimension of a thread is looked
 * up by itself and yields the set of rules which *constrain* that dimension and which this thread
 * satisfies (a miss yields the empty set).  With the don't-care sets of the table "dontcare"
 * (rules that do not constrain the dimension):
 *
 *	fits = AND over every dimension D of (match[D] | dontcare[D])
 *
 * The lowest set bit R of fits is the rule and rules[R] its band.  With no bit set the band is
 * head.default_band.  Bits of rules that do not exist are zero in every don't-care set.
 *
 *   COMM      table "comm", the thread's name.  LPM trie; look up with bits = 128 and the sixteen
 *             bytes of task_struct.comm as they are (what follows the NUL does not matter).  An
 *             exact name is stored with its NUL, bits = 8 * (length + 1); "starts with" is stored
 *             as bits = 8 * length.  The trie answers with the longest entry only, so every entry
 *             already holds the bits of all entries that are prefixes of it.
 *   LEADER    table "leader", the same for the name of the thread-group leader.
 *   KIND      table "kind", TIERC_KIND_KERNEL for PF_KTHREAD, otherwise TIERC_KIND_USER.
 *   LEVEL     table "level", the number of components of the path of the thread's cgroup on the
 *             cgroup v2 hierarchy: 0 for the root, 1 to 8, TIERC_LEVEL_DEEPER for all above.
 *             Names at fixed depths alone cannot tell a/b from a/b/c; with the level, "a/b" is
 *             a at depth 1, b at depth 2 and level == 2; "a/b and all below" has level >= 2.
 *   CGROUP+d  table "cgroup" with depth d = 1 to 8: the name of the ancestor (or self) at that
 *             depth, the child of the root having depth 1.  Above the thread's own depth: a miss.
 *   CGROUP+0  table "cgroup" with depth 0: the OR over the names of all ancestors and self,
 *             whatever their depth, to at most TIERC_CGROUP_WALK levels.
 *             A name that does not fit with its NUL (over 63 bytes) is a miss.  It must not be
 *             cut: a cut name could equal one that a rule asks for.
 *   GROUP     table "group" from the cgroup's id to a group number, then "groupvec" from that to
 *             rules; the OR over all ancestors and self.  Both are filled at run time, for rules
 *             whose cgroups only the node knows; they are empty in a seed.  Numbers belong to one
 *             slot: they mean nothing for the seed in the other.
 *
 * SLOTS
 *
 * Every table is an ARRAY_OF_MAPS with TIERC_SLOTS inner maps, pinned as TIERC_MAP_PREFIX plus
 * the table's name.  "tierc_active" says which slot is in force.  It is one aligned 8-byte value:
 * read it once for each operation, and use that slot for every look-up of the operation.  The
 * generation changes with every change of slot or content; what is cached for a thread is good
 * while it is equal.  Bit 0 of the generation is the slot, so it never stays equal over a flip.
 * {0, 0}, an empty slot and a missing "head" mean: no policy, built-in defaults.
 */
#ifndef TIERC_MAPS_H
#define TIERC_MAPS_H

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "seeds are little-endian"
#endif

typedef unsigned short tierc_u16;
typedef unsigned int tierc_u32;
typedef unsigned long long tierc_u64;

/* "TIRC" in memory */
#define TIERC_ABI_MAGIC 0x43524954U
#define TIERC_ABI_VERSION 1U

#define TIERC_SLOTS 2
#define TIERC_MAX_RULES 256
#define TIERC_MAX_BANDS 64
#define TIERC_MAX_CPUS 1024
#define TIERC_MAX_GROUPS 256
#define TIERC_MAX_GROUP_CGROUPS 4096
#define TIERC_COMM_LEN 16	/* TASK_COMM_LEN: 15 bytes and the NUL */
#define TIERC_CGROUP_NAME_LEN 64	/* 63 bytes and the NUL */
#define TIERC_CGROUP_DEPTH 8	/* depths that have a dimension of their own */
#define TIERC_CGROUP_WALK 128	/* ancestors asked for "at any depth" */
#define TIERC_LEVEL_DEEPER (TIERC_CGROUP_DEPTH + 1)
#define TIERC_LEVELS (TIERC_LEVEL_DEEPER + 1)
/* One name each for every rule; every depth of every rule. */
#define TIERC_MAX_COMM_KEYS TIERC_MAX_RULES
#define TIERC_MAX_CGROUP_KEYS (TIERC_MAX_RULES * TIERC_CGROUP_DEPTH)

enum tierc_kind {
	TIERC_KIND_USER = 0,
	TIERC_KIND_KERNEL = 1,
	TIERC_KINDS = 2,
};

/* Index into the table "dontcare". */
enum tierc_dimension {
	TIERC_DIM_COMM = 0,
	TIERC_DIM_LEADER = 1,
	TIERC_DIM_KIND = 2,
	TIERC_DIM_LEVEL = 3,
	TIERC_DIM_GROUP = 4,
	TIERC_DIM_CGROUP = 5,	/* + depth; + 0 is "at any depth" */
	TIERC_DIMS = TIERC_DIM_CGROUP + TIERC_CGROUP_DEPTH + 1,
};

/* struct tierc_band.flags; without HARD and SOFT the CPUs are no domain. */
enum tierc_band_flag {
	TIERC_BAND_PREEMPT = 1 << 0,	/* may preempt a worse band's thread */
	TIERC_BAND_HARD = 1 << 1,	/* never run outside cpus */
	TIERC_BAND_SOFT = 1 << 2,	/* prefer cpus, take others rather than wait */
	TIERC_BAND_IDLE_CORE = 1 << 3,	/* a wholly idle core before an idle sibling */
};

/* A set of rules. */
struct tierc_vec {
	tierc_u64 words[TIERC_MAX_RULES / 64];
};

/* Key of "comm" and "leader"; bits comes first because LPM tries want it there. */
struct tierc_comm_key {
	tierc_u32 bits;
	char name[TIERC_COMM_LEN];
};

/* Key of "cgroup". */
struct tierc_cgroup_key {
	tierc_u32 depth;
	char name[TIERC_CGROUP_NAME_LEN];
};

/* How threads of a band are scheduled. */
struct tierc_band {
	tierc_u64 slice_ns;	/* time slice */
	tierc_u32 weight;	/* share inside the tier */
	tierc_u32 floor;	/* CPU time kept under contention, in thousandths */
	tierc_u16 tier;		/* 0 is the highest */
	tierc_u16 order;	/* inside the tier, 0 first */
	tierc_u32 flags;	/* enum tierc_band_flag */
	tierc_u64 cpus[TIERC_MAX_CPUS / 64];	/* CPU N is bit N % 64 of word N / 64 */
};

/* What a slot holds; the only entry of "head". */
struct tierc_head {
	tierc_u32 n_rules;	/* highest rule number + 1 */
	tierc_u32 n_bands;	/* highest band number + 1 */
	tierc_u32 default_band;	/* of threads that no rule has */
	tierc_u32 seed;		/* identifies the content of the slot; never 0 */
};

/* The only entry of "tierc_active". */
struct tierc_active {
	tierc_u32 slot;
	tierc_u32 generation;
} __attribute__((aligned(8)));

/* The only entry of "tierc_abi": what the running scheduler was built for. */
struct tierc_abi {
	tierc_u32 magic;
	tierc_u32 version;
	tierc_u32 vec_size;
	tierc_u32 comm_key_size;
	tierc_u32 cgroup_key_size;
	tierc_u32 band_size;
	tierc_u32 head_size;
	tierc_u32 active_size;
	tierc_u32 slots;
	tierc_u32 max_rules;
	tierc_u32 max_bands;
	tierc_u32 max_cpus;
	tierc_u32 max_groups;
	tierc_u32 cgroup_depth;
	tierc_u32 cgroup_walk;
	tierc_u32 dims;
};

#define TIERC_ABI_INIT \
	{ \
		.magic = TIERC_ABI_MAGIC, \
		.version = TIERC_ABI_VERSION, \
		.vec_size = sizeof(struct tierc_vec), \
		.comm_key_size = sizeof(struct tierc_comm_key), \
		.cgroup_key_size = sizeof(struct tierc_cgroup_key), \
		.band_size = sizeof(struct tierc_band), \
		.head_size = sizeof(struct tierc_head), \
		.active_size = sizeof(struct tierc_active), \
		.slots = TIERC_SLOTS, \
		.max_rules = TIERC_MAX_RULES, \
		.max_bands = TIERC_MAX_BANDS, \
		.max_cpus = TIERC_MAX_CPUS, \
		.max_groups = TIERC_MAX_GROUPS, \
		.cgroup_depth = TIERC_CGROUP_DEPTH, \
		.cgroup_walk = TIERC_CGROUP_WALK, \
		.dims = TIERC_DIMS, \
	}

#define TIERC_MAP_PREFIX "tierc_"
#define TIERC_MAP_ACTIVE "tierc_active"	/* ARRAY, 1 entry, struct tierc_active */
#define TIERC_MAP_ABI "tierc_abi"	/* ARRAY, 1 entry, struct tierc_abi */

/* Map flags; BPF_F_NO_PREALLOC, which LPM tries require. */
#define TIERC_F_NO_PREALLOC 1U

/*
 * Geometry of the inner maps: X(name, type, key, value, max_entries, flags, frozen).
 * type is what follows BPF_MAP_TYPE_.  Fixed, so that any seed can replace any other: the kernel
 * refuses to put an inner map of other geometry into a slot.  frozen: user space cannot change
 * the map once it is filled.
 */
#define TIERC_TABLES(X) \
	X(comm, LPM_TRIE, struct tierc_comm_key, struct tierc_vec, TIERC_MAX_COMM_KEYS, \
	  TIERC_F_NO_PREALLOC, 1) \
	X(leader, LPM_TRIE, struct tierc_comm_key, struct tierc_vec, TIERC_MAX_COMM_KEYS, \
	  TIERC_F_NO_PREALLOC, 1) \
	X(cgroup, HASH, struct tierc_cgroup_key, struct tierc_vec, TIERC_MAX_CGROUP_KEYS, \
	  TIERC_F_NO_PREALLOC, 1) \
	X(kind, ARRAY, tierc_u32, struct tierc_vec, TIERC_KINDS, 0, 1) \
	X(level, ARRAY, tierc_u32, struct tierc_vec, TIERC_LEVELS, 0, 1) \
	X(dontcare, ARRAY, tierc_u32, struct tierc_vec, TIERC_DIMS, 0, 1) \
	X(rules, ARRAY, tierc_u32, tierc_u32, TIERC_MAX_RULES, 0, 1) \
	X(bands, ARRAY, tierc_u32, struct tierc_band, TIERC_MAX_BANDS, 0, 1) \
	X(head, ARRAY, tierc_u32, struct tierc_head, 1, 0, 1) \
	X(group, HASH, tierc_u64, tierc_u32, TIERC_MAX_GROUP_CGROUPS, TIERC_F_NO_PREALLOC, 0) \
	X(groupvec, ARRAY, tierc_u32, struct tierc_vec, TIERC_MAX_GROUPS, 0, 0)

#define TIERC_FIELD(type, field, offset) \
	_Static_assert(__builtin_offsetof(type, field) == (offset), #type "." #field " moved")
#define TIERC_SIZE(type, size) \
	_Static_assert(sizeof(type) == (size), "size of " #type " changed")

TIERC_SIZE(tierc_u16, 2);
TIERC_SIZE(tierc_u32, 4);
TIERC_SIZE(tierc_u64, 8);

TIERC_FIELD(struct tierc_vec, words, 0);
TIERC_SIZE(struct tierc_vec, 32);

TIERC_FIELD(struct tierc_comm_key, bits, 0);
TIERC_FIELD(struct tierc_comm_key, name, 4);
TIERC_SIZE(struct tierc_comm_key, 20);

TIERC_FIELD(struct tierc_cgroup_key, depth, 0);
TIERC_FIELD(struct tierc_cgroup_key, name, 4);
TIERC_SIZE(struct tierc_cgroup_key, 68);

TIERC_FIELD(struct tierc_band, slice_ns, 0);
TIERC_FIELD(struct tierc_band, weight, 8);
TIERC_FIELD(struct tierc_band, floor, 12);
TIERC_FIELD(struct tierc_band, tier, 16);
TIERC_FIELD(struct tierc_band, order, 18);
TIERC_FIELD(struct tierc_band, flags, 20);
TIERC_FIELD(struct tierc_band, cpus, 24);
TIERC_SIZE(struct tierc_band, 152);

TIERC_FIELD(struct tierc_head, n_rules, 0);
TIERC_FIELD(struct tierc_head, n_bands, 4);
TIERC_FIELD(struct tierc_head, default_band, 8);
TIERC_FIELD(struct tierc_head, seed, 12);
TIERC_SIZE(struct tierc_head, 16);

TIERC_FIELD(struct tierc_active, slot, 0);
TIERC_FIELD(struct tierc_active, generation, 4);
TIERC_SIZE(struct tierc_active, 8);
_Static_assert(_Alignof(struct tierc_active) == 8, "tierc_active must be read in one load");

TIERC_FIELD(struct tierc_abi, magic, 0);
TIERC_FIELD(struct tierc_abi, version, 4);
TIERC_FIELD(struct tierc_abi, vec_size, 8);
TIERC_FIELD(struct tierc_abi, comm_key_size, 12);
TIERC_FIELD(struct tierc_abi, cgroup_key_size, 16);
TIERC_FIELD(struct tierc_abi, band_size, 20);
TIERC_FIELD(struct tierc_abi, head_size, 24);
TIERC_FIELD(struct tierc_abi, active_size, 28);
TIERC_FIELD(struct tierc_abi, slots, 32);
TIERC_FIELD(struct tierc_abi, max_rules, 36);
TIERC_FIELD(struct tierc_abi, max_bands, 40);
TIERC_FIELD(struct tierc_abi, max_cpus, 44);
TIERC_FIELD(struct tierc_abi, max_groups, 48);
TIERC_FIELD(struct tierc_abi, cgroup_depth, 52);
TIERC_FIELD(struct tierc_abi, cgroup_walk, 56);
TIERC_FIELD(struct tierc_abi, dims, 60);
TIERC_SIZE(struct tierc_abi, 64);

_Static_assert(TIERC_MAX_RULES % 64 == 0, "rule sets are whole words");
_Static_assert(TIERC_MAX_CPUS % 64 == 0, "CPU masks are whole words");

#endif /* TIERC_MAPS_H */
