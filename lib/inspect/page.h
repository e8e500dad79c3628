/* SPDX-License-Identifier: Apache-2.0
 *
 * The page of the inspector, from lib/inspect/page: its data go between these
 * two parts.
 */
#ifndef TC_INSPECT_PAGE_H
#define TC_INSPECT_PAGE_H

extern const char *const tc_inspect_page_begin, *const tc_inspect_page_end;

#endif
