/* SPDX-License-Identifier: Apache-2.0
 *
 * tilec: compiles kernels written in tile IR and runs them.
 *
 *   tilec_context   settings and the diagnostics of the latest compile
 *   tilec_kernel    a compiled kernel: what it expects, and its launch
 *   tilec_attention attention on [batch, heads, length, dim] tensors
 *                   (tilec/attention.h)
 *   tilec_append    new keys and values into a cache (tilec/append.h)
 *   tilec_kvcache_..  attention over a cache of keys and values
 *                   (tilec/kvcache.h)
 *   tilec_bundle_..   files of compiled kernels, for programs without a
 *                   compiler (tilec/bundle.h)
 *   tilec_safetensors, tilec_safetensors_write   tensor files
 *                   (tilec/safetensors.h)
 *
 * Status. Every function that can fail returns a tilec_status, whose values
 * are the exit codes of the `tilec` command. What went wrong in a compile is
 * the context's list of diagnostics; all other functions fill in a tilec_error
 * of the caller (NULL: not wanted). The library never prints, never exits, and
 * keeps no global state but the NVIDIA driver, once that was wanted.
 *
 * Ownership. Handles (tilec_context, tilec_kernel, ...) have a _free that
 * accepts NULL. A kernel keeps all that it needs: it outlives its context. It
 * (or a plan) is freed when its launches have ended; on a GPU, when no graph
 * that captured one is launched any more.
 * Texts returned as `char *` are freed with tilec_free; those returned as
 * `const char *` live as long as the handle they came from. Nothing that the
 * caller passes in is kept after the call, but for callbacks of a context.
 *
 * Threads. Different contexts are independent. One context serves one call
 * at a time. A kernel, an attention plan and an open file are read-only once
 * made: any number of threads may launch and query them at once.
 *
 * Sizes. A struct that may grow begins with its size. Set it to sizeof and zero
 * the rest, e.g. with TILEC_INIT; arguments and sources by tilec_tensor,
 * tilec_int, tilec_float, tilec_text. In what the library gives it is what the
 * library knows. NULL options: the defaults. tilec_binding and
 * tilec_named_tensor, pairs, stay as they are.
 *
 * What is stable is in lib/README.md.
 *
 * LLVM's own out of memory ends the process (lib/README.md). A compile needs
 * 128 KiB of stack, a launch 64 KiB; give compiles of any text 1 MiB.
 * Units: sizes, strides and counts are in elements unless they say bytes.
 */
#ifndef TILEC_H
#define TILEC_H

#include "tilec/dlpack.h"
#include "tilec/version.h"

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define TILEC_API __attribute__((visibility("default")))
#else
#define TILEC_API
#endif

/* tilec_launch_options o = TILEC_INIT(tilec_launch_options); */
#ifdef __cplusplus
#define TILEC_INIT(T) tilec_init<T>()
#else
#define TILEC_INIT(T) ((T){.size = sizeof(T)})
#endif

typedef enum tilec_status {
    TILEC_OK = 0,
    TILEC_INPUT = 1,  /* the input is wrong: text, tensors, files */
    TILEC_USAGE = 2,  /* the call is wrong: names, options, NULL */
    TILEC_MACHINE = 3 /* out of memory, no such device, I/O */
} tilec_status;

/* Data types that DLPack 0.6 lacks, by the numbers of DLPack 1.1. */
enum {
    TILEC_DL_BOOL = 6, /* 8 bits; kDLUInt of 8 bits is taken as well */
    TILEC_DL_F8E4M3 = 10,
    TILEC_DL_F8E5M2 = 12,
    TILEC_DL_F8E8M0 = 14,
    TILEC_DL_F4E2M1 = 17 /* 4 bits, 2 lanes: an element is a byte */
};

/* What went wrong outside of a compile. The caller owns it; nothing in it
 * needs freeing. Only the size is read (0: that of version 0.1.0). */
typedef struct tilec_error {
    size_t size;
    tilec_status status;
    char message[480];
    /* Where, for a failed `assert` or an access out of bounds in a kernel;
     * line 0: nowhere in particular. */
    char file[160];
    uint32_t line, column;
    int32_t program[3]; /* the grid position that failed */
} tilec_error;

/* "0.1.0" */
TILEC_API const char *tilec_version(void);
/* Targets of this build: "cpu", "sm_80", ...; NULL past the end. A kernel can
 * be compiled for any of them anywhere. */
TILEC_API const char *tilec_target_name(size_t index);
/* Texts in the library: "attention_fwd", "mods/causal"; NULL past the end. */
TILEC_API const char *tilec_embedded_name(size_t index);
/* NULL where there is no such text. */
TILEC_API const char *tilec_embedded_text(const char *name);
/* Frees what the library returned as `char *`. Accepts NULL. */
TILEC_API void tilec_free(char *text);

/* Context ---------------------------------------------------------------- */

typedef struct tilec_context tilec_context;

typedef struct tilec_context_options {
    size_t size;
    const char *target; /* of compiles that name none; NULL: "auto" */
    int remarks;        /* collect remarks on what was and wasn't done */
    /* GPU targets. The driver's shared object; NULL: libcuda.so.1. */
    const char *cuda_library;
    /* Folder of compiled code; "": none is kept; NULL: $TILEC_CACHE_DIR, else
     * $XDG_CACHE_HOME/tilec, else ~/.cache/tilec. */
    const char *cache_folder;
    uint64_t cache_bytes; /* the most in that folder; 0: 512 MiB */
    /* NVIDIA's assembler, to be used in place of the driver's; or NULL. */
    const char *ptxas;
    /* Kernels that are launched over and over, with tensors alike, into one
     * stream become CUDA graphs of one kernel, which the driver launches in
     * half the time. no_graphs: they stay launches, for profilers that show
     * graphs as a whole. */
    int no_graphs;
    /* CPU target: runs the programs of a launch. A launch is cut into
     * `count` parts, as many as it wants threads (tilec_launch_options.threads,
     * at most one a program); parallel_for is to call run(task, i) for each i
     * below count, on whatever threads, and to return when all its calls have
     * returned. Any order will do, one after the other too: a part takes
     * programs until none are left. Programs that it leaves, because it makes
     * fewer calls or none, run in the calling thread afterwards. It is called
     * from any thread that launches, from several at once, and again from
     * within a part whose callbacks launch; not for a launch of one program or
     * thread, which runs in the calling thread. task is dead once it returns.
     * NULL: threads of the library's own, which the context and its kernels
     * share: they start when first wanted (again in a child of fork()), wait
     * between launches, have all signals blocked, and end with the last of
     * those. Kernels keep parallel_for and parallel_user. */
    void (*parallel_for)(void *user, size_t count,
                         void (*run)(void *task, size_t i), void *task);
    void *parallel_user;
    /* CPU target: compile for all CPUs with the features of "x86-64-v2",
     * "x86-64-v3" (AVX2) or "x86-64-v4" (AVX-512), as bundles need it; NULL:
     * for the one that this runs on. */
    const char *cpu;
    /* GPU targets where there is no GPU: the multiprocessors of the one that
     * plans are made for; 0: not known (to be recorded in a bundle: those of
     * the target's usual one). With a GPU no effect. */
    unsigned multiprocessors;
} tilec_context_options;

TILEC_API tilec_status tilec_context_new(const tilec_context_options *options,
                                         tilec_context **out);
TILEC_API void tilec_context_free(tilec_context *cx);

typedef enum tilec_severity {
    TILEC_ERROR,
    TILEC_WARNING,
    TILEC_REMARK,
    TILEC_NOTE
} tilec_severity;

typedef struct tilec_diagnostic tilec_diagnostic;
struct tilec_diagnostic {
    size_t size;
    const tilec_diagnostic *next;
    tilec_severity severity;
    const char *message;
    const char *pass;      /* of a remark; else NULL */
    int missed;            /* a remark: a faster way was not taken */
    const char *file;      /* NULL: at no place in a text */
    uint32_t line, column; /* from 1, columns in bytes */
    const char *source;    /* the text of that line, without its end; or NULL */
    const tilec_diagnostic *notes; /* a list through next */
    uint32_t end_column; /* after the range in that line; 0: not known */
};

/* Diagnostics of the latest compile in the order they arose; a list that
 * lives until the next compile or tilec_context_free. NULL: none. */
TILEC_API const tilec_diagnostic *tilec_diagnostics(const tilec_context *cx);
/* All errors, also those beyond the 20 that are listed. */
TILEC_API size_t tilec_error_count(const tilec_context *cx);

/* Arguments -------------------------------------------------------------- */

typedef enum tilec_argument_kind {
    TILEC_ARG_TENSOR, /* for tensor and ptr parameters */
    TILEC_ARG_INT,    /* for integer, i1 and float parameters */
    TILEC_ARG_FLOAT   /* for float parameters */
} tilec_argument_kind;

/* As tilec_tensor, tilec_int and tilec_float make them. */
typedef struct tilec_argument {
    size_t size;
    const char *name; /* without `%`; NULL: the next one by position */
    tilec_argument_kind kind;
    const DLTensor *tensor;
    int64_t i;
    double f;
} tilec_argument;

static inline tilec_argument tilec_tensor(const char *name, const DLTensor *t)
{
    tilec_argument a = {
        sizeof(tilec_argument), name, TILEC_ARG_TENSOR, t, 0, 0.0};
    return a;
}

static inline tilec_argument tilec_int(const char *name, int64_t i)
{
    tilec_argument a = {
        sizeof(tilec_argument), name, TILEC_ARG_INT, NULL, i, 0.0};
    return a;
}

static inline tilec_argument tilec_float(const char *name, double f)
{
    tilec_argument a = {
        sizeof(tilec_argument), name, TILEC_ARG_FLOAT, NULL, 0, f};
    return a;
}

/* Compile ---------------------------------------------------------------- */

typedef struct tilec_kernel tilec_kernel;

/* As tilec_text makes it. */
typedef struct tilec_source {
    size_t size;
    const char *name; /* for diagnostics; of an embedded text if text is NULL */
    const char *text;
    size_t length; /* bytes; 0: up to the NUL */
} tilec_source;

static inline tilec_source tilec_text(const char *name, const char *text,
                                      size_t length)
{
    tilec_source s = {sizeof(tilec_source), name, text, length};
    return s;
}

typedef struct tilec_binding {
    const char *name;
    const char *value; /* "128", "bf16", "@causal", "my.tile@mask" */
} tilec_binding;

/* Sent before (after == 0) and after each pass. */
typedef struct tilec_pass_event {
    size_t size;
    const char *pass;
    unsigned index; /* in the pipeline, from 0 */
    int after;
    int changed;
    const char *text;     /* the program, where it was asked for; else NULL */
    uint64_t nanoseconds; /* after: of the pass itself */
    uint64_t verify_nanoseconds; /* after: of the checks that follow it */
} tilec_pass_event;

/* The programs of a grid are its tiles. A program computes one, or there are as
 * many programs as multiprocessors, which compute every n-th tile (static), or
 * one after the other from a common counter (dynamic). */
typedef enum tilec_tiles {
    TILEC_TILES_ANY, /* as the text or the tuned configuration says, else as the
                      * compiler chooses */
    TILEC_TILES_NONE,
    TILEC_TILES_STATIC,
    TILEC_TILES_DYNAMIC
} tilec_tiles;

/* GPU targets: what is said where an operand of a product lies in memory in an
 * order that its instruction cannot take, so that threads must read it element
 * by element (of 8 bits, all that is not K-major). */
typedef enum tilec_enforce {
    TILEC_ENFORCE_WARN,
    TILEC_ENFORCE_OFF, /* a remark */
    TILEC_ENFORCE_ERROR
} tilec_enforce;

typedef struct tilec_compile_options {
    size_t size;
    const char *kernel; /* without `@`; NULL: the only one */
    /* "cpu", "sm_80", ...; "auto" is the best one of the GPU that this thread
     * would use, else the CPU; NULL: the context's. */
    const char *target;
    const tilec_binding *bindings; /* of compile-time parameters */
    size_t nbindings;
    /* Arguments as at launch, from which compile-time parameters that are not
     * bound are inferred: sizes from shapes, types from data types. Only the
     * dims that the kernel's types name matter; no data is read. */
    const tilec_argument *examples;
    size_t nexamples;
    const char *pipeline; /* of passes; NULL: the target's own */
    int verify_each;      /* verify the program after each pass */
    /* Passes before and after which events carry the program's text: names
     * with commas between, or "all"; NULL: none. */
    const char *print_before, *print_after;
    void (*on_pass)(void *user, const tilec_pass_event *event); /* or NULL */
    void *user;
    /* Folder for a reproducer when a pass fails; NULL: none is written. */
    const char *reproducer_dir;
    /* GPU targets: warps of a block and stages of pipelined loops; 0: as the
     * text says, else as the compiler chooses. */
    unsigned warps, stages;
    /* GPU targets: optimisation level of NVIDIA's assembler, 1 to 3; 0: as the
     * tuned configuration says, else its own. */
    unsigned ptxas_level;
    /* no_load: leave it to the first launch (or tilec_kernel_load) to load the
     * code on a device (GPU targets). no_cache: compile, and keep nothing. */
    int no_load, no_cache;
    /* GPU targets with TMA copies: which programs compute which tiles. */
    tilec_tiles tiles;
    /* GPU targets: how exact products of float32 are that do not say it:
     * "ieee" (NULL), "tf32" (operands of 11 bits, on tensor cores), "tf32x3"
     * (three such products, almost as exact as ieee). The CPU does ieee. */
    const char *float32_precision;
    tilec_enforce enforce;
    /* Reads a file that a text imports (`import "FILE"`, relative to the folder
     * of the text's name), or that a binding names ("FILE.tile@function"):
     * *text from malloc, which the library frees; 0: it cannot be read. NULL:
     * there are no such files. It gets `user`. */
    int (*read_source)(void *user, const char *file, char **text);
    /* Launches give a workspace (tilec_kernel_workspace): where the library
     * chooses the sides of tiles, CTAs may share a tile (split(auto), section
     * 11 of ir/LANGUAGE.md), and then the kernel is a plan. */
    int may_split;
} tilec_compile_options;

/* Compiles one kernel of the given texts. Functions `@name` that they mention
 * and don't define are taken from the embedded mods. On failure *out is NULL
 * and the diagnostics say why. Each compile starts with none.
 *
 * An embedded kernel (one source, without a text) takes what the options leave
 * open of tile sizes, warps and stages from the tuned configurations, by
 * target, data type and sizes of the examples. Any other kernel takes sides of
 * tiles (`BM: block`) by the cost model, for tensors of those sizes. */
TILEC_API tilec_status tilec_compile(tilec_context *cx,
                                     const tilec_source *sources,
                                     size_t nsources,
                                     const tilec_compile_options *options,
                                     tilec_kernel **out);
TILEC_API void tilec_kernel_free(tilec_kernel *k);

/* A plan compiles to a tilec_kernel too, which is several: its launch runs them
 * one after the other, in one stream, and needs a workspace. Of a text with a
 * plan and kernels the plan is meant where no name is given. Tile sizes, warps
 * and stages that the options state hold for all its kernels. A kernel with
 * split(..) (ir/LANGUAGE.md, section 11) compiles to a plan.
 *
 * The kernels of a plan, in the order of their first launch; they belong to it.
 * NULL past the end, and of what is no plan. */
TILEC_API const tilec_kernel *tilec_kernel_part(const tilec_kernel *k,
                                                size_t index);

/* What a kernel's tune(..) (ir/LANGUAGE.md, section 4) lists as worth trying: a
 * line `NAME=VALUE,VALUE..` for each compile-time parameter, and for warps,
 * stages, ptxas and tiles, which stand for those of the options. Left out is
 * what the options and bindings give, and for the target "cpu" what is of GPUs.
 * Nothing is compiled. *text is "" where nothing is left, and for tilec_free.
 */
TILEC_API tilec_status tilec_tuning_space(tilec_context *cx,
                                          const tilec_source *sources,
                                          size_t nsources,
                                          const tilec_compile_options *options,
                                          char **text);

/* What a kernel is ------------------------------------------------------- */

typedef enum tilec_parameter_kind {
    TILEC_PARAM_TENSOR,
    TILEC_PARAM_POINTER,
    TILEC_PARAM_INT, /* i1 included */
    TILEC_PARAM_FLOAT
} tilec_parameter_kind;

typedef struct tilec_parameter {
    size_t size;
    const char *name; /* "q"; "mask.w" for what a mod captures */
    const char *type; /* "tensor<[?, ?, ?, 128] x bf16>" */
    tilec_parameter_kind kind;
    DLDataType dtype;     /* of the element */
    int captured;         /* by a mod: follows the kernel's own */
    int written;          /* the kernel may store through it */
    int32_t ndim;         /* of a tensor */
    const int64_t *shape; /* -1: any size */
    int unused;           /* with these bindings: a launch may leave it out */
} tilec_parameter;

TILEC_API const char *tilec_kernel_name(const tilec_kernel *k);
TILEC_API const char *tilec_kernel_target(const tilec_kernel *k);
TILEC_API size_t tilec_kernel_parameter_count(const tilec_kernel *k);
/* NULL past the end. */
TILEC_API const tilec_parameter *tilec_kernel_parameter(const tilec_kernel *k,
                                                        size_t index);
/* The value of a compile-time parameter as text: "128", "bf16", "@causal";
 * NULL where the kernel has none of that name. */
TILEC_API const char *tilec_kernel_binding(const tilec_kernel *k,
                                           const char *name);
/* The expression of the launch grid as tile IR. */
TILEC_API const char *tilec_kernel_grid_text(const tilec_kernel *k);
/* Working memory of a launch: on the CPU target of each thread, on a GPU the
 * shared memory of a block. */
TILEC_API uint64_t tilec_kernel_scratch_bytes(const tilec_kernel *k);
/* What was made of it: "tile" (the optimised program), "schedule" (roles,
 * buffers, and a step of each loop), "json" (all of the above), "llvm",
 * "llvm-opt" (after LLVM's passes); on the CPU target "asm"; of GPU targets
 * "machine" (the program with its layouts and copies), "ptx",
 * "cubin" (by the driver for its device, else, and where it has products of
 * warp groups, by ptxas where that is installed) and "sass" (of that, by
 * nvdisasm or cuobjdump). Of a plan: those of its kernels one after the other;
 * PTX and cubin (by ptxas) are one module. *text is for tilec_free. */
TILEC_API tilec_status tilec_kernel_emit(const tilec_kernel *k,
                                         const char *what, char **text,
                                         tilec_error *error);
/* The same with its size: a cubin is no text. */
TILEC_API tilec_status tilec_kernel_emit_data(const tilec_kernel *k,
                                              const char *what, char **data,
                                              size_t *size, tilec_error *error);

/* GPU targets: how a kernel's loads and products are done, as a table to be
 * read: source lines, contiguous bytes, vectors, what is asynchronous and why
 * the rest is not, bank conflicts, instructions. It is compiled for this, up to
 * code generation. *text is for tilec_free. */
TILEC_API tilec_status tilec_inspect(tilec_context *cx,
                                     const tilec_source *sources,
                                     size_t nsources,
                                     const tilec_compile_options *options,
                                     char **text);

/* GPU targets: what became of a kernel, as a JSON document (docs/inspector.md):
 * its text after each pass, LLVM IR, PTX and machine code with the lines that
 * belong together, layouts, buffers, remarks, what makes it slow. ptxas and
 * nvdisasm are used if they are there. It is compiled for this. With
 * TILEC_INPUT there is a document too, of what is wrong with the text. *json is
 * for tilec_free. */
TILEC_API tilec_status tilec_inspect_json(tilec_context *cx,
                                          const tilec_source *sources,
                                          size_t nsources,
                                          const tilec_compile_options *options,
                                          char **json);
/* One HTML file that shows such a document, in a browser without a network.
 * against: another document, to be compared with it; or NULL. *page is for
 * tilec_free. */
TILEC_API tilec_status tilec_inspect_page(const char *json, const char *against,
                                          char **page);

/* GPU targets: what a launch takes of the device. */
typedef struct tilec_resources {
    size_t size;
    unsigned warps;         /* of 32 threads, that compute, a block */
    unsigned shared_bytes;  /* a block */
    unsigned registers;     /* a thread; this and below: 0, NULL until loaded */
    unsigned spilled_bytes; /* a thread: local memory */
    const char *device;     /* the name of the one it was loaded on last */
    unsigned threads;       /* a block: the warps', and those that copy */
} tilec_resources;
/* TILEC_USAGE: the CPU target has none. */
TILEC_API tilec_status tilec_kernel_resources(const tilec_kernel *k,
                                              tilec_resources *resources,
                                              tilec_error *error);
/* GPU targets: loads the code on a CUDA device (-1: the one of the current
 * context, else 0), in all its variants. tilec_compile has done so for the
 * current device, if there was one, but for the variants that it did not need;
 * a launch does what is missing. Call it before a launch that must not compile
 * or load: the first one on another device, or one that a stream captures; and
 * between captures of thousands of launches, each of which keeps some memory of
 * the kernel's until that is freed. */
TILEC_API tilec_status tilec_kernel_load(const tilec_kernel *k, int device,
                                         tilec_error *error);

/* Launch ----------------------------------------------------------------- */

typedef struct tilec_launch_options {
    size_t size;
    void *stream; /* GPU targets: the CUstream; the CPU has none: NULL */
    int threads;  /* CPU target: at most so many; 0: one a core that the
                   * calling thread may use */
    /* CPU target: output of the kernel's `print`, one line without its end a
     * call, from any thread but never from two at once. NULL: dropped. GPU
     * targets do not call it: the driver's printf writes the same lines to
     * the process's standard output, at the latest when the stream is waited
     * for, and loses the oldest ones if its buffer is full. */
    void (*print)(void *user, const char *line);
    /* CPU target: now and then, from one thread at a time: the calling one,
     * unless the context has a parallel_for. NULL: not wanted. */
    void (*progress)(void *user, int64_t done, int64_t total);
    void *user;
    /* GPU targets: look up each tensor's memory before the launch, and say
     * which one is not on the device or reaches beyond its allocation.
     * Attention over a cache, all targets: read lengths and tables (on a GPU
     * the stream is waited for), and say which entry is wrong. */
    int check_memory;
    /* CPU target: run only each such program of the grid, counted back from
     * the last one: a sample of a result that takes too long. 0: all. */
    int64_t every;
    /* Plans: memory for what lies between their kernels, on the GPU or (CPU
     * target) of the host, aligned to 256 bytes, and its size: at least what
     * tilec_kernel_workspace says. What is in it does not matter, before or
     * after; launches that may run at the same time need one each. */
    void *workspace;
    uint64_t workspace_bytes;
} tilec_launch_options;

/* Runs the kernel over its grid; on the CPU returns when it is done. On a GPU
 * the launch is put into the stream; it neither allocates nor waits (but that
 * the ninth in a row that is not captured has the driver make a graph of it,
 * see no_graphs), and may be captured into a CUDA graph (which must not run
 * concurrently with itself: two instances of it need two captures). Tensors are
 * then kDLCUDA (kDLCUDAManaged and kDLCUDAHost serve as well), all of one
 * device, whose current context is used if there is one, else its primary
 * context.
 *
 * Arguments come by position, by name, or positions first and then names; all
 * parameters must be given. Checked before anything runs: data type, rank,
 * fixed dims, sizes (at most 2^31 - 2^16), device, alignment to the element,
 * data not NULL unless a dim is 0, and the kernel's own `assert`s of its grid.
 * strides == NULL is row-major; any other strides are taken as they are, 0 and
 * negative ones included. Tensors that are written should not overlap others.
 */
TILEC_API tilec_status tilec_launch(const tilec_kernel *k,
                                    const tilec_argument *args, size_t nargs,
                                    const tilec_launch_options *options,
                                    tilec_error *error);
/* The workspace that a launch with arguments of these shapes needs; 0 unless it
 * is a plan. Data does not matter, and arguments that no size depends on may be
 * missing. */
TILEC_API tilec_status tilec_kernel_workspace(const tilec_kernel *k,
                                              const tilec_argument *args,
                                              size_t nargs, uint64_t *bytes,
                                              tilec_error *error);
/* Waits for the launches in a stream, and says what went wrong in them: an
 * `assert` of the kernel that failed since the last call (the first one, with
 * its place), or what the driver found. On the CPU there is nothing to wait
 * for. */
TILEC_API tilec_status tilec_kernel_synchronize(const tilec_kernel *k,
                                                void *stream,
                                                tilec_error *error);
/* The grid that tilec_launch would run over; checks the same. */
TILEC_API tilec_status tilec_kernel_grid(const tilec_kernel *k,
                                         const tilec_argument *args,
                                         size_t nargs, int32_t grid[3],
                                         tilec_error *error);

/* GPUs ------------------------------------------------------------------- */

/* For programs without a framework that manages device memory. */
typedef struct tilec_device tilec_device;

/* The CUDA device of that number; -1: that of the current CUDA context, else
 * 0. cx may be NULL: says which driver (see cuda_library). */
TILEC_API tilec_status tilec_device_open(const tilec_context *cx, int ordinal,
                                         tilec_device **out,
                                         tilec_error *error);
/* Its tensors and events must be gone. */
TILEC_API void tilec_device_free(tilec_device *d);
TILEC_API const char *tilec_device_name(const tilec_device *d);
TILEC_API int tilec_device_ordinal(const tilec_device *d);

/* A tensor on the device with the shape and strides of one on the host, and
 * its bytes (zeros where data is NULL), those between its elements too. */
TILEC_API tilec_status tilec_device_copy(const tilec_device *d,
                                         const DLTensor *host, DLTensor **out,
                                         tilec_error *error);
TILEC_API void tilec_device_drop(const tilec_device *d, DLTensor *tensor);
/* Between tensors of the same shape and strides, when all work before in the
 * default stream is done. */
TILEC_API tilec_status tilec_device_read(const tilec_device *d,
                                         const DLTensor *from,
                                         const DLTensor *host,
                                         tilec_error *error);
TILEC_API tilec_status tilec_device_write(const tilec_device *d,
                                          const DLTensor *host,
                                          const DLTensor *to,
                                          tilec_error *error);
/* Puts into the stream that all bytes become `byte`. */
TILEC_API tilec_status tilec_device_fill(const tilec_device *d,
                                         const DLTensor *t, int byte,
                                         void *stream, tilec_error *error);
/* Waits for all that was put into streams of the device. */
TILEC_API tilec_status tilec_device_synchronize(const tilec_device *d,
                                                tilec_error *error);

/* A moment in a stream: two of them time what stands between. */
typedef struct tilec_event tilec_event;
TILEC_API tilec_status tilec_event_new(const tilec_device *d, tilec_event **out,
                                       tilec_error *error);
TILEC_API void tilec_event_free(tilec_event *e);
TILEC_API tilec_status tilec_event_record(tilec_event *e, void *stream,
                                          tilec_error *error);
/* Waits for `to`. */
TILEC_API tilec_status tilec_event_elapsed(const tilec_event *from,
                                           const tilec_event *to,
                                           double *milliseconds,
                                           tilec_error *error);

/* The cache of compiled code --------------------------------------------- */

/* Code is kept in the context's cache_folder, a file an entry, and found there
 * by any process that compiles the same: text, bindings, target (for "cpu":
 * that CPU), options, tilec itself. Processes and threads may share a folder.
 * What is damaged counts as missing; what cannot be kept (a full disk) is no
 * error. The machine code is kept along, but that of products of warp groups
 * (sm_90a): the driver's own cache has it, unless a ptxas is given.
 *
 * What is in the folder is run. One that another user owns, or that others may
 * write to, is not used: a compile warns (once a context), the functions below
 * return TILEC_INPUT.
 * Events, remarks and verify_each make a compile look away from it. */

typedef struct tilec_cache_entry {
    size_t size;
    const char *key;             /* 32 hexadecimal digits: KEY.tilec */
    const char *kernel, *target; /* NULL: the file is damaged */
    uint64_t bytes;
    int64_t used; /* last; seconds since 1970 */
} tilec_cache_entry;

/* NULL: there is none. */
TILEC_API const char *tilec_cache_folder(const tilec_context *cx);
/* Calls visit for all entries, those used last first. */
TILEC_API tilec_status
tilec_cache_list(const tilec_context *cx,
                 void (*visit)(void *user, const tilec_cache_entry *entry),
                 void *user, tilec_error *error);
/* *deleted (may be NULL): how many. */
TILEC_API tilec_status tilec_cache_clear(const tilec_context *cx,
                                         size_t *deleted, tilec_error *error);
/* Whether tilec_compile would find its code there, and where not, in what the
 * nearest entry differs. *text is for tilec_free. */
TILEC_API tilec_status tilec_cache_why(tilec_context *cx,
                                       const tilec_source *sources,
                                       size_t nsources,
                                       const tilec_compile_options *options,
                                       char **text);

#ifdef __cplusplus
}
template <typename T> static inline T tilec_init()
{
    T t = T();
    t.size = sizeof(T);
    return t;
}
#endif

#include "tilec/append.h"
#include "tilec/attention.h"
#include "tilec/bundle.h"
#include "tilec/kvcache.h"
#include "tilec/safetensors.h"

#endif
