/* SPDX-License-Identifier: Apache-2.0
 *
 * A mod expression to tile IR. `causal & sliding_window(w=8)` gives
 *
 *     func @mask(%at_b: i32, %at_h: i32, %at_q: i32, %at_k: i32,
 *                %w: i32) -> i1 {
 *       %r0 = @causal(%at_b, %at_h, %at_q, %at_k)
 *       %r1 = @sliding_window(%at_b, %at_h, %at_q, %at_k, %w)
 *       %r2 = %r0 and %r1
 *       return %r2
 *     }
 *
 * and the value mask.w = 8: a run-time value, so that another window needs no
 * other kernel. Values that two mods capture by one name are shared; if the
 * expression gives them different values (or their types differ) they are named
 * after the mod: mask.sliding_window.w, mask.sliding_window_2.w.
 *
 * `shifted(causal)` calls its mods at positions that count from elsewhere, for
 * queries and keys that are a part of longer sequences:
 *
 *     %at_q.0 = %at_q + %q_offset
 *     %at_k.0 = %at_k + %k_offset
 *     %at_h.0 = %at_h + %h_offset
 *     %r0 = @causal(%at_b, %at_h.0, %at_q.0, %at_k.0)
 *
 * `mapped(causal)` reads them: %q_map[%at_q], %k_map[%at_k]. The lengths that
 * these mods capture are q_total and kv_total.
 */
#include "lib/mods/mods_tree.h"

#include "lib/program/link.h"

#include <string.h>

/* The first parameters of each kind of mod, and its result. */
static const struct {
    const char *what, *prefix, *result;
    unsigned nfixed;
    const char *fixed; /* as parameters */
    tc_kind kinds[5];
    tc_kind result_kind;
    const char *signature;
} kinds[] = {
    {"mask",
     "mask",
     "i1",
     4,
     "%at_b: i32, %at_h: i32, %at_q: i32, %at_k: i32",
     {TC_I32, TC_I32, TC_I32, TC_I32},
     TC_I1,
     "(b: i32, h: i32, q: i32, k: i32, ...) -> i1"},
    {"score",
     "score",
     "f32",
     5,
     "%at_score: f32, %at_b: i32, %at_h: i32, %at_q: i32, %at_k: i32",
     {TC_F32, TC_I32, TC_I32, TC_I32, TC_I32},
     TC_F32,
     "(score: f32, b: i32, h: i32, q: i32, k: i32, ...) -> f32"},
};

/* A captured parameter of the composed function. */
struct captured {
    const char *name;
    const tc_type *type;
    bool has_value;
    tc_number value;
};

struct composer {
    tc_job *job;
    tc_arena *arena;
    const tc_mod_expr *e;
    struct captured *list;
    unsigned nlist;
    tc_text body;
    unsigned nresults;
    const char *at; /* head, query and key of the mods that are called */
    unsigned nplaces;
};

/* ---- Finding the functions, and whether they are what is wanted ---- */

static bool unknown_mod(struct composer *c, const tc_mod_node *use)
{
    unsigned nmods, n = 0;
    const char **mods = tc_mod_names(c->arena, &nmods);
    tc_each_func (f, c->job->module)
        n++;
    const char **names = tc_arena_array(c->arena, const char *, n + nmods);
    memcpy(names, mods, nmods * sizeof *names);
    n = nmods;
    tc_each_func (f, c->job->module)
        names[n++] = f->name;
    const char *near = tc_nearest_name(use->name, names, n);
    return tc_error(
        c->job->cx, tc_mod_loc(c->e, use), "there is no %s function `%s`%s%s%s",
        kinds[c->e->kind].what, use->name, near ? "; did you mean `" : "",
        near ? near : "", near ? "`?" : "");
}

static bool has_signature(const tc_func *f, tc_mod_kind kind)
{
    if (f->is_kernel || f->nparams || f->nresults != 1 ||
        f->body->nargs < kinds[kind].nfixed ||
        f->results[0]->kind != kinds[kind].result_kind)
        return false;
    for (unsigned i = 0; i < kinds[kind].nfixed; i++)
        if (f->body->args[i]->type->kind != kinds[kind].kinds[i])
            return false;
    return true;
}

static bool wrong_signature(struct composer *c, const tc_mod_node *use,
                            const tc_func *f)
{
    tc_mod_kind kind = c->e->kind;
    tc_mod_kind other = kind == TC_MOD_MASK ? TC_MOD_SCORE : TC_MOD_MASK;
    tc_loc loc = tc_mod_loc(c->e, use);
    if (has_signature(f, other))
        tc_error(c->job->cx, loc,
                 "`%s` is a %s function, expected a %s function", use->name,
                 kinds[other].what, kinds[kind].what);
    else
        tc_error(c->job->cx, loc, "`%s` is no %s function: expected %s",
                 use->name, kinds[kind].what, kinds[kind].signature);
    tc_note(c->job->cx, f->loc, "@%s is here", use->name);
    return false;
}

static const tc_func *find_mod(struct composer *c, const tc_mod_node *use)
{
    const tc_func *f = tc_func_find(c->job->module, use->symbol);
    if (!f)
        unknown_mod(c, use);
    else if (!has_signature(f, c->e->kind))
        wrong_signature(c, use, f);
    else
        return f;
    return NULL;
}

/* ---- Captured parameters ---- */

static const tc_mod_arg *given(const tc_mod_node *use, const char *name)
{
    for (const tc_mod_arg *a = use->args; a; a = a->next)
        if (strcmp(a->name, name) == 0)
            return a;
    return NULL;
}

static tc_loc arg_loc(const struct composer *c, const tc_mod_arg *a)
{
    return tc_mod_place(c->e, a->at, strlen(a->name));
}

static bool check_value(struct composer *c, const tc_mod_node *use,
                        const tc_mod_arg *a, const tc_type *type)
{
    if (!a->is_number)
        return true;
    if (!tc_type_is_scalar(type) || type->kind == TC_PTR)
        return tc_error(c->job->cx, arg_loc(c, a),
                        "`%s` of `%s` is %s, not a number: give the tensor at "
                        "launch, or its name here",
                        a->name, use->name, tc_type_name(c->job->cx, type));
    if (a->number.is_float && !tc_type_is_float(type))
        return tc_error(c->job->cx, arg_loc(c, a),
                        "`%s` of `%s` is %s, expected a whole number", a->name,
                        use->name, tc_type_name(c->job->cx, type));
    return true;
}

/* Values whose names the function does not capture. */
static bool check_args(struct composer *c, const tc_mod_node *use,
                       const tc_func *f)
{
    unsigned fixed = kinds[c->e->kind].nfixed;
    tc_text list = {.arena = c->arena};
    tc_text_add(&list, "");
    for (unsigned i = fixed; i < f->body->nargs; i++)
        tc_text_printf(&list, "%s%s", i > fixed ? ", " : "",
                       f->body->args[i]->name);
    for (const tc_mod_arg *a = use->args; a; a = a->next) {
        bool found = false;
        for (unsigned i = fixed; i < f->body->nargs; i++)
            if (strcmp(f->body->args[i]->name, a->name) == 0) {
                found = true;
                if (!check_value(c, use, a, f->body->args[i]->type))
                    return false;
            }
        if (!found)
            return tc_error(c->job->cx, arg_loc(c, a),
                            "`%s` captures no `%s`, only: %s", use->name,
                            a->name, list.len ? list.data : "nothing");
    }
    return true;
}

static bool same(const struct captured *a, const struct captured *b)
{
    if (a->type != b->type || a->has_value != b->has_value)
        return false;
    return !a->has_value ||
           (a->value.i == b->value.i &&
            (a->value.f == b->value.f ||
             (a->value.f != a->value.f && b->value.f != b->value.f)));
}

static const struct captured *mods_find(const struct composer *c,
                                        const char *name)
{
    for (unsigned i = 0; i < c->nlist; i++)
        if (strcmp(c->list[i].name, name) == 0)
            return &c->list[i];
    return NULL;
}

/* The lengths that a kernel gives are not those of placed mods. */
static const char *own_name(const tc_mod_node *use, const tc_value *arg)
{
    if (use->is_placed && strcmp(arg->name, "q_len") == 0)
        return "q_total";
    if (use->is_placed && strcmp(arg->name, "kv_len") == 0)
        return "kv_total";
    return arg->name;
}

/* A use and its captured parameter `arg`, under the plain name. */
static struct captured plain(const tc_mod_node *use, const tc_value *arg)
{
    const tc_mod_arg *a = given(use, arg->name);
    struct captured x = {.name = own_name(use, arg), .type = arg->type};
    if (a && a->is_number) {
        x.has_value = true;
        x.value = a->number;
    } else if (a) {
        x.name = a->rename;
    }
    return x;
}

/* Does another use give a different value for that name? */
static bool is_contested(const struct composer *c, const struct captured *x)
{
    for (unsigned i = 0; i < c->e->nuses; i++) {
        const tc_mod_node *use = c->e->uses[i];
        const tc_func *f = tc_func_find(c->job->module, use->symbol);
        for (unsigned j = kinds[c->e->kind].nfixed; j < f->body->nargs; j++) {
            struct captured y = plain(use, f->body->args[j]);
            if (strcmp(x->name, y.name) == 0 && !same(x, &y))
                return true;
        }
    }
    return false;
}

/* The name of `x` in the composed function: the first that is free, or taken
 * by the same. */
static const char *capture(struct composer *c, const tc_mod_node *use,
                           struct captured x)
{
    const char *name = x.name;
    bool skip = x.has_value && is_contested(c, &x);
    const struct captured *other = skip ? NULL : mods_find(c, x.name);
    for (unsigned i = 1; skip || (other && !same(other, &x)); i++) {
        x.name =
            i == 1 ? tc_arena_printf(c->arena, "%s.%s", use->name, name)
                   : tc_arena_printf(c->arena, "%s_%u.%s", use->name, i, name);
        skip = false;
        other = mods_find(c, x.name);
    }
    if (!other)
        c->list[c->nlist++] = x;
    return x.name;
}

static bool capture_all(struct composer *c, tc_mod_node *use)
{
    const tc_func *f = tc_func_find(c->job->module, use->symbol);
    unsigned fixed = kinds[c->e->kind].nfixed, n = f->body->nargs - fixed;
    use->captured = tc_arena_array(c->arena, const char *, n);
    for (unsigned i = 0; i < n; i++)
        use->captured[i] =
            capture(c, use, plain(use, f->body->args[fixed + i]));
    return true;
}

/* Where the mods of a place are. */
static void capture_place(struct composer *c, const char *name, bool is_map)
{
    tc_context *cx = c->job->cx;
    const tc_type *type = tc_type_scalar(cx, TC_I32);
    if (is_map)
        type = tc_type_shaped(cx, TC_TENSOR, 1, (const tc_dim *[]){NULL}, type);
    if (!mods_find(c, name))
        c->list[c->nlist++] = (struct captured){.name = name, .type = type};
}

static void capture_places(struct composer *c, const tc_mod_node *node)
{
    if (!node)
        return;
    bool is_map = node->kind == TC_MOD_MAPPED;
    if (is_map || node->kind == TC_MOD_SHIFTED) {
        capture_place(c, is_map ? "q_map" : "q_offset", is_map);
        capture_place(c, is_map ? "k_map" : "k_offset", is_map);
        capture_place(c, "h_offset", false);
    }
    capture_places(c, node->a);
    capture_places(c, node->b);
}

static bool collect(struct composer *c)
{
    enum { OF_PLACES = 5 };
    unsigned room = OF_PLACES;
    bool ok = true;
    for (unsigned i = 0; i < c->e->nuses; i++) {
        const tc_func *f = find_mod(c, c->e->uses[i]);
        ok &= f && check_args(c, c->e->uses[i], f);
        room += f ? f->body->nargs : 0;
    }
    if (!ok)
        return false;
    c->list = tc_arena_array(c->arena, struct captured, room);
    for (unsigned i = 0; i < c->e->nuses; i++)
        capture_all(c, c->e->uses[i]);
    capture_places(c, c->e->root);
    return true;
}

/* ---- The text ---- */

/* Statements of a node; returns the number of its %r. `score` is what a score
 * function is applied to. */
static unsigned write_node(struct composer *c, const tc_mod_node *node,
                           const char *score);

static unsigned write_use(struct composer *c, const tc_mod_node *use,
                          const char *score)
{
    const tc_func *f = tc_func_find(c->job->module, use->symbol);
    unsigned r = c->nresults++, n = f->body->nargs - kinds[c->e->kind].nfixed;
    tc_text_printf(&c->body, "  %%r%u = @%s(%s%%at_b, %s", r, use->symbol,
                   score, c->at);
    for (unsigned i = 0; i < n; i++)
        tc_text_printf(&c->body, ", %%%s", use->captured[i]);
    tc_text_add(&c->body, ")\n");
    return r;
}

static unsigned write_placed(struct composer *c, const tc_mod_node *node,
                             const char *score)
{
    unsigned i = c->nplaces++;
    const char *outer = c->at;
    bool is_map = node->kind == TC_MOD_MAPPED;
    for (int k = 0; k < 2; k++)
        tc_text_printf(&c->body,
                       is_map ? "  %%at_%c.%u = %%%c_map[%%at_%c]\n"
                              : "  %%at_%c.%u = %%%c_offset + %%at_%c\n",
                       "qk"[k], i, "qk"[k], "qk"[k]);
    tc_text_printf(&c->body, "  %%at_h.%u = %%at_h + %%h_offset\n", i);
    c->at =
        tc_arena_printf(c->arena, "%%at_h.%u, %%at_q.%u, %%at_k.%u", i, i, i);
    unsigned r = write_node(c, node->a, score);
    c->at = outer;
    return r;
}

static unsigned write_then(struct composer *c, const tc_mod_node *node,
                           const char *score)
{
    unsigned a = write_node(c, node->a, score);
    return write_node(c, node->b, tc_arena_printf(c->arena, "%%r%u, ", a));
}

static unsigned write_node(struct composer *c, const tc_mod_node *node,
                           const char *score)
{
    if (node->kind == TC_MOD_USE)
        return write_use(c, node, score);
    if (node->kind == TC_MOD_THEN)
        return write_then(c, node, score);
    if (node->kind == TC_MOD_SHIFTED || node->kind == TC_MOD_MAPPED)
        return write_placed(c, node, score);
    unsigned a = write_node(c, node->a, score);
    unsigned b = node->b ? write_node(c, node->b, score) : 0;
    unsigned r = c->nresults++;
    if (node->kind == TC_MOD_NOT)
        tc_text_printf(&c->body, "  %%r%u = not %%r%u\n", r, a);
    else
        tc_text_printf(&c->body, "  %%r%u = %%r%u %s %%r%u\n", r, a,
                       node->kind == TC_MOD_AND ? "and" : "or", b);
    return r;
}

static const char *free_name(struct composer *c, const char *name)
{
    const char *s = name;
    for (unsigned i = 2; tc_func_find(c->job->module, s); i++)
        s = tc_arena_printf(c->arena, "%s_%u", name, i);
    return s;
}

static tc_source write_func(struct composer *c, const char *name)
{
    tc_text out = {.arena = c->arena};
    tc_text_printf(&out, "func @%s(%s", name, kinds[c->e->kind].fixed);
    for (unsigned i = 0; i < c->nlist; i++) {
        tc_text_printf(&out, ", %%%s: ", c->list[i].name);
        tc_type_print(&out, c->list[i].type);
    }
    const char *score = c->e->kind == TC_MOD_SCORE ? "%at_score, " : "";
    unsigned r = write_node(c, c->e->root, score);
    tc_text_printf(&out, ") -> %s {\n%s  return %%r%u\n}\n",
                   kinds[c->e->kind].result, c->body.data, r);
    return (tc_source){.name = tc_arena_printf(c->arena, "<function of the %s>",
                                               kinds[c->e->kind].what),
                       .text = out.data,
                       .len = out.len};
}

static void list_values(struct composer *c, tc_mod_func *out)
{
    out->values = tc_arena_array(c->arena, tc_mod_value, c->nlist);
    for (unsigned i = 0; i < c->nlist; i++)
        if (c->list[i].has_value)
            out->values[out->nvalues++] = (tc_mod_value){
                tc_arena_printf(c->arena, "%s.%s", kinds[c->e->kind].prefix,
                                c->list[i].name),
                c->list[i].value};
}

bool tc_mods_compose(tc_job *job, const tc_mod_expr *e, tc_mod_func *out)
{
    struct composer c = {.job = job, .arena = &job->cx->arena, .e = e};
    c.body.arena = c.arena;
    c.at = "%at_h, %at_q, %at_k";
    *out = (tc_mod_func){0};
    if (!collect(&c))
        return false;
    out->name = free_name(&c, kinds[e->kind].prefix);
    out->source = write_func(&c, out->name);
    list_values(&c, out);
    return true;
}
