/* SPDX-License-Identifier: Apache-2.0
 *
 * The reader's error messages, one by one; what it gives; the writer, and what
 * it leaves behind when it fails.
 */
#include "lib/tilec.h"
#include "test/unit/run.h"

#include <check.h>
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char folder[64];

static void make_folder(void)
{
    strcpy(folder, "/tmp/tilec-safetensors-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
}

static const char *in_folder(const char *name)
{
    static char path[4][400];
    static unsigned turn;
    char *p = path[turn++ % 4];
    snprintf(p, sizeof *path, "%s/%s", folder, name);
    return p;
}

static int count_files(void)
{
    DIR *d = opendir(folder);
    int n = 0;
    for (struct dirent *e = readdir(d); e; e = readdir(d))
        n += e->d_name[0] != '.';
    closedir(d);
    return n;
}

static void remove_folder(void)
{
    DIR *d = opendir(folder);
    for (struct dirent *e = readdir(d); e; e = readdir(d))
        if (e->d_name[0] != '.')
            unlink(in_folder(e->d_name));
    closedir(d);
    rmdir(folder);
}

/* A file's bytes: the length (true, or `claim`), the header, n bytes. */
static char *image(const char *header, size_t len, size_t ndata, uint64_t claim,
                   size_t *size)
{
    *size = 8 + len + ndata;
    char *p = aligned_alloc(64, (*size + 63) / 64 * 64);
    for (int i = 0; i < 8; i++)
        p[i] = (char)(claim >> 8 * i);
    memcpy(p + 8, header, len);
    for (size_t i = 0; i < ndata; i++)
        p[8 + len + i] = (char)i;
    return p;
}

static tilec_error read_error(const char *header, size_t len, size_t ndata,
                              uint64_t claim)
{
    size_t size;
    char *p = image(header, len, ndata, claim, &size);
    tilec_safetensors *f = NULL;
    tilec_error e = {0};
    tilec_status s = tilec_safetensors_read(p, size, &f, &e);
    ck_assert_int_eq(s, TILEC_INPUT);
    ck_assert_int_eq(e.status, s);
    ck_assert_ptr_null(f);
    free(p);
    return e;
}

static const struct {
    const char *header;
    size_t ndata;
    const char *message;
} bad[] = {
    {"", 0,
     "safetensors: the header does not begin with `{`: is this a safetensors "
     "file?"},
    {"[]", 0,
     "safetensors: the header does not begin with `{`: is this a safetensors "
     "file?"},
    {"{\"a\":", 0, "safetensors: the header is no JSON (byte 5)"},
    {"{} x", 0, "safetensors: text after the header's JSON (byte 3)"},
    {"{\"a\\u0000b\":{}}", 0,
     "safetensors: a string of the header holds a NUL"},
    {"{\"a\":[[[[[[[[[[]]]]]]]]]]}", 0,
     "safetensors: the header is nested too deep at byte 12"},
    {"{\"a\":3}", 0, "safetensors: tensor 'a' is no object"},
    {"{\"a\":{\"shape\":[],\"data_offsets\":[0,4]}}", 4,
     "safetensors: tensor 'a' has no dtype"},
    {"{\"a\":{\"dtype\":3,\"shape\":[],\"data_offsets\":[0,4]}}", 4,
     "safetensors: tensor 'a': dtype is no string"},
    {"{\"a\":{\"dtype\":\"F31\",\"shape\":[],\"data_offsets\":[0,4]}}", 4,
     "safetensors: tensor 'a': unknown dtype 'F31'"},
    {"{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,4]}}", 4,
     "safetensors: tensor 'a' has no shape"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":1,\"data_offsets\":[0,4]}}", 4,
     "safetensors: tensor 'a': shape is no array"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,"
     "1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1],\"data_offsets\":[0,4]}}",
     4, "safetensors: tensor 'a' has 33 dims, at most 32 are read"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1,-1],\"data_offsets\":[0,4]}}", 4,
     "safetensors: tensor 'a': dim 1 of the shape is no whole number from 0 to "
     "2^53"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[0.5],\"data_offsets\":[0,4]}}", 4,
     "safetensors: tensor 'a': dim 0 of the shape is no whole number from 0 to "
     "2^53"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1e300],\"data_offsets\":[0,4]}}", 4,
     "safetensors: tensor 'a': dim 0 of the shape is no whole number from 0 to "
     "2^53"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[]}}", 4,
     "safetensors: tensor 'a' has no data_offsets"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0]}}", 4,
     "safetensors: tensor 'a': data_offsets are not two whole numbers from 0 "
     "to 2^53"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[-4,0]}}", 4,
     "safetensors: tensor 'a': data_offsets are not two whole numbers from 0 "
     "to 2^53"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[4,0]}}", 4,
     "safetensors: tensor 'a': data_offsets [4, 0] end before they begin"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 4,
     "safetensors: tensor 'a' ends at byte 8 of the data, which has 4: is the "
     "file cut off?"},
    {"{\"a\":{\"dtype\":\"F64\",\"shape\":[4294967296,4294967296],"
     "\"data_offsets\":[0,4]}}",
     4, "safetensors: tensor 'a': the size of its shape overflows"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,4]}}", 4,
     "safetensors: tensor 'a': shape and dtype F32 make 8 bytes, data_offsets "
     "4"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4],\"x\":1}}",
     4, "safetensors: tensor 'a' has an unknown field 'x'"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4],"
     "\"shape\":[]}}",
     4, "safetensors: tensor 'a' has shape twice"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]},"
     "\"a\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[4,8]}}",
     8, "safetensors: two tensors are named 'a'"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]},"
     "\"b\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[2,6]}}",
     6, "safetensors: tensors 'a' and 'b' overlap"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]},"
     "\"b\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[8,12]}}",
     12,
     "safetensors: bytes 4 to 8 of the data, before tensor 'b', belong to no "
     "tensor"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]}}", 7,
     "safetensors: 3 bytes after the last tensor belong to none"},
    {"{\"__metadata__\":[]}", 0, "safetensors: __metadata__ is no object"},
    {"{\"__metadata__\":{\"k\":1}}", 0,
     "safetensors: __metadata__: 'k' is no string"},
    {"{\"__metadata__\":{},\"__metadata__\":{}}", 0,
     "safetensors: __metadata__ is there twice"},
};

START_TEST(refuses)
{
    tilec_error e = read_error(bad[_i].header, strlen(bad[_i].header),
                               bad[_i].ndata, strlen(bad[_i].header));
    ck_assert_str_eq(e.message, bad[_i].message);
}
END_TEST

START_TEST(refuses_frames)
{
    tilec_safetensors *f = NULL;
    tilec_error e = TILEC_INIT(tilec_error);
    ck_assert_int_eq(tilec_safetensors_read("\1\0\0", 3, &f, &e), TILEC_INPUT);
    ck_assert_str_eq(e.message, "safetensors: 3 bytes are too short for a "
                                "safetensors file");
    e = read_error("{}", 2, 0, 3);
    ck_assert_str_eq(e.message, "safetensors: the header's length is 3, but "
                                "only 2 bytes follow: is the file cut off?");
    e = read_error("{}", 2, 0, 100000001);
    ck_assert_str_eq(e.message,
                     "safetensors: the first 8 bytes are no length of a header "
                     "(0 to 100000000): is this a safetensors file?");
    e = read_error("{}", 2, 0, UINT64_MAX);
    ck_assert_ptr_nonnull(strstr(e.message, "0 to 100000000"));
    e = read_error("{\"\0\":1}", 7, 0, 7);
    ck_assert_str_eq(e.message, "safetensors: the header has a NUL byte at 2");
}
END_TEST

START_TEST(names_the_argument_that_is_null)
{
    tilec_safetensors *f;
    tilec_error e = TILEC_INIT(tilec_error);
    DLTensor t;
    ck_assert_int_eq(tilec_safetensors_read(NULL, 1, &f, &e), TILEC_USAGE);
    ck_assert_str_eq(e.message, "tilec_safetensors_read: bytes or out is NULL");
    ck_assert_int_eq(tilec_safetensors_open(NULL, &f, &e), TILEC_USAGE);
    ck_assert_str_eq(e.message, "tilec_safetensors_open: path or out is NULL");
    ck_assert_int_eq(tilec_safetensors_get(NULL, "q", &t, &e), TILEC_USAGE);
    ck_assert_str_eq(e.message, "tilec_safetensors_get: an argument is NULL");
    ck_assert_int_eq(tilec_safetensors_open(NULL, NULL, NULL), TILEC_USAGE);
    tilec_safetensors_free(NULL);
    ck_assert_uint_eq(tilec_safetensors_count(NULL), 0);
}
END_TEST

START_TEST(explains_paths)
{
    tilec_safetensors *f;
    tilec_error e = TILEC_INIT(tilec_error);
    ck_assert_int_eq(tilec_safetensors_open("/no/such", &f, &e), TILEC_INPUT);
    ck_assert_str_eq(e.message, "/no/such: No such file or directory");
    ck_assert_int_eq(tilec_safetensors_open("/tmp", &f, &e), TILEC_INPUT);
    ck_assert_str_eq(e.message, "/tmp: is not a regular file");
    int fd = open(in_folder("empty"), O_CREAT | O_WRONLY, 0600);
    close(fd);
    ck_assert_int_eq(tilec_safetensors_open(in_folder("empty"), &f, &e),
                     TILEC_INPUT);
    ck_assert_ptr_nonnull(strstr(e.message, "empty: 0 bytes are too short"));
    /* A FIFO nobody writes to must not hang the caller. */
    mkfifo(in_folder("fifo"), 0600);
    ck_assert_int_eq(tilec_safetensors_open(in_folder("fifo"), &f, &e),
                     TILEC_INPUT);
    ck_assert_ptr_nonnull(strstr(e.message, "fifo: is not a regular file"));
}
END_TEST

START_TEST(gives_tensors)
{
    const char *h =
        "{\"__metadata__\":{\"who\":\"me\"},"
        "\"m\":{\"dtype\":\"I16\",\"shape\":[2,3],\"data_offsets\":[8,20]},"
        "\"u\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[20,21]},"
        "\"c\":{\"dtype\":\"C64\",\"shape\":[0],\"data_offsets\":[20,20]},"
        "\"odd\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[21,25]},"
        "\"s\":{\"dtype\":\"F64\",\"shape\":[],\"data_offsets\":[0,8]},"
        "\"e\":{\"dtype\":\"F32\",\"shape\":[4,0],\"data_offsets\":[8,8]}}";
    size_t size, len = (strlen(h) + 7) / 8 * 8;
    char padded[512];
    memset(padded, ' ', sizeof padded);
    memcpy(padded, h, strlen(h));
    char *p = image(padded, len, 25, len, &size);
    tilec_safetensors *f;
    tilec_error e = TILEC_INIT(tilec_error);
    ck_assert_int_eq(tilec_safetensors_read(p, size, &f, &e), TILEC_OK);
    ck_assert_uint_eq(tilec_safetensors_count(f), 6);
    ck_assert_str_eq(tilec_safetensors_name(f, 0), "m");
    ck_assert_ptr_null(tilec_safetensors_name(f, 6));
    ck_assert_str_eq(tilec_safetensors_metadata(f, "who"), "me");
    ck_assert_ptr_null(tilec_safetensors_metadata(f, "what"));
    DLTensor t;
    ck_assert_int_eq(tilec_safetensors_get(f, "m", &t, &e), TILEC_OK);
    ck_assert_int_eq(t.ndim, 2);
    ck_assert_int_eq(t.shape[1], 3);
    ck_assert_int_eq(t.dtype.code, kDLInt);
    ck_assert_int_eq(t.dtype.bits, 16);
    ck_assert_int_eq(((uint8_t *)t.data)[0], 8);
    ck_assert_int_eq(tilec_safetensors_get(f, "s", &t, &e), TILEC_OK);
    ck_assert_int_eq(t.ndim, 0);
    ck_assert_int_eq(tilec_safetensors_get(f, "e", &t, &e), TILEC_OK);
    ck_assert_int_eq(t.shape[1], 0);
    ck_assert_int_eq(tilec_safetensors_get(f, "u", &t, &e), TILEC_OK);
    ck_assert_int_eq(t.dtype.code, kDLUInt);
    ck_assert_int_eq(tilec_safetensors_get(f, "c", &t, &e), TILEC_INPUT);
    ck_assert_str_eq(e.message, "tensor 'c' is of dtype C64, which tilec does "
                                "not have");
    /* Not aligned in the file: given as an aligned copy. */
    ck_assert_int_eq(tilec_safetensors_get(f, "odd", &t, &e), TILEC_OK);
    ck_assert_uint_eq((uintptr_t)t.data % 4, 0);
    ck_assert_int_eq(memcmp(t.data, p + 8 + len + 21, 4), 0);
    ck_assert_int_eq(tilec_safetensors_get(f, "ode", &t, &e), TILEC_INPUT);
    ck_assert_str_eq(e.message,
                     "safetensors: there is no tensor 'ode'; did you mean "
                     "'odd'?");
    ck_assert_int_eq(tilec_safetensors_get(f, "unlike", &t, &e), TILEC_INPUT);
    ck_assert_ptr_nonnull(
        strstr(e.message, "there is no tensor 'unlike'; there are "));
    ck_assert_ptr_nonnull(strstr(e.message, "odd"));
    tilec_safetensors_free(f);
    free(p);
}
END_TEST

/* A file that another program cuts off: an error, no SIGBUS. What was read
 * before stays. */
START_TEST(files_that_shrink_are_errors)
{
    enum { N = 1 << 18 };
    float *data = calloc(N, sizeof *data);
    int64_t shape[1] = {N};
    data[N - 1] = 3.0f;
    DLTensor t = {.data = data,
                  .device = {kDLCPU, 0},
                  .ndim = 1,
                  .dtype = {kDLFloat, 32, 1},
                  .shape = shape};
    tilec_named_tensor list[] = {{"a", &t}, {"b", &t}};
    const char *path = in_folder("shrinks");
    tilec_safetensors *f;
    tilec_error e = TILEC_INIT(tilec_error);
    ck_assert_int_eq(tilec_safetensors_write(path, list, 2, NULL, 0, &e),
                     TILEC_OK);
    ck_assert_int_eq(tilec_safetensors_open(path, &f, &e), TILEC_OK);
    DLTensor a, b;
    ck_assert_int_eq(tilec_safetensors_get(f, "a", &a, &e), TILEC_OK);
    ck_assert_int_eq(truncate(path, 1000), 0);
    ck_assert_int_eq(tilec_safetensors_get(f, "b", &b, &e), TILEC_INPUT);
    ck_assert_ptr_nonnull(
        strstr(e.message, "shrinks: became shorter while it was read"));
    ck_assert_int_eq(tilec_safetensors_get(f, "a", &b, &e), TILEC_OK);
    ck_assert_ptr_eq(a.data, b.data);
    ck_assert_mem_eq(a.data, data, N * sizeof *data);
    tilec_safetensors_free(f);
    free(data);
}
END_TEST

START_TEST(long_shapes_are_refused_before_they_are_read)
{
    enum { N = 100000 };
    char *h = malloc(2 * N + 100);
    char *at = h + sprintf(h, "{\"a\":{\"dtype\":\"F32\",\"shape\":[1");
    for (int i = 1; i < N; i++)
        at += sprintf(at, ",1");
    sprintf(at, "],\"data_offsets\":[0,4]}}");
    tilec_error e = read_error(h, strlen(h), 4, strlen(h));
    ck_assert_str_eq(e.message,
                     "safetensors: tensor 'a' has more than 64 dims and "
                     "fields, at most 32 dims are read");
    free(h);
}
END_TEST

#ifndef __SANITIZE_ADDRESS__
/* A header of 8 MB, full of metadata or tensors, in 12 times as much. */
static int read_in_little(const char *header, size_t data)
{
    size_t size;
    char *p = image(header, strlen(header), data, strlen(header), &size);
    pid_t child = fork();
    if (child == 0) {
        unsigned long pages = 0;
        FILE *f = fopen("/proc/self/statm", "r");
        struct rlimit most;
        tilec_safetensors *st;
        if (!f || fscanf(f, "%lu", &pages) != 1)
            _exit(9);
        most.rlim_cur = most.rlim_max =
            pages * (unsigned long)sysconf(_SC_PAGESIZE) + 12 * size;
        _exit(setrlimit(RLIMIT_AS, &most)
                  ? 9
                  : (int)tilec_safetensors_read(p, size, &st, NULL));
    }
    int status = 0;
    waitpid(child, &status, 0);
    free(p);
    return WEXITSTATUS(status);
}

START_TEST(long_headers_cost_memory_in_proportion)
{
    enum { SIZE = 8 << 20 };
    static const char *const items[] = {
        "\"%x\":\"\"",
        "\"%x\":{\"dtype\":\"F32\",\"shape\":[0,1,1,1,1,1,1,1,1,1,1,1,1,1,1,"
        "1,1,1,1,1],\"data_offsets\":[0,0]}"};
    char *h = malloc(SIZE + 300);
    for (int k = 0; k < 2; k++) {
        char *at = h + sprintf(h, k ? "{" : "{\"__metadata__\":{");
        for (unsigned i = 0; at < h + SIZE; i++) {
            at += sprintf(at, i ? "," : "");
            at += k ? sprintf(at, items[1], i) : sprintf(at, items[0], i);
        }
        sprintf(at, k ? "}" : "}}");
        ck_assert_int_eq(read_in_little(h, 0), TILEC_OK);
    }
    free(h);
}
END_TEST
#endif

/* The writer. */

static DLTensor tensor(void *data, int ndim, int64_t *shape, uint8_t code,
                       uint8_t bits)
{
    return (DLTensor){.data = data,
                      .device = {kDLCPU, 0},
                      .ndim = ndim,
                      .dtype = {code, bits, 1},
                      .shape = shape};
}

START_TEST(round_trips_every_dtype)
{
    static const uint8_t codes[][2] = {
        {TILEC_DL_BOOL, 8},   {kDLInt, 8},         {kDLInt, 16},
        {kDLInt, 32},         {kDLInt, 64},        {kDLFloat, 16},
        {kDLBfloat, 16},      {kDLFloat, 32},      {kDLFloat, 64},
        {TILEC_DL_F8E4M3, 8}, {TILEC_DL_F8E5M2, 8}};
    enum { N = sizeof codes / sizeof *codes };
    uint64_t bytes[N][8];
    char names[N][4];
    int64_t shape[2] = {3, 1};
    DLTensor tensors[N];
    tilec_named_tensor list[N];
    for (unsigned i = 0; i < N; i++) {
        memset(bytes[i], (int)i + 1, sizeof bytes[i]);
        snprintf(names[i], sizeof names[i], "t%u", i);
        tensors[i] = tensor(bytes[i], 2, shape, codes[i][0], codes[i][1]);
        list[i] = (tilec_named_tensor){names[i], &tensors[i]};
    }
    tilec_binding metadata = {"origin", "a \"test\"\n"};
    tilec_error e = TILEC_INIT(tilec_error);
    const char *path = in_folder("all.safetensors");
    ck_assert_int_eq(tilec_safetensors_write(path, list, N, &metadata, 1, &e),
                     TILEC_OK);
    tilec_safetensors *f;
    ck_assert_int_eq(tilec_safetensors_open(path, &f, &e), TILEC_OK);
    ck_assert_uint_eq(tilec_safetensors_count(f), N);
    ck_assert_str_eq(tilec_safetensors_metadata(f, "origin"), metadata.value);
    for (unsigned i = 0; i < N; i++) {
        DLTensor t;
        ck_assert_int_eq(tilec_safetensors_get(f, names[i], &t, &e), TILEC_OK);
        ck_assert_int_eq(t.dtype.code, codes[i][0]);
        ck_assert_int_eq(t.dtype.bits, codes[i][1]);
        ck_assert_mem_eq(t.data, bytes[i], 3 * codes[i][1] / 8);
    }
    tilec_safetensors_free(f);
}
END_TEST

START_TEST(writes_strides_scalars_and_empty_tensors)
{
    int32_t data[24];
    for (int i = 0; i < 24; i++)
        data[i] = i;
    int64_t shape[3] = {2, 3, 2}, strides[3] = {-12, 2, 1}, none[2] = {0, 5};
    int64_t across[3] = {1, 4, 12};
    DLTensor t = tensor(data, 3, shape, kDLInt, 32), s, n, x;
    t.strides = strides;
    t.byte_offset = 12 * 4;
    x = tensor(data, 3, shape, kDLInt, 32);
    x.strides = across;
    s = tensor(data + 7, 0, NULL, kDLInt, 32);
    n = tensor(NULL, 2, none, kDLFloat, 64);
    tilec_named_tensor list[] = {{"t", &t}, {"s", &s}, {"n", &n}, {"x", &x}};
    tilec_error e = TILEC_INIT(tilec_error);
    const char *path = in_folder("s.safetensors");
    ck_assert_int_eq(tilec_safetensors_write(path, list, 4, NULL, 0, &e),
                     TILEC_OK);
    tilec_safetensors *f;
    ck_assert_int_eq(tilec_safetensors_open(path, &f, &e), TILEC_OK);
    DLTensor r;
    ck_assert_int_eq(tilec_safetensors_get(f, "t", &r, &e), TILEC_OK);
    static const int32_t expected[] = {12, 13, 14, 15, 16, 17,
                                       0,  1,  2,  3,  4,  5};
    ck_assert_mem_eq(r.data, expected, sizeof expected);
    ck_assert_int_eq(tilec_safetensors_get(f, "x", &r, &e), TILEC_OK);
    static const int32_t crossed[] = {0, 12, 4, 16, 8, 20, 1, 13, 5, 17, 9, 21};
    ck_assert_mem_eq(r.data, crossed, sizeof crossed);
    ck_assert_int_eq(tilec_safetensors_get(f, "s", &r, &e), TILEC_OK);
    ck_assert_int_eq(*(int32_t *)r.data, 7);
    ck_assert_int_eq(tilec_safetensors_get(f, "n", &r, &e), TILEC_OK);
    ck_assert_int_eq(r.shape[1], 5);
    tilec_safetensors_free(f);
    ck_assert_int_eq(tilec_safetensors_write(path, NULL, 0, NULL, 0, &e),
                     TILEC_OK);
    ck_assert_int_eq(tilec_safetensors_open(path, &f, &e), TILEC_OK);
    ck_assert_uint_eq(tilec_safetensors_count(f), 0);
    tilec_safetensors_free(f);
}
END_TEST

static void expect_write_error(const tilec_named_tensor *list, size_t n,
                               tilec_status status, const char *message)
{
    tilec_error e = TILEC_INIT(tilec_error);
    ck_assert_int_eq(tilec_safetensors_write("F", list, n, NULL, 0, &e),
                     status);
    ck_assert_str_eq(e.message, message);
    ck_assert_int_ne(access("F", F_OK), 0);
}

START_TEST(writer_refuses)
{
    float data[4] = {0};
    int64_t shape[2] = {2, 2};
    DLTensor good = tensor(data, 2, shape, kDLFloat, 32), t = good;
    tilec_named_tensor a = {"a", &t}, two[2] = {{"a", &good}, {"a", &good}};
    expect_write_error(two, 2, TILEC_INPUT, "F: two tensors are named 'a'");
    expect_write_error(&(tilec_named_tensor){"a", NULL}, 1, TILEC_USAGE,
                       "F: a tensor has no name, no tensor or no shape");
    expect_write_error(&(tilec_named_tensor){"__metadata__", &t}, 1,
                       TILEC_INPUT,
                       "F: `__metadata__` is no name for a tensor");
    t.ndim = 33;
    expect_write_error(&a, 1, TILEC_INPUT,
                       "F: tensor 'a' has rank 33, expected 0 to 32");
    t = good;
    t.dtype.code = kDLComplex;
    t.dtype.bits = 64;
    expect_write_error(&a, 1, TILEC_INPUT,
                       "F: tensor 'a': data type complex64 is none of "
                       "tilec's");
    t = good;
    shape[1] = -2;
    expect_write_error(&a, 1, TILEC_INPUT, "F: tensor 'a': dim 1 is -2");
    shape[0] = shape[1] = (int64_t)1 << 40;
    expect_write_error(&a, 1, TILEC_INPUT,
                       "F: tensor 'a': the size of its shape overflows");
    shape[0] = shape[1] = 2;
    t.device.device_type = kDLCUDA;
    expect_write_error(&a, 1, TILEC_INPUT,
                       "F: tensor 'a' is on DLPack device 2, expected the CPU "
                       "(1)");
    t = good;
    t.data = NULL;
    expect_write_error(&a, 1, TILEC_INPUT, "F: tensor 'a': data is NULL");
    /* Too far by a stride, in bytes, by the sum of two. */
    static int64_t far[][2] = {{INT64_MAX, INT64_MAX},
                               {1, INT64_MIN},
                               {1, INT64_MAX / 2},
                               {(int64_t)1 << 60, (int64_t)1 << 60}};
    for (int i = 0; i < 4; i++) {
        t = good;
        t.strides = far[i];
        expect_write_error(&a, 1, TILEC_INPUT,
                           "F: tensor 'a': its last element is 2^63 bytes or "
                           "more from its first: strides overflow");
    }
    tilec_error e = TILEC_INIT(tilec_error);
    ck_assert_int_eq(tilec_safetensors_write(NULL, &a, 1, NULL, 0, &e),
                     TILEC_USAGE);
    ck_assert_str_eq(e.message, "tilec_safetensors_write: an argument is NULL");
    tilec_binding m = {"k", NULL};
    ck_assert_int_eq(tilec_safetensors_write("F", &a, 0, &m, 1, &e),
                     TILEC_USAGE);
    ck_assert_str_eq(e.message, "tilec_safetensors_write: metadata without a "
                                "name or value");
}
END_TEST

START_TEST(writer_explains_paths)
{
    tilec_error e = TILEC_INIT(tilec_error);
    const char *path = in_folder("no/such/f");
    ck_assert_int_eq(tilec_safetensors_write(path, NULL, 0, NULL, 0, &e),
                     TILEC_INPUT);
    ck_assert_ptr_nonnull(
        strstr(e.message, "cannot be created: No such file or directory"));
    ck_assert_int_eq(tilec_safetensors_write("/dev/null", NULL, 0, NULL, 0, &e),
                     TILEC_INPUT);
    ck_assert_str_eq(e.message,
                     "/dev/null: is there and is not a regular file");
}
END_TEST

START_TEST(writer_keeps_links_and_modes)
{
    tilec_error e = TILEC_INIT(tilec_error);
    ck_assert_int_eq(
        tilec_safetensors_write(in_folder("real"), NULL, 0, NULL, 0, &e),
        TILEC_OK);
    ck_assert_int_eq(chmod(in_folder("real"), 0640), 0);
    ck_assert_int_eq(symlink("real", in_folder("link")), 0);
    tilec_binding m = {"k", "v"};
    ck_assert_int_eq(
        tilec_safetensors_write(in_folder("link"), NULL, 0, &m, 1, &e),
        TILEC_OK);
    struct stat st;
    ck_assert_int_eq(lstat(in_folder("link"), &st), 0);
    ck_assert(S_ISLNK(st.st_mode));
    ck_assert_int_eq(stat(in_folder("real"), &st), 0);
    ck_assert_int_eq(st.st_mode & 0777, 0640);
    tilec_safetensors *f;
    ck_assert_int_eq(tilec_safetensors_open(in_folder("real"), &f, &e),
                     TILEC_OK);
    ck_assert_str_eq(tilec_safetensors_metadata(f, "k"), "v");
    tilec_safetensors_free(f);
    ck_assert_int_eq(count_files(), 2);
}
END_TEST

/* A limit on file size stands for a full disk: write gives EFBIG. */
START_TEST(failed_write_leaves_the_old_file)
{
    static char data[100000];
    int64_t n = sizeof data;
    DLTensor t = tensor(data, 1, &n, kDLInt, 8);
    tilec_named_tensor list = {"t", &t};
    tilec_error e = TILEC_INIT(tilec_error);
    const char *path = in_folder("f");
    ck_assert_int_eq(tilec_safetensors_write(path, NULL, 0, NULL, 0, &e),
                     TILEC_OK);
    signal(SIGXFSZ, SIG_IGN);
    struct rlimit old, small;
    getrlimit(RLIMIT_FSIZE, &old);
    small = old;
    small.rlim_cur = 4096;
    setrlimit(RLIMIT_FSIZE, &small);
    tilec_status s = tilec_safetensors_write(path, &list, 1, NULL, 0, &e);
    setrlimit(RLIMIT_FSIZE, &old);
    ck_assert_int_eq(s, TILEC_MACHINE);
    ck_assert_ptr_nonnull(strstr(e.message, "writing failed: File too large"));
    ck_assert_int_eq(count_files(), 1);
    tilec_safetensors *f;
    ck_assert_int_eq(tilec_safetensors_open(path, &f, &e), TILEC_OK);
    tilec_safetensors_free(f);
}
END_TEST

int main(void)
{
    TCase *t = tcase_create("safetensors");
    tcase_add_checked_fixture(t, make_folder, remove_folder);
    tcase_add_loop_test(t, refuses, 0, sizeof bad / sizeof *bad);
    tcase_add_test(t, refuses_frames);
    tcase_add_test(t, names_the_argument_that_is_null);
    tcase_add_test(t, explains_paths);
    tcase_add_test(t, gives_tensors);
    tcase_add_test(t, files_that_shrink_are_errors);
    tcase_add_test(t, long_shapes_are_refused_before_they_are_read);
#ifndef __SANITIZE_ADDRESS__
    tcase_add_test(t, long_headers_cost_memory_in_proportion);
#endif
    tcase_add_test(t, round_trips_every_dtype);
    tcase_add_test(t, writes_strides_scalars_and_empty_tensors);
    tcase_add_test(t, writer_refuses);
    tcase_add_test(t, writer_explains_paths);
    tcase_add_test(t, writer_keeps_links_and_modes);
    tcase_add_test(t, failed_write_leaves_the_old_file);
    Suite *s = suite_create("safetensors");
    suite_add_tcase(s, t);
    return run_suite(s);
}
