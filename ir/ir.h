/* SPDX-License-Identifier: Apache-2.0
 *
 * The program: modules, functions, regions, ops, values. (Of plans, see
 * plan.h.)
 *
 * SSA with structured control flow. A region is one block: a list of ops with
 * arguments, the last op a terminator. Values know their uses. Everything
 * belongs to the module's arena; erasing unlinks.
 *
 * Regions of an op:
 *   for     [0] args: induction variable, carried values; ends in `yield`
 *           operands: lo, hi, step, initial carried values
 *   if      [0] then, [1] else; no args; both end in `yield`
 *   while   [0] args: carried values; ends in `condition`
 *           [1] no args, sees the values of [0]; ends in `yield`
 *           results: the args of [0] when the condition is false
 *   reduce  kind(region): [0] args: n scalars of the left side, n of the
 *           right, for n operands; ends in `yield` of n scalars
 * A region sees the values of the regions around it.
 */
#ifndef TC_IR_H
#define TC_IR_H

#include "ir/base/map.h"
#include "ir/types/type.h"

typedef enum tc_opcode {
#define OP(id, ...) TC_##id,
#include "ir/ops.def"
#undef OP
    TC_OPCODE_COUNT
} tc_opcode;

typedef enum tc_trait {
    TC_PURE = 1,
    TC_COMMUTES = 2,
    TC_ELEMENTWISE = 4,
    TC_READS = 8,
    TC_WRITES = 16,
    TC_TERMINATOR = 32,
    TC_MACHINE = 64
} tc_trait;

typedef enum tc_syntax {
    TC_SYNTAX_PLAIN,
    TC_SYNTAX_CONST,
    TC_SYNTAX_BLOCK,
    TC_SYNTAX_CALL,
    TC_SYNTAX_VJP,
    TC_SYNTAX_REDUCE,
    TC_SYNTAX_FOR,
    TC_SYNTAX_IF,
    TC_SYNTAX_WHILE,
    TC_SYNTAX_WARP_GROUPS,
    TC_SYNTAX_LAUNCH
} tc_syntax;

/* One row of ops.def. */
typedef struct tc_op_info {
    const char *name;
    tc_syntax syntax;
    unsigned traits;
    const char *in, *out, *attrs, *summary;
} tc_op_info;
extern const tc_op_info tc_op_infos[TC_OPCODE_COUNT];

/* TC_OPCODE_COUNT where no op has that name. */
tc_opcode tc_opcode_parse(const char *name, size_t n);

typedef enum tc_attr_kind {
    TC_ATTR_NONE, /* optional and not given */
    TC_ATTR_INT,
    TC_ATTR_NUMBER, /* int or float literal: see tc_number */
    TC_ATTR_BOOL,
    TC_ATTR_STRING,
    TC_ATTR_SYMBOL, /* a name; for words a|b|c too */
    TC_ATTR_INTS,
    TC_ATTR_DIMS, /* NULL entries print as `_` */
    TC_ATTR_STRINGS,
    TC_ATTR_LAYOUT, /* of tiles like what operand 0 points to */
    TC_ATTR_FLAGS   /* bits: see fastmath.h */
} tc_attr_kind;

/* A literal: is_float says which field counts. */
typedef struct tc_number {
    bool is_float;
    int64_t i;
    double f;
} tc_number;

typedef struct tc_attr {
    tc_attr_kind kind;
    unsigned n; /* of ints, dims, strings */
    union {
        int64_t i; /* INT, BOOL, FLAGS */
        tc_number number;
        const char *s; /* interned: STRING, SYMBOL */
        const int64_t *ints;
        const tc_dim *const *dims;
        const char *const *strings;
        const tc_layout *layout;
    };
} tc_attr;

/* The declaration of one attribute of an op in ops.def. */
typedef struct tc_attr_decl {
    char name[16];
    tc_attr_kind kind;
    bool optional;
    const char *words; /* a|b|c of a word attribute (ends at NUL or blank) */
    unsigned flags;    /* of FLAGS: those that the op may carry */
} tc_attr_decl;

enum { TC_MAX_ATTRS = 12 };
unsigned tc_op_nattrs(tc_opcode code);
/* Is the word one of those of an attribute, "a|b|c"? */
bool tc_words_have(const char *words, const char *word);
tc_attr_decl tc_op_attr_decl(tc_opcode code, unsigned index);
/* -1 where the op has no such attribute. */
int tc_op_attr_index(tc_opcode code, const char *name);

/* The largest size of a dim: what lies in a tile that begins before a tensor's
 * end has an index that an i32 holds. */
enum { TC_MAX_SIZE = INT32_MAX - 65535 };

/* Of a kernel at machine level: warps of a block, bytes of shared memory. */
enum {
    TC_MAX_WARPS = 32,
    TC_MAX_CTAS = 32,
    TC_MAX_SHARED = 1 << 20,
    TC_MAX_RASTER_ROWS = 1024
};

typedef struct tc_module tc_module;
typedef struct tc_func tc_func;
typedef struct tc_region tc_region;
typedef struct tc_op tc_op;
typedef struct tc_value tc_value;
typedef struct tc_use tc_use;

struct tc_use {
    tc_op *op;
    unsigned index; /* op->in[index] is the value */
    tc_use *next, *prev;
};

struct tc_value {
    const tc_type *type;
    const char *name; /* hint from the text, without `%`; NULL: a number */
    tc_loc loc;
    tc_op *def;        /* NULL: an argument of `region` */
    tc_region *region; /* argument: its region */
    unsigned index;    /* among the results, or among the arguments */
    tc_use *uses;
    void *data; /* scratch of the pass at work; means nothing between passes */
};

struct tc_op {
    tc_opcode code;
    tc_loc loc;
    tc_func *func;
    tc_region *parent; /* NULL while not inserted */
    tc_op *prev, *next;
    unsigned nin, nout, nregions;
    tc_value **in; /* change with tc_op_set_in only */
    tc_use *uses;  /* uses[i] stands for in[i] */
    /* Where the text writes the operands; NULL: not known. */
    const tc_loc *in_locs;
    tc_value **out;
    tc_region **regions;
    tc_attr *attrs; /* in the order of ops.def */
    /* In the schedule of a step: stage(1) place(7), the latter plus 1. 0: the
     * op has no place. */
    unsigned stage, place;
    void *data; /* scratch, like tc_value.data */
};

struct tc_region {
    tc_op *op; /* owner; NULL for a function's body and grid */
    tc_func *func;
    tc_op *first, *last;
    unsigned nargs;
    tc_value **args;
};

/* A compile-time parameter of a kernel or function: BM: int = 128. */
typedef enum tc_param_kind {
    TC_PARAM_INT,
    TC_PARAM_TYPE,
    TC_PARAM_FUNC
} tc_param_kind;

typedef struct tc_param {
    const char *name;
    tc_param_kind kind;
    tc_loc loc;
    const tc_dim *dim;   /* default of an INT, may name earlier parameters */
    bool is_block;       /* INT: a side of tiles that the compiler may choose */
    const tc_type *type; /* default of a TYPE, likewise */
    const char *symbol;  /* default of a FUNC; all NULL: must be given */
    /* FUNC: the signature. A function bound to it has these parameters first;
     * those that follow are captured (see passes/bind/bind_params.c). */
    unsigned nins, nouts;
    const tc_type *const *ins, *const *outs;
} tc_param;

/* Which programs compute the tiles of a kernel on a GPU
 * (passes/persistent/persist_tiles.c). */
typedef enum tc_tiles {
    TC_TILES_ANY,     /* not said: as the compiler chooses */
    TC_TILES_NONE,    /* a program for each */
    TC_TILES_STATIC,  /* persistent programs, strided tiles */
    TC_TILES_DYNAMIC, /* persistent programs, tiles from a counter */
    TC_TILES_COUNT
} tc_tiles;
/* "none", ..; NULL of TC_TILES_ANY. */
const char *tc_tiles_word(tc_tiles t);
/* TC_TILES_ANY: no such word. */
tc_tiles tc_tiles_parse(const char *word);

/* The order in which persistent programs compute tiles
 * (passes/persistent/rasterize.c). */
typedef enum tc_raster {
    TC_RASTER_ANY,        /* not said: as the compiler chooses */
    TC_RASTER_PLAIN,      /* axis 0 fastest, then 1, then 2 */
    TC_RASTER_GROUPED,    /* the same in groups of rows along axis 0 */
    TC_RASTER_ASCENDING,  /* axis 0 slowest, in sections of the other axes */
    TC_RASTER_DESCENDING, /* the same, the last of axis 0 first */
    TC_RASTER_COUNT
} tc_raster;
/* "plain", ..; NULL of TC_RASTER_ANY. */
const char *tc_raster_word(tc_raster r);
/* TC_RASTER_ANY: no such word. */
tc_raster tc_raster_parse(const char *word);

/* Programs that share the loop of a tile (passes/persistent/split_k.c):
 * split(4), split(stream), split(auto). */
enum { TC_MAX_SPLIT = 64, TC_SPLIT_STREAM = TC_MAX_SPLIT + 1, TC_SPLIT_AUTO };
/* 0: it is none of them. */
unsigned tc_split_parse(const char *word);
const char *tc_split_word(tc_arena *a, unsigned split);

/* Of a clause profile(n): a power of two. */
enum { TC_MIN_PROFILE = 64, TC_MAX_PROFILE = 16384 };
bool tc_is_profile(int64_t records);

/* A dim of a kernel's argument whose size is a multiple of a number. */
typedef struct tc_multiple {
    unsigned arg, dim, of;
} tc_multiple;
enum { TC_MAX_MULTIPLES = 4 };

/* Values to try for a compile-time parameter or a compile option of a kernel:
 * an axis of tune(BM=64, 128; warps=4, 8). */
enum {
    TC_MAX_TUNE_AXES = 8,
    TC_MAX_TUNE_VALUES = 32,
    TC_MAX_VARIANTS = 4096 /* all combinations */
};
typedef struct tc_tune_axis {
    const char *name; /* of a parameter; warps, stages, ptxas, tiles */
    tc_loc loc;
    unsigned n;
    const char *const *values; /* "64", "static" */
    const tc_loc *locs;
} tc_tune_axis;
/* The name is that of a compile option; no CPU target has them. */
bool tc_is_tune_option(const char *name);
/* The values that such an option may have: "1 to 32". NULL: `value` is one. */
const char *tc_tune_option_problem(const char *name, const char *value);

/* A func, a kernel or a plan. Its arguments are body->args. */
struct tc_func {
    tc_module *module;
    const char *name;        /* without `@` */
    bool is_kernel, is_plan; /* neither: a func */
    tc_loc loc;
    unsigned nparams;
    tc_param *params;
    unsigned nresults; /* of a func */
    const tc_type *const *results;
    tc_region *body;
    /* Kernel: computes the launch grid. Its args stand for the kernel's args
     * one by one; it ends in `yield` of 1 to 8 i32 and may `assert`. */
    tc_region *grid;
    /* Kernel at machine level: warps of a block, and after allocate-shared its
     * bytes of shared memory; 0: not chosen yet. */
    unsigned warps, shared_bytes;
    /* Optimisation level of NVIDIA's assembler, 1 to 3; 0: its own. (1 keeps
     * the order of the program, which now and then spills less.) */
    unsigned ptxas_level;
    /* CTAs that are to share a multiprocessor, which limits registers; 0: not
     * said. */
    unsigned ctas;
    tc_tiles tiles;
    tc_raster raster;
    unsigned raster_rows; /* of a group */
    unsigned split;       /* 0: not said */
    /* Records of each warp group's ring, a power of two, where `mark` writes
     * the clock; 0: the kernel is not profiled. */
    unsigned profile;
    /* A plan that split-k made: clauses were bound at its kernels. */
    bool from_split;
    /* Its programs may start while the kernel before it in the stream runs;
     * they wait for the end of that before all else. */
    bool early;
    /* Numerics flags of all ops in the body: see fastmath.h. */
    unsigned fastmath;
    /* Bit i: the kernel may be launched only when argument i, a tensor, is
     * aligned: the stride of the dim that it is contiguous in is 1, and its
     * address, its other strides and that dim's size are multiples of 16
     * bytes. */
    uint64_t aligned;
    /* Of those the ones of which that dim's size may be any. */
    uint64_t ragged;
    /* ... and when these sizes are multiples, of tensors all of whose elements
     * lie less than 2^31 elements after the first. */
    unsigned nmultiples;
    tc_multiple multiples[TC_MAX_MULTIPLES];
    /* What is worth trying (verify_tune.c); bind-params drops it. */
    unsigned ntune;
    const tc_tune_axis *tune;
    tc_func *prev, *next;
};

struct tc_module {
    tc_context *cx;
    tc_arena arena;
    tc_func *first, *last;
    tc_map by_name; /* the first function of a name, by the name */
    /* While passes run: the ops that there are, how many there may be, what
     * was spent, and where tc_op_new and tc_module_spend jump to with more
     * (ir/base/limits.h). NULL: any number. */
    unsigned nops, most_ops;
    uint64_t steps;
    jmp_buf *too_large;
};

#define tc_each_func(f, m) for (tc_func *f = (m)->first; f; f = f->next)
#define tc_each_op(op, r)  for (tc_op *op = (r)->first; op; op = op->next)
/* The loop body may erase `op` (but not the op after it). */
#define tc_each_op_safe(op, r)                                                 \
    for (tc_op *op = (r)->first, *op##_next = op ? op->next : NULL; op;        \
         op = op##_next, op##_next = op ? op->next : NULL)
/* All ops of the region and of regions in these, each before those in it. */
#define tc_each_nested(op, r)                                                  \
    for (tc_op *op = (r)->first; op; op = tc_op_next_nested(op, r))
/* The same, each after those in it; the loop body may erase `op`. */
#define tc_each_nested_first(op, r)                                            \
    for (tc_op *op = tc_region_innermost(r),                                   \
               *op##_next = op ? tc_op_next_innermost(op, r) : NULL;           \
         op;                                                                   \
         op = op##_next, op##_next = op ? tc_op_next_innermost(op, r) : NULL)
#define tc_each_use(u, v) for (tc_use *u = (v)->uses; u; u = u->next)

/* NULL never: out of memory unwinds. */
/* A pass whose time grows with the square of something counts it here as it
 * goes: n looks at an op, or equally long work. */
void tc_module_spend(tc_module *m, uint64_t n);
tc_module *tc_module_new(tc_context *cx);
/* Accepts NULL. Types and strings stay with the context. */
void tc_module_free(tc_module *m);

tc_func *tc_func_new(tc_module *m, const char *name, bool is_kernel,
                     tc_loc loc);
void tc_func_append(tc_module *m, tc_func *f);
void tc_func_erase(tc_func *f);
/* A copy of another name, not in the list of functions. */
tc_func *tc_func_clone(tc_func *f, const char *name);
tc_func *tc_func_find(const tc_module *m, const char *name);
/* The compile-time parameter of that name, or NULL. */
const tc_param *tc_func_param(const tc_func *f, const char *name);
/* Empty bindings with room for the parameters of f, in arena a. */
tc_bindings tc_bindings_of(tc_arena *a, const tc_func *f);
/* "func", "kernel", "plan" */
const char *tc_func_word(const tc_func *f);

tc_region *tc_region_new(tc_func *f, tc_op *owner);
tc_value *tc_region_add_arg(tc_region *r, const tc_type *type, const char *name,
                            tc_loc loc);
/* Argument `index` must have no use. */
void tc_region_remove_arg(tc_region *r, unsigned index);
tc_op *tc_region_terminator(const tc_region *r); /* NULL if missing */

/* A detached op: operands linked, regions empty, no results yet. The function
 * `f` is where it will stand (for its regions). */
tc_op *tc_op_new(tc_func *f, tc_opcode code, tc_loc loc, unsigned nin,
                 tc_value *const *in, unsigned nregions);
void tc_op_set_results(tc_op *op, unsigned n, const tc_type *const *types);
/* before == NULL: at the end. */
void tc_op_insert(tc_op *op, tc_region *r, tc_op *before);
void tc_op_remove(tc_op *op); /* unlink, keep operands */
/* Unlinks for good; its results must have no uses. Nested ops go too. */
void tc_op_erase(tc_op *op);
void tc_op_set_in(tc_op *op, unsigned index, tc_value *v);
void tc_value_replace(tc_value *old, tc_value *with); /* all uses */
/* `a` stands in `r` or in a region nested in it. */
bool tc_region_contains(const tc_region *r, const tc_op *a);
/* Whether `v` can be used by an op placed before `op` in its region. */
bool tc_value_is_visible(const tc_value *v, const tc_op *op);
bool tc_value_has_one_use(const tc_value *v);
/* A copy of `op`, nested regions included, operands mapped through
 * value->data where that is not NULL (set for results and nested args on the
 * way). Detached. */
tc_op *tc_op_clone(tc_func *f, tc_op *op);
/* Its arguments and ops into an empty region; operands as tc_op_clone. */
void tc_region_copy(tc_func *f, tc_region *from, tc_region *to);

/* Ops of a region, nested ones included. */
unsigned tc_region_count(const tc_region *r);
/* Does that hold of one of them? Is one of them such? */
bool tc_region_any(const tc_region *r, bool (*is)(const tc_op *op));
/* The steps of tc_each_nested, tc_each_nested_first. */
tc_op *tc_op_next_nested(const tc_op *op, const tc_region *r);
tc_op *tc_region_innermost(const tc_region *r);
tc_op *tc_op_next_innermost(const tc_op *op, const tc_region *r);
bool tc_region_has_op(const tc_region *r, tc_opcode code);
/* The same, the op itself included. */
bool tc_op_any(const tc_op *op, bool (*is)(const tc_op *op));
/* The `data` of all results and nested args becomes NULL. */
void tc_region_clear_data(tc_region *r);
/* The same, that of all ops too. */
void tc_region_clear_all_data(tc_region *r);
/* Some op uses a result. */
bool tc_op_is_used(const tc_op *op);

const char *tc_op_name(const tc_op *op); /* its mnemonic */
tc_context *tc_op_context(const tc_op *op);
/* Where the text writes operand i, or the op. */
tc_loc tc_op_in_loc(const tc_op *op, unsigned i);
/* The type of operand i as text, for messages. */
const char *tc_op_in_type(const tc_op *op, unsigned i);
bool tc_op_has(const tc_op *op, tc_trait trait);
bool tc_op_is_loop(const tc_op *op); /* for, while */
/* reduce, scan, scan_carry: a region, if there is one, combines two elements of
 * each operand. */
bool tc_op_combines(const tc_op *op);
/* How many elements it combines at once: its operands, without totals. */
unsigned tc_op_ncombined(const tc_op *op);
/* Of a dot or mma: operand i has codes of u8 as i8. */
bool tc_dot_is_unsigned(const tc_op *op, unsigned i);
/* A call or a vjp: both name a callee. */
bool tc_op_is_call(const tc_op *op);
/* The function that a call or vjp names; NULL: another op, or a function
 * parameter is called. */
tc_func *tc_op_callee(const tc_op *op);
/* Operands of a call or vjp: the arguments by position, then those with names,
 * of a vjp then the seed and the tensors of `into`. */
unsigned tc_call_npositional(const tc_op *op);
unsigned tc_vjp_seed(const tc_op *op);
/* The op and all ops nested in it are free of reads, writes, terminators'
 * effects: it may be removed when unused. */
bool tc_op_is_pure(const tc_op *op);

/* Attributes by name; the name must be one of the op's in ops.def. */
const tc_attr *tc_op_attr(const tc_op *op, const char *name);
bool tc_op_has_attr(const tc_op *op, const char *name);
int64_t tc_op_int(const tc_op *op, const char *name); /* 0 if not given */
/* Word, symbol or string; NULL if not given. (tc_op_new fills in the default of
 * an optional word, and the printer leaves it out.) */
const char *tc_op_word(const tc_op *op, const char *name);
bool tc_op_is_word(const tc_op *op, const char *name, const char *word);
void tc_op_set_attr(tc_op *op, const char *name, tc_attr value);
void tc_op_set_int(tc_op *op, const char *name, int64_t value);
void tc_op_set_word(tc_op *op, const char *name, const char *word);
void tc_op_set_ints(tc_op *op, const char *name, unsigned n,
                    const int64_t *ints);
void tc_op_set_layout(tc_op *op, const char *name, const tc_layout *layout);
/* NULL if not given. */
const tc_layout *tc_op_layout(const tc_op *op, const char *name);
void tc_op_set_dims(tc_op *op, const char *name, unsigned n,
                    const tc_dim *const *dims);

/* The word of a hint of an op; NULL: none but the default. */
const char *tc_op_hint(const tc_op *op, const char *name);
/* Gives an op that accesses memory for another one its hints to caches (evict,
 * cache; hints.c). The word of `cache` that it cannot say; NULL: all is said.
 */
const char *tc_op_copy_hints(tc_op *to, const tc_op *from);

/* Of a `block`: a tile of indices, whose axes are the first ones of the window;
 * NULL: all offsets are scalars. */
const tc_value *tc_block_index(const tc_op *block);
/* How many axes these are: 0 where there are none. */
unsigned tc_block_index_rank(const tc_op *block);

/* Of a `tensor` op: how many sizes are operands, one for each `?`; then what
 * stands for a dim's size (NULL: its type says it) and stride. */
unsigned tc_made_tensor_sizes(const tc_type *tensor);
tc_value *tc_made_tensor_size(const tc_op *op, unsigned dim);
tc_value *tc_made_tensor_stride(const tc_op *op, unsigned dim);

/* Axes of a grid, and those of a text's, which the pass `inline` folds. */
enum { TC_GRID_AXES = 3, TC_MAX_GRID_AXES = 8 };

/* Of an assert or print: how many operands it checks or shows. The program's
 * three numbers stand after them where it says so (of_program). */
unsigned tc_op_nreported(const tc_op *op);

/* A cursor: new ops go before `before` in `region` (NULL: at its end). */
typedef struct tc_builder {
    tc_func *func;
    tc_region *region;
    tc_op *before;
    tc_loc loc;
    unsigned fastmath; /* flags that new ops get, of those they may carry */
} tc_builder;

tc_builder tc_builder_before(tc_op *op);
tc_builder tc_builder_at_end(tc_region *r, tc_loc loc);
/* One result of the inferred type (of `type` where given); operands and
 * attributes must be right, as in a pass: failure is an assertion. */
tc_value *tc_build(tc_builder *b, tc_opcode code, unsigned nin,
                   tc_value *const *in, const tc_type *type);
/* The same for a detached op whose attributes were set by hand. */
tc_value *tc_build_op(tc_builder *b, tc_op *op, const tc_type *type);
/* An op without results; its attributes are set after that. */
tc_op *tc_build_effect(tc_builder *b, tc_opcode code, unsigned nin,
                       tc_value *const *in);
tc_value *tc_build_int(tc_builder *b, const tc_type *scalar, int64_t value);
tc_value *tc_build_float(tc_builder *b, const tc_type *scalar, double value);
tc_op *tc_build_yield(tc_builder *b, unsigned n, tc_value *const *values);
/* An `if` with results of these types, and two empty regions. */
tc_op *tc_build_if(tc_builder *b, tc_value *condition, unsigned nout,
                   const tc_type *const *types);
/* An `if` without results and without effects so far; writes a cursor into its
 * first region. */
tc_op *tc_build_when(tc_builder *b, tc_value *condition, tc_builder *then);

/* infer.c: the result types of a detached op from operands, attributes and
 * the types stated in the text (NULL entries: not stated). Reports what is
 * wrong with the operands; on success the results are set. */
bool tc_op_infer(tc_op *op, unsigned nstated,
                 const tc_type *const *stated) TC_MUST_CHECK;
/* The checks of the signature only: do the operands have the kinds that ops.def
 * asks for, are the required attributes given and of their kinds, are words
 * known? Reports all violations. */
bool tc_op_check_signature(const tc_op *op) TC_MUST_CHECK;
/* Do the results of an op have the types that tc_op_infer would give? (The
 * signature must be right.) Reports. */
bool tc_op_check_results(const tc_op *op) TC_MUST_CHECK;

/* verify.c: reports every violation, located; false if there was one. */
/* The levels of a function: the first value that is a tile without a layout;
 * the first op of the machine level, or with a layout. NULL: there is none. */
const tc_value *tc_func_bare_tile(const tc_func *f);
const tc_op *tc_func_machine_op(const tc_func *f);
bool tc_module_verify(const tc_module *m) TC_MUST_CHECK;
bool tc_func_verify(const tc_func *f) TC_MUST_CHECK;

/* parse.c: appends the functions of a text to the module. False: errors were
 * reported (as many as could be found); the module must then be thrown away. */
bool tc_parse(tc_module *m, uint32_t source) TC_MUST_CHECK;
/* The same of a text that was lexed: its tokens stay, but each `>>` that closes
 * two types becomes `>`. */
struct tc_tokens; /* ir/text/lex.h */
bool tc_parse_tokens(tc_module *m, struct tc_tokens tokens) TC_MUST_CHECK;
/* A single type or size, as on the command line; NULL: reported at loc. */
const tc_type *tc_type_parse(tc_context *cx, const char *text, tc_loc loc);

/* print.c: the canonical text. */
typedef enum tc_print_flags {
    TC_PRINT_PLAIN = 0,
    TC_PRINT_LOCATIONS = 1 /* `// file:line:col` after each op */
} tc_print_flags;
void tc_module_print(tc_text *out, const tc_module *m, unsigned flags);
void tc_func_print(tc_text *out, const tc_func *f, unsigned flags);
/* The same, plain; calls `each` before it prints an op, whose first line begins
 * `at` bytes after the begin of out->data. */
typedef void tc_printed(void *user, const tc_op *op, size_t at);
void tc_func_print_each(tc_text *out, const tc_func *f, tc_printed *each,
                        void *user);
/* `%name` as the printer would call it, for messages. */
const char *tc_value_name(tc_context *cx, const tc_value *v);
/* The shortest decimal that reads back as the same number, as f64 or, of the
 * narrower kinds, as f32: 1.0, 0.1, 448.0, 1e-30, inf, -inf, nan. */
void tc_number_print(tc_text *out, double value, tc_kind kind);

#endif
