/* SPDX-License-Identifier: Apache-2.0
 *
 * Records planned attention for a bundle, as attention_request.c reads it.
 */
#include "lib/attention/attention.h"

#include "lib/bundle/bundle.h"

#include <stdlib.h>

tilec_status tc_attention_record(tilec_context *cx,
                                 const tc_attention_request *r,
                                 tilec_error *error)
{
    const tilec_attention *a = r->plan;
    tc_bundle_request request;
    char *key = tc_attention_key(cx, r, &request);
    if (!key)
        return tc_fail_memory(error);
    tc_record_writer facts = {0};
    tc_record_open_map(&facts, NULL);
    tc_facts_add_values(&facts, "values", a->values, a->nvalues);
    tc_record_close(&facts);
    const tc_bundle_role roles[] = {{"forward", a->forward},
                                    {"backward", a->backward}};
    tilec_status s =
        tc_bundle_record(cx, &request, "", &facts, roles, 2, error);
    free(key);
    return s;
}
