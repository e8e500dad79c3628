/* SPDX-License-Identifier: Apache-2.0
 *
 * tilec/_fast.abi3.so: repeated calls of lib/python/tilec on torch tensors,
 * without the Python code of a call. The package does without it.
 *
 *     call = _fast.Call(inputs=3, ...)      what a call of _prepared.py needs
 *     table[_fast.key(q, k, v)] = call
 *     found = _fast.run(table, q, k, v)     as call(q, k, v); None: none fits
 *
 * A key holds types, shapes, strides and devices of tensors, types of numbers,
 * which arguments are None, and whether the second and third tensor begin at
 * the same address (v may be columns of k). A Call has C structs that Python
 * made (_launch.py): it writes the addresses of tensors, numbers, the stream
 * and the workspace to them, and runs a function of libtilec on them. Tensors
 * are read through DLPack's C exchange API (torch 2.10), so one binary serves
 * all later versions of torch, and the limited API serves all Pythons.
 *
 * Calls come with the GIL; structs are busy while the function runs without.
 */
#define Py_LIMITED_API 0x03090000
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "dlpack/dlpack.h"

#include <stdint.h>
#include <string.h>

/* DLPack 1.3, which the package's own header is older than. */
typedef struct exchange_api {
    struct {
        uint32_t major, minor;
        struct exchange_api *previous;
    } header;
    void *allocator, *from_object, *to_object;
    int (*tensor_from_object)(void *object, DLTensor *out);
    int (*current_stream)(DLDeviceType type, int32_t number, void **out);
} exchange_api;

/* As _launch.py expects it: of what a Call is given. */
enum { VERSION = 2 };

enum { MOST_TENSORS = 32, MOST_DIMS = 8, WORDS = 5, MOST_STRUCTS = 8 };

/* Of one process: set by `setup`. */
static const exchange_api *api;
static PyTypeObject *types[2]; /* Tensor, Parameter */
static PyTypeObject *call_type;
static PyObject *is_grad_enabled, *is_capturing, *current_device;
static PyObject *will_change; /* told of a tuple of tensors to be written */
static PyObject *uses;        /* an iterator: the time of the last use */
static PyObject *name_requires_grad, *name_is_neg, *name_used;

/* ---- What a call is like ---- */

/* What a tensor adds to a key; padding is none. */
typedef struct head {
    int32_t device, number, ndim;
    uint8_t code, bits;
    uint16_t lanes;
} head;

typedef struct key {
    size_t n;
    unsigned char bytes[MOST_TENSORS * (sizeof(head) + 16 * MOST_DIMS) + 1];
} key;

static int is_tensor(PyObject *x)
{
    return Py_TYPE(x) == types[0] || Py_TYPE(x) == types[1];
}

static void add_bytes(key *k, const void *bytes, size_t n)
{
    memcpy(k->bytes + k->n, bytes, n);
    k->n += n;
}

/* 0: it is none that DLPack or a key takes. */
static int add_tensor(key *k, PyObject *x, DLTensor *t)
{
    if (api->tensor_from_object(x, t)) {
        PyErr_Clear();
        return 0;
    }
    if (t->ndim > MOST_DIMS || t->byte_offset || (t->ndim && !t->strides))
        return 0;
    head h = {(int32_t)t->device.device_type,
              t->device.device_id,
              t->ndim,
              t->dtype.code,
              t->dtype.bits,
              t->dtype.lanes};
    add_bytes(k, &h, sizeof h);
    add_bytes(k, t->shape, (size_t)t->ndim * sizeof *t->shape);
    add_bytes(k, t->strides, (size_t)t->ndim * sizeof *t->strides);
    return 1;
}

/* The type of a number or None, which is no head of a tensor: 0 if it is
 * neither. */
static int add_number(key *k, PyObject *x)
{
    int32_t kind = PyBool_Check(x)               ? -1
                   : PyLong_CheckExact(x)        ? -2
                   : Py_TYPE(x) == &PyFloat_Type ? -3
                   : x == Py_None                ? -4
                                                 : 0;
    add_bytes(k, &kind, sizeof kind);
    return kind;
}

/* Whether a lazy sign makes it other than its memory: 1, or -1 for an error. */
static int is_negated(PyObject *x)
{
    PyObject *found = PyObject_CallMethodObjArgs(x, name_is_neg, NULL);
    int is = found ? found != Py_False : -1;
    Py_XDECREF(found);
    return is;
}

/* Key and tensors of args[from], ..: NULL in tensors' data where args is a
 * number. 0: no key is made of them; an exception may be set. */
static int make_key(PyObject *args, Py_ssize_t from, key *k, DLTensor *tensors)
{
    Py_ssize_t n = PyTuple_Size(args) - from;
    if (n > MOST_TENSORS || !api)
        return 0;
    k->n = 0;
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *x = PyTuple_GetItem(args, from + i);
        if (!is_tensor(x) ? !add_number(k, x)
                          : !add_tensor(k, x, &tensors[i]) || is_negated(x))
            return 0;
    }
    if (n > 2 && is_tensor(PyTuple_GetItem(args, from + 1)) &&
        is_tensor(PyTuple_GetItem(args, from + 2))) {
        unsigned char same = tensors[1].data == tensors[2].data;
        add_bytes(k, &same, sizeof same);
    }
    return 1;
}

/* ---- Calls ---- */

/* Structs that Python made. */
typedef struct structs {
    int is_busy;
    uintptr_t words[WORDS]; /* arguments of the function */
    DLTensor *tensors;      /* by view */
    void **stream, **workspace;
    uint64_t *workspace_bytes;
    uintptr_t numbers[MOST_TENSORS]; /* by argument: where its number is */
} structs;

enum { NUMBER = -1, NONE = -2 };

typedef struct call {
    PyObject_HEAD uintptr_t function;
    PyObject *owner; /* Forward, Backward, _Ready: keeps what it needs */
    PyObject *held;  /* owners of structs */
    PyObject *plan, *on_capture; /* NULL: no plan */
    PyObject *makers;            /* of outputs: [(function, arguments)] */
    PyObject *make_workspace;    /* (function, arguments); NULL: none */
    uint64_t workspace;
    int ninputs, noutputs, gpu; /* gpu -1: the CPU */
    uint32_t written;           /* inputs that are, a bit each; of kernels */
    uint32_t free;     /* inputs whose shapes and strides come with each call */
    int has_gradients; /* where inputs require them, the owner makes the call */
    int views[2 * MOST_TENSORS]; /* of inputs (or NUMBER, NONE), of outputs */
    int nstructs;
    structs structs[MOST_STRUCTS];
} call;

static int set_used(call *c)
{
    if (!c->plan)
        return 0;
    PyObject *now = PyIter_Next(uses);
    int failed = now ? PyObject_SetAttr(c->plan, name_used, now) : -1;
    Py_XDECREF(now);
    return failed;
}

static int32_t number_from(PyObject *function)
{
    PyObject *found = PyObject_CallObject(function, NULL);
    long n = found ? PyLong_AsLong(found) : -1;
    Py_XDECREF(found);
    return (int32_t)n;
}

static int set_number(uintptr_t at, PyObject *x)
{
    if (Py_TYPE(x) == &PyFloat_Type)
        *(double *)at = PyFloat_AsDouble(x);
    else
        *(int64_t *)at = PyLong_AsLongLong(x);
    return PyErr_Occurred() ? -1 : 0;
}

static PyObject *made(PyObject *maker)
{
    return PyObject_CallObject(PyTuple_GetItem(maker, 0),
                               PyTuple_GetItem(maker, 1));
}

static int data_of(PyObject *x, void **data)
{
    DLTensor t;
    if (api->tensor_from_object(x, &t))
        return -1;
    *data = t.data;
    return 0;
}

/* The outputs as a tuple, their addresses in the structs. */
static PyObject *make_outputs(call *c, structs *s)
{
    PyObject *found = PyTuple_New(c->noutputs);
    for (int i = 0; found && i < c->noutputs; i++) {
        PyObject *x = made(PyTuple_GetItem(c->makers, i));
        if (!x || data_of(x, &s->tensors[c->views[c->ninputs + i]].data)) {
            Py_XDECREF(x);
            Py_DECREF(found);
            return NULL;
        }
        PyTuple_SetItem(found, i, x);
    }
    return found;
}

static PyObject *make_workspace(call *c, structs *s)
{
    void *data = NULL;
    PyObject *x = made(c->make_workspace);
    if (x && data_of(x, &data)) {
        Py_DECREF(x);
        return NULL;
    }
    *s->workspace = (void *)(((uintptr_t)data + 255) & ~(uintptr_t)255);
    *s->workspace_bytes = c->workspace;
    return x;
}

static int run_function(const call *c, const structs *s)
{
    typedef int of_four(uintptr_t, uintptr_t, uintptr_t, uintptr_t);
    typedef int of_five(uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t);
    const uintptr_t *w = s->words;
    int status;
    Py_BEGIN_ALLOW_THREADS status =
        w[4] ? ((of_five *)c->function)(w[0], w[1], w[2], w[3], w[4])
             : ((of_four *)c->function)(w[0], w[1], w[2], w[3]);
    Py_END_ALLOW_THREADS return status;
}

/* Prepares what a GPU needs. 1: done; 0: Python is to make the call; -1: an
 * exception. */
static int prepare_gpu(call *c, structs *s)
{
    if (c->gpu < 0)
        return 1;
    if (number_from(current_device) != c->gpu)
        return PyErr_Occurred() ? -1 : 0;
    if (api->current_stream(kDLCUDA, c->gpu, s->stream))
        return -1;
    if (!c->on_capture)
        return 1;
    PyObject *found = PyObject_CallObject(is_capturing, NULL);
    int is = found ? found == Py_True : -1;
    Py_XDECREF(found);
    if (is == 1) {
        found = PyObject_CallFunctionObjArgs(c->on_capture, c->plan, NULL);
        is = found ? 1 : -1;
        Py_XDECREF(found);
    }
    return is < 0 ? -1 : 1;
}

static int set_inputs(call *c, structs *s, PyObject *args, Py_ssize_t from,
                      const DLTensor *tensors)
{
    for (int i = 0; i < c->ninputs; i++)
        if (c->views[i] >= 0) {
            DLTensor *t = &s->tensors[c->views[i]];
            t->data = tensors[i].data;
            if (c->free >> i & 1) {
                t->shape = tensors[i].shape;
                t->strides = tensors[i].strides;
            }
        } else if (c->views[i] == NUMBER &&
                   set_number(s->numbers[i], PyTuple_GetItem(args, from + i)))
            return -1;
    return 0;
}

static PyObject *fail(call *c, int status, const structs *s)
{
    return PyObject_CallMethod(c->owner, "fail", "iK", status,
                               (unsigned long long)(s - c->structs));
}

/* None: Python is to make the call, and to say what is wrong with it. */
static PyObject *run_with(call *c, structs *s, PyObject *args, Py_ssize_t from,
                          const DLTensor *tensors)
{
    if (set_inputs(c, s, args, from, tensors)) {
        PyErr_Clear();
        Py_RETURN_NONE;
    }
    int ready = prepare_gpu(c, s);
    if (ready < 0)
        return NULL;
    if (!ready)
        Py_RETURN_NONE;
    PyObject *workspace = NULL, *found = make_outputs(c, s);
    if (found && c->make_workspace && !(workspace = make_workspace(c, s)))
        Py_CLEAR(found);
    if (!found || set_used(c)) {
        Py_XDECREF(found);
        Py_XDECREF(workspace);
        return NULL;
    }
    int status = run_function(c, s);
    Py_XDECREF(workspace);
    if (!status)
        return found;
    Py_DECREF(found);
    return fail(c, status, s);
}

/* None: all structs are in use by other threads, or Python is to do it. */
static PyObject *run_call(call *c, PyObject *args, Py_ssize_t from,
                          const DLTensor *tensors)
{
    for (int i = 0; i < c->nstructs; i++)
        if (!c->structs[i].is_busy) {
            c->structs[i].is_busy = 1;
            PyObject *found = run_with(c, &c->structs[i], args, from, tensors);
            c->structs[i].is_busy = 0;
            return found;
        }
    Py_RETURN_NONE;
}

/* ---- Gradients and versions ---- */

static int is_true(PyObject *found)
{
    int is = found ? found == Py_True : -1;
    Py_XDECREF(found);
    return is;
}

/* Whether one of the inputs in the mask requires a gradient, where that counts.
 */
static int requires_grad(PyObject *args, Py_ssize_t from, int n, uint32_t mask)
{
    int is = is_true(PyObject_CallObject(is_grad_enabled, NULL));
    if (is <= 0)
        return is;
    for (int i = 0; i < n; i++) {
        PyObject *x = PyTuple_GetItem(args, from + i);
        if (!(mask >> i & 1) || !is_tensor(x))
            continue;
        is = is_true(PyObject_GetAttr(x, name_requires_grad));
        if (is)
            return is;
    }
    return 0;
}

static int raise_versions(const call *c, PyObject *args, Py_ssize_t from)
{
    Py_ssize_t n = 0;
    for (int i = 0; i < c->ninputs; i++)
        n += c->written >> i & 1;
    PyObject *list = PyTuple_New(n);
    n = 0;
    for (int i = 0; list && i < c->ninputs; i++)
        if (c->written >> i & 1) {
            PyObject *x = PyTuple_GetItem(args, from + i);
            Py_INCREF(x);
            PyTuple_SetItem(list, n++, x);
        }
    PyObject *done =
        list ? PyObject_CallFunctionObjArgs(will_change, list, NULL) : NULL;
    Py_XDECREF(list);
    Py_XDECREF(done);
    return done ? 0 : -1;
}

/* A call that fits. The owner: gradients are wanted. */
static PyObject *run_fitting(call *c, PyObject *args, Py_ssize_t from,
                             const DLTensor *tensors)
{
    uint32_t mask = c->has_gradients ? UINT32_MAX : c->written;
    int wanted = mask ? requires_grad(args, from, c->ninputs, mask) : 0;
    if (wanted < 0)
        return NULL;
    if (wanted && !c->has_gradients)
        Py_RETURN_NONE;
    if (wanted) {
        Py_INCREF(c->owner);
        return c->owner;
    }
    if (c->written && raise_versions(c, args, from))
        return NULL;
    return run_call(c, args, from, tensors);
}

/* ---- The module ---- */

/* NULL, with or without an exception. */
static PyObject *key_of(PyObject *args, Py_ssize_t from, DLTensor *tensors)
{
    key k;
    if (!make_key(args, from, &k, tensors)) {
        PyErr_Clear();
        return NULL;
    }
    return PyBytes_FromStringAndSize((const char *)k.bytes, (Py_ssize_t)k.n);
}

static PyObject *fast_key(PyObject *self, PyObject *args)
{
    (void)self;
    DLTensor tensors[MOST_TENSORS];
    PyObject *found = key_of(args, 0, tensors);
    if (found || PyErr_Occurred())
        return found;
    Py_RETURN_NONE;
}

static PyObject *fast_run(PyObject *self, PyObject *args)
{
    (void)self;
    DLTensor tensors[MOST_TENSORS];
    PyObject *k = PyTuple_Size(args) ? key_of(args, 1, tensors) : NULL;
    if (!k && PyErr_Occurred())
        return NULL;
    PyObject *c =
        k ? PyDict_GetItemWithError(PyTuple_GetItem(args, 0), k) : NULL;
    Py_XDECREF(k);
    if (!c && PyErr_Occurred())
        return NULL;
    if (!c)
        Py_RETURN_NONE;
    if (Py_TYPE(c) != call_type)
        return PyErr_Format(PyExc_TypeError, "a table has Calls alone");
    Py_INCREF(c); /* the table may lose it while it runs */
    PyObject *found = run_fitting((call *)c, args, 1, tensors);
    Py_DECREF(c);
    return found;
}

/* The addresses of tensors that are known to fit. */
static PyObject *call_call(PyObject *self, PyObject *args, PyObject *named)
{
    (void)named;
    call *c = (call *)self;
    DLTensor tensors[MOST_TENSORS];
    if (PyTuple_Size(args) != c->ninputs)
        return PyErr_Format(PyExc_TypeError, "expected %d inputs", c->ninputs);
    for (int i = 0; i < c->ninputs; i++) {
        PyObject *x = PyTuple_GetItem(args, i);
        if (c->views[i] >= 0 &&
            (!is_tensor(x) || api->tensor_from_object(x, &tensors[i]))) {
            PyErr_Clear();
            Py_RETURN_NONE;
        }
    }
    return run_call(c, args, 0, tensors);
}

static int read_views(call *c, PyObject *list)
{
    c->noutputs = (int)PyTuple_Size(c->makers);
    if (c->ninputs + c->noutputs != PyTuple_Size(list) ||
        c->ninputs > MOST_TENSORS || c->noutputs > MOST_TENSORS) {
        PyErr_SetString(PyExc_ValueError, "views: one an input and output");
        return -1;
    }
    for (int i = 0; i < c->ninputs + c->noutputs; i++)
        c->views[i] = (int)PyLong_AsLong(PyTuple_GetItem(list, i));
    return PyErr_Occurred() ? -1 : 0;
}

/* (words, tensors, stream, workspace, workspace_bytes, numbers) */
static int read_structs(structs *s, PyObject *from)
{
    PyObject *words, *numbers;
    unsigned long long tensors, stream, workspace, bytes;
    if (!PyArg_ParseTuple(from, "O!KKKKO!", &PyTuple_Type, &words, &tensors,
                          &stream, &workspace, &bytes, &PyTuple_Type, &numbers))
        return -1;
    s->tensors = (DLTensor *)(uintptr_t)tensors;
    s->stream = (void **)(uintptr_t)stream;
    s->workspace = (void **)(uintptr_t)workspace;
    s->workspace_bytes = (uint64_t *)(uintptr_t)bytes;
    for (Py_ssize_t i = 0; i < PyTuple_Size(words) && i < WORDS; i++)
        s->words[i] =
            (uintptr_t)PyLong_AsUnsignedLongLong(PyTuple_GetItem(words, i));
    for (Py_ssize_t i = 0; i < PyTuple_Size(numbers) && i < MOST_TENSORS; i++)
        s->numbers[i] =
            (uintptr_t)PyLong_AsUnsignedLongLong(PyTuple_GetItem(numbers, i));
    return PyErr_Occurred() ? -1 : 0;
}

static PyObject *own(PyObject *x)
{
    if (x == Py_None)
        return NULL;
    Py_INCREF(x);
    return x;
}

/* Of _prepared.py and _kernel.py alone. */
static int call_init(PyObject *self, PyObject *args, PyObject *named)
{
    static char *names[] = {
        "function", "owner",         "structs",        "held",
        "views",    "ninputs",       "makers",         "gpu",
        "plan",     "on_capture",    "make_workspace", "workspace",
        "written",  "has_gradients", "free",           NULL};
    call *c = (call *)self;
    unsigned long long function, workspace = 0;
    PyObject *owner, *list, *held, *views, *makers, *plan = Py_None;
    PyObject *on_capture = Py_None, *make = Py_None;
    unsigned written = 0, free = 0;
    if (!PyArg_ParseTupleAndKeywords(
            args, named, "KOO!OO!iO!i|OOOKIpI", names, &function, &owner,
            &PyTuple_Type, &list, &held, &PyTuple_Type, &views, &c->ninputs,
            &PyTuple_Type, &makers, &c->gpu, &plan, &on_capture, &make,
            &workspace, &written, &c->has_gradients, &free))
        return -1;
    if (c->owner) {
        PyErr_SetString(PyExc_TypeError, "a Call is made once");
        return -1;
    }
    c->function = (uintptr_t)function;
    c->workspace = workspace;
    c->written = written;
    c->free = free;
    c->owner = own(owner);
    c->held = own(held);
    c->makers = own(makers);
    c->plan = own(plan);
    c->on_capture = own(on_capture);
    c->make_workspace = own(make);
    for (Py_ssize_t i = 0; i < PyTuple_Size(list) && i < MOST_STRUCTS; i++)
        if (read_structs(&c->structs[c->nstructs++], PyTuple_GetItem(list, i)))
            return -1;
    return read_views(c, views);
}

/* Its owner has it, too. */
static int call_traverse(PyObject *self, visitproc visit, void *arg)
{
    const call *c = (call *)self;
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(c->owner);
    Py_VISIT(c->held);
    Py_VISIT(c->makers);
    Py_VISIT(c->plan);
    Py_VISIT(c->on_capture);
    Py_VISIT(c->make_workspace);
    return 0;
}

static int call_clear(PyObject *self)
{
    call *c = (call *)self;
    Py_CLEAR(c->owner);
    Py_CLEAR(c->held);
    Py_CLEAR(c->makers);
    Py_CLEAR(c->plan);
    Py_CLEAR(c->on_capture);
    Py_CLEAR(c->make_workspace);
    return 0;
}

static void call_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    call_clear(self);
    PyObject_GC_Del(self);
    Py_DECREF(type);
}

static PyType_Slot call_slots[] = {
    {Py_tp_init, call_init},         {Py_tp_dealloc, call_dealloc},
    {Py_tp_traverse, call_traverse}, {Py_tp_clear, call_clear},
    {Py_tp_call, call_call},         {0, NULL}};
static PyType_Spec call_spec = {"tilec._fast.Call", sizeof(call), 0,
                                Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
                                call_slots};

/* setup(capsule, Tensor, Parameter, is_grad_enabled, will_change,
 * is_capturing, current_device, uses) */
static PyObject *fast_setup(PyObject *self, PyObject *args)
{
    (void)self;
    PyObject *capsule;
    const exchange_api *found;
    if (!PyArg_ParseTuple(args, "OOOOOOOO", &capsule, &types[0], &types[1],
                          &is_grad_enabled, &will_change, &is_capturing,
                          &current_device, &uses) ||
        !(found = PyCapsule_GetPointer(capsule, "dlpack_exchange_api")))
        return NULL;
    if (found->header.major != 1 || !found->tensor_from_object ||
        !found->current_stream)
        Py_RETURN_FALSE;
    Py_INCREF(args); /* for as long as the process lives */
    name_requires_grad = PyUnicode_InternFromString("requires_grad");
    name_is_neg = PyUnicode_InternFromString("is_neg");
    name_used = PyUnicode_InternFromString("used");
    api = found;
    Py_RETURN_TRUE;
}

static PyMethodDef functions[] = {
    {"key", fast_key, METH_VARARGS, "What tensors and numbers are like."},
    {"run", fast_run, METH_VARARGS, "Runs the Call of a table that fits."},
    {"setup", fast_setup, METH_VARARGS, "Tells of torch. False: too old."},
    {NULL, NULL, 0, NULL}};

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT,
                                    "_fast",
                                    NULL,
                                    -1,
                                    functions,
                                    NULL,
                                    NULL,
                                    NULL,
                                    NULL};

PyMODINIT_FUNC PyInit__fast(void);
PyMODINIT_FUNC PyInit__fast(void)
{
    PyObject *m = PyModule_Create(&module);
    PyObject *type = m ? PyType_FromSpec(&call_spec) : NULL;
    Py_XINCREF(type); /* one for call_type */
    if (!type || PyModule_AddIntConstant(m, "version", VERSION) ||
        PyModule_AddObject(m, "Call", type)) {
        Py_XDECREF(type);
        Py_XDECREF(type);
        Py_XDECREF(m);
        return NULL;
    }
    call_type = (PyTypeObject *)type;
    return m;
}
