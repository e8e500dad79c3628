/* SPDX-License-Identifier: Apache-2.0
 *
 * A launch as a CUDA graph of one kernel, which takes the driver half as long
 * as a launch (claim launch-graph). A graph takes 20 to 80 us to make, and 116
 * KB of the device's memory.
 */
#include "lib/gpu/launch_graph_cache.h"

#include <stdlib.h>

struct tc_gpu_graph {
    const tc_cuda *cuda;
    tc_cuda_context context;
    tc_cu_stream stream;
    tc_cu_graph graph;
    tc_cu_graph_node node;
    tc_cu_graph_exec exec;
};

/* Since CUDA 12.0. */
static bool has_graphs(const tc_cuda *c)
{
    return c->graph_new && c->graph_free && c->graph_add_kernel &&
           c->graph_make && c->graph_exec_set && c->graph_exec_free &&
           c->graph_launch;
}

static tc_cu_kernel_node node_of(const tc_gpu_call *c, void **extra)
{
    return (tc_cu_kernel_node){.function = c->loaded->function,
                               .shape = tc_gpu_shape(c),
                               .extra = extra};
}

static int make(tc_gpu_graph *g, const tc_gpu_call *c)
{
    size_t n = c->n;
    void *extra[] = {TC_CU_PARAMS_AT, c->bytes, TC_CU_PARAMS_SIZE, &n,
                     TC_CU_PARAMS_END};
    tc_cu_kernel_node node = node_of(c, extra);
    int code = g->cuda->graph_new(&g->graph, 0);
    if (!code)
        code = g->cuda->graph_add_kernel(&g->node, g->graph, NULL, 0, &node);
    return code ? code : g->cuda->graph_make(&g->exec, g->graph, 0);
}

tc_gpu_graph *tc_gpu_graph_new(const tc_gpu_call *c, tc_cu_stream stream)
{
    const tc_cuda *cuda = c->loaded->cuda;
    tc_gpu_graph *g = has_graphs(cuda) ? calloc(1, sizeof *g) : NULL;
    if (!g)
        return NULL;
    g->cuda = cuda;
    g->context = c->loaded->context;
    g->stream = stream;
    int mode = tc_cuda_relax(cuda), code = make(g, c);
    tc_cuda_restore(cuda, mode);
    if (!code)
        return g;
    tc_gpu_graph_free(g);
    return NULL;
}

/* Where it runs, it does so on: the driver frees it afterwards. */
void tc_gpu_graph_free(tc_gpu_graph *g)
{
    tc_cu_context popped;
    if (!g)
        return;
    if (tc_cuda_resume(g->cuda, &g->context)) {
        int mode = tc_cuda_relax(g->cuda);
        if (g->exec)
            g->cuda->graph_exec_free(g->exec);
        if (g->graph)
            g->cuda->graph_free(g->graph);
        tc_cuda_restore(g->cuda, mode);
        g->cuda->context_pop(&popped);
    }
    free(g);
}

/* One launch of it begins when that before it is done: into another stream it
 * would wait for what that one waits for. */
bool tc_gpu_graph_fits(const tc_gpu_graph *g, const tc_gpu_call *c,
                       tc_cu_stream stream)
{
    return g->stream == stream &&
           g->context.number == c->loaded->context.number;
}

int tc_gpu_graph_set(tc_gpu_graph *g, const tc_gpu_call *c)
{
    size_t n = c->n;
    void *extra[] = {TC_CU_PARAMS_AT, c->bytes, TC_CU_PARAMS_SIZE, &n,
                     TC_CU_PARAMS_END};
    tc_cu_kernel_node node = node_of(c, extra);
    return g->cuda->graph_exec_set(g->exec, g->node, &node);
}

int tc_gpu_graph_launch(const tc_gpu_graph *g)
{
    return g->cuda->graph_launch(g->exec, g->stream);
}
