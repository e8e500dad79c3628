/* SPDX-License-Identifier: Apache-2.0
 *
 * Records planned attention over a cache for a bundle, as kvcache_request.c
 * reads it.
 */
#include "lib/kvcache/kvcache.h"

#include "lib/bundle/bundle.h"

#include <stdlib.h>

tilec_status tc_kvcache_record(tilec_context *cx, const tc_kvcache_request *r,
                               const tilec_kvcache *c, tilec_error *error)
{
    tc_bundle_request request;
    char *key = tc_kvcache_key(cx, r, &request);
    if (!key)
        return tc_fail_memory(error);
    tc_record_writer facts = {0};
    tc_record_open_map(&facts, NULL);
    tc_record_add_int(&facts, "block", c->block);
    tc_record_add_int(&facts, "sms", c->sms);
    tc_record_add_int(&facts, "per_sm", c->per_sm);
    tc_record_add_int(&facts, "reach", c->has_reach);
    tc_record_add_int(&facts, "by_heads", c->by_heads);
    tc_facts_add_values(&facts, "values", c->values, c->nvalues);
    tc_record_close(&facts);
    const tc_bundle_role roles[] = {{"forward", c->forward},
                                    {"schedule", c->schedule},
                                    {"merge", c->merge}};
    tilec_status s =
        tc_bundle_record(cx, &request, "", &facts, roles, 3, error);
    free(key);
    return s;
}
