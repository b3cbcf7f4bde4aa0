/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What a BPF program needs of the kernel and of its loader, as far as tierc uses it: map
 * declarations, helpers, kernel functions, and the few fields of kernel structures that are read.
 *
 * No vmlinux.h: fields are found by name when the object is loaded (CO-RE), so the structures here
 * hold only those, in any order.  Kernel functions are weak: those that a kernel lacks read as 0,
 * and the code that would call them is removed by the verifier.
 */
#ifndef TIERC_BPF_H
#define TIERC_BPF_H

#include "tierc_maps.h"

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef int s32;
typedef long long s64;

#define NULL ((void *)0)
#define SEC(name) __attribute__((section(name), used))
#define INLINE static inline __attribute__((always_inline))
#define NOINLINE __attribute__((noinline))
/*
 * A function that is not static is verified by itself, once, whoever calls it: that keeps the work
 * of the verifier small.  Its pointers to tasks need this mark.
 */
#define TRUSTED __attribute__((btf_decl_tag("arg:trusted")))
#define KFUNC extern __attribute__((weak, section(".ksyms")))
#define KPTR __attribute__((btf_type_tag("kptr")))

/* Members of a map's declaration, as libbpf reads them from the type information. */
#define __uint(name, val) int (*name)[val]
#define __type(name, val) __typeof__(val) *name
#define __array(name, val) __typeof__(val) *name[]

enum {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_PERCPU_ARRAY = 6,
	BPF_MAP_TYPE_LRU_HASH = 9,
	BPF_MAP_TYPE_LPM_TRIE = 11,
	BPF_MAP_TYPE_ARRAY_OF_MAPS = 12,
	BPF_MAP_TYPE_TASK_STORAGE = 29,

	LIBBPF_PIN_BY_NAME = 1,
	BPF_F_NO_PREALLOC = 1,
	BPF_LOCAL_STORAGE_GET_F_CREATE = 1,
};

#define READ_ONCE(x) (*(const volatile __typeof__(x) *)&(x))
#define WRITE_ONCE(x, val) (*(volatile __typeof__(x) *)&(x) = (val))
/* Keeps the compiler from knowing a value, so that it leaves a check in that the verifier needs. */
#define OPAQUE(x) asm volatile("" : "+r"(x))

/* --- Helpers; the numbers are those of enum bpf_func_id ------------------------------------- */

static void *(*map_lookup)(void *map, const void *key) = (void *)1;
static long (*map_update)(void *map, const void *key, const void *value, u64 flags) = (void *)2;
static u32 (*this_cpu)(void) = (void *)8;
static long (*read_kernel)(void *to, u32 size, const void *from) = (void *)113;
static long (*read_kernel_str)(void *to, u32 size, const void *from) = (void *)115;
static void *(*per_cpu_ptr)(const void *var, u32 cpu) = (void *)153;
static void *(*task_storage_get)(void *map, void *task, void *value, u64 flags) = (void *)156;
static u64 (*jiffies64)(void) = (void *)118;
static u64 (*ktime_get_ns)(void) = (void *)5;
static void *(*kptr_xchg)(void *at, void *ptr) = (void *)194;

/* --- Fields of the kernel ------------------------------------------------------------------- */

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct cpumask {
	unsigned long bits[1];
};

struct bpf_cpumask {
	struct cpumask cpumask;
};

struct kernfs_node {
	const char *name;
	u64 id;
};

struct cgroup {
	int level;
	struct kernfs_node *kn;
	struct cgroup *ancestors[1];
};

struct css_set {
	struct cgroup *dfl_cgrp;
};

struct sched_ext_entity {
	u32 flags;
	u32 weight;
	u64 slice;
	u64 dsq_vtime;
};

struct task_struct {
	unsigned int flags;
	int pid;
	int nr_cpus_allowed;
	struct cpumask cpus_mask;
	struct sched_ext_entity scx;
	char comm[TIERC_COMM_LEN];
	struct task_struct *group_leader;
	struct css_set *cgroups;
};

struct scx_init_task_args {
	u8 fork;
};

enum scx_exit_kind {
	SCX_EXIT_NONE = 0,
};

struct scx_exit_info {
	enum scx_exit_kind kind;
	s64 exit_code;
	const char *reason;
	char *msg;
};

#pragma clang attribute pop

#define PF_KTHREAD 0x00200000
#define SCX_TASK_QUEUED 1

/* --- sched_ext ------------------------------------------------------------------------------ */

#define SCX_DSQ_GLOBAL 0x8000000000000001ULL
#define SCX_DSQ_LOCAL 0x8000000000000002ULL
#define SCX_ENQ_WAKEUP 1ULL
#define SCX_ENQ_PREEMPT (1ULL << 32)
#define SCX_ENQ_LAST (1ULL << 41)
#define SCX_KICK_IDLE 1ULL
#define SCX_KICK_PREEMPT 2ULL
#define SCX_PICK_IDLE_CORE 1ULL
#define SCX_OPS_ENQ_LAST 2ULL
#define SCX_OPS_ENQ_EXITING 4ULL

/* The members that are set; libbpf finds each by its name in the kernel's structure. */
struct sched_ext_ops {
	s32 (*select_cpu)(struct task_struct *p, s32 prev_cpu, u64 wake_flags);
	void (*enqueue)(struct task_struct *p, u64 enq_flags);
	void (*dispatch)(s32 cpu, struct task_struct *prev);
	void (*tick)(struct task_struct *p);
	void (*running)(struct task_struct *p);
	void (*stopping)(struct task_struct *p, _Bool runnable);
	void (*set_cpumask)(struct task_struct *p, const struct cpumask *mask);
	s32 (*init_task)(struct task_struct *p, struct scx_init_task_args *args);
	void (*enable)(struct task_struct *p);
	void (*cpu_online)(s32 cpu);
	void (*cpu_offline)(s32 cpu);
	s32 (*init)(void);
	void (*exit)(struct scx_exit_info *info);
	u64 flags;
	u32 timeout_ms;
	char name[128];
};

struct bpf_iter_num {
	u64 opaque[1];
} __attribute__((aligned(8)));

struct bpf_iter_scx_dsq {
	u64 opaque[6];
} __attribute__((aligned(8)));

KFUNC int bpf_iter_num_new(struct bpf_iter_num *it, int start, int end);
KFUNC int *bpf_iter_num_next(struct bpf_iter_num *it);
KFUNC void bpf_iter_num_destroy(struct bpf_iter_num *it);

KFUNC int bpf_iter_scx_dsq_new(struct bpf_iter_scx_dsq *it, u64 dsq, u64 flags);
KFUNC struct task_struct *bpf_iter_scx_dsq_next(struct bpf_iter_scx_dsq *it);
KFUNC void bpf_iter_scx_dsq_destroy(struct bpf_iter_scx_dsq *it);

KFUNC void bpf_rcu_read_lock(void);
KFUNC void bpf_rcu_read_unlock(void);

KFUNC struct bpf_cpumask *bpf_cpumask_create(void);
KFUNC void bpf_cpumask_release(struct bpf_cpumask *mask);
KFUNC void bpf_cpumask_clear(struct bpf_cpumask *mask);
KFUNC void bpf_cpumask_set_cpu(u32 cpu, struct bpf_cpumask *mask);
KFUNC void bpf_cpumask_clear_cpu(u32 cpu, struct bpf_cpumask *mask);
KFUNC _Bool bpf_cpumask_test_cpu(u32 cpu, const struct cpumask *mask);
KFUNC _Bool bpf_cpumask_test_and_clear_cpu(u32 cpu, struct bpf_cpumask *mask);
KFUNC void bpf_cpumask_copy(struct bpf_cpumask *to, const struct cpumask *from);
KFUNC _Bool bpf_cpumask_and(struct bpf_cpumask *to, const struct cpumask *a,
			    const struct cpumask *b);
KFUNC _Bool bpf_cpumask_intersects(const struct cpumask *a, const struct cpumask *b);
KFUNC u32 bpf_cpumask_any_distribute(const struct cpumask *mask);
KFUNC u32 bpf_cpumask_any_and_distribute(const struct cpumask *a, const struct cpumask *b);
KFUNC int bpf_cpumask_populate(struct bpf_cpumask *mask, void *src, unsigned long src__sz);

KFUNC u32 scx_bpf_nr_cpu_ids(void);
KFUNC const struct cpumask *scx_bpf_get_online_cpumask(void);
KFUNC void scx_bpf_put_cpumask(const struct cpumask *mask);
KFUNC s32 scx_bpf_create_dsq(u64 dsq, s32 node);
KFUNC s32 scx_bpf_dsq_nr_queued(u64 dsq);
KFUNC void scx_bpf_kick_cpu(s32 cpu, u64 flags);
KFUNC s32 scx_bpf_task_cpu(const struct task_struct *p);
KFUNC s32 scx_bpf_pick_idle_cpu(const struct cpumask *allowed, u64 flags);
KFUNC s32 scx_bpf_select_cpu_and(struct task_struct *p, s32 prev, u64 wake_flags,
				 const struct cpumask *allowed, u64 flags);
KFUNC _Bool scx_bpf_test_and_clear_cpu_idle(s32 cpu);
KFUNC const struct cpumask *scx_bpf_get_idle_cpumask(void);
KFUNC void scx_bpf_put_idle_cpumask(const struct cpumask *mask);
KFUNC u64 scx_bpf_now(void);
KFUNC _Bool scx_bpf_task_set_slice(struct task_struct *p, u64 slice);

KFUNC void scx_bpf_dsq_insert(struct task_struct *p, u64 dsq, u64 slice, u64 flags);
KFUNC void scx_bpf_dsq_insert_vtime(struct task_struct *p, u64 dsq, u64 slice, u64 vtime, u64 flags);
KFUNC _Bool scx_bpf_dsq_move_to_local(u64 dsq);
KFUNC void scx_bpf_dsq_move_set_slice(struct bpf_iter_scx_dsq *it__iter, u64 slice);
KFUNC void scx_bpf_dsq_move_set_vtime(struct bpf_iter_scx_dsq *it__iter, u64 vtime);
KFUNC _Bool scx_bpf_dsq_move_vtime(struct bpf_iter_scx_dsq *it__iter, struct task_struct *p, u64 dsq,
				   u64 flags);
/* Their names in Linux 6.12. */
KFUNC void scx_bpf_dispatch(struct task_struct *p, u64 dsq, u64 slice, u64 flags);
KFUNC void scx_bpf_dispatch_vtime(struct task_struct *p, u64 dsq, u64 slice, u64 vtime, u64 flags);
KFUNC _Bool scx_bpf_consume(u64 dsq);
KFUNC void scx_bpf_dispatch_from_dsq_set_slice(struct bpf_iter_scx_dsq *it__iter, u64 slice);
KFUNC void scx_bpf_dispatch_from_dsq_set_vtime(struct bpf_iter_scx_dsq *it__iter, u64 vtime);
KFUNC _Bool scx_bpf_dispatch_vtime_from_dsq(struct bpf_iter_scx_dsq *it__iter, struct task_struct *p,
					    u64 dsq, u64 flags);

INLINE void dsq_insert(struct task_struct *p, u64 dsq, u64 slice, u64 flags)
{
	if (scx_bpf_dsq_insert)
		scx_bpf_dsq_insert(p, dsq, slice, flags);
	else
		scx_bpf_dispatch(p, dsq, slice, flags);
}

INLINE void dsq_insert_vtime(struct task_struct *p, u64 dsq, u64 slice, u64 vtime, u64 flags)
{
	if (scx_bpf_dsq_insert_vtime)
		scx_bpf_dsq_insert_vtime(p, dsq, slice, vtime, flags);
	else
		scx_bpf_dispatch_vtime(p, dsq, slice, vtime, flags);
}

INLINE _Bool dsq_move_to_local(u64 dsq)
{
	return scx_bpf_dsq_move_to_local ? scx_bpf_dsq_move_to_local(dsq) : scx_bpf_consume(dsq);
}

INLINE _Bool dsq_move(struct bpf_iter_scx_dsq *it, struct task_struct *p, u64 dsq, u64 slice,
		      u64 vtime)
{
	if (scx_bpf_dsq_move_vtime) {
		scx_bpf_dsq_move_set_slice(it, slice);
		scx_bpf_dsq_move_set_vtime(it, vtime);
		return scx_bpf_dsq_move_vtime(it, p, dsq, 0);
	}
	scx_bpf_dispatch_from_dsq_set_slice(it, slice);
	scx_bpf_dispatch_from_dsq_set_vtime(it, vtime);
	return scx_bpf_dispatch_vtime_from_dsq(it, p, dsq, 0);
}

INLINE void set_slice(struct task_struct *p, u64 slice)
{
	if (scx_bpf_task_set_slice)
		scx_bpf_task_set_slice(p, slice);
	else
		p->scx.slice = slice;
}

INLINE u64 time_ns(void)
{
	return scx_bpf_now ? scx_bpf_now() : ktime_get_ns();
}

INLINE const struct cpumask *cast_mask(struct bpf_cpumask *mask)
{
	return &mask->cpumask;
}

#endif /* TIERC_BPF_H */
