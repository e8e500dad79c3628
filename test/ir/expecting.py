# SPDX-License-Identifier: Apache-2.0
import re

import lit.formats
import lit.Test


class ExpectingTest(lit.formats.ShTest):
    """A shell test; a file that has no expectation fails."""

    EXPECTATION = re.compile(
        r"(^|\W)[A-Z][A-Z0-9_-]*(-NEXT|-SAME|-NOT|-DAG|-LABEL|-COUNT-\d+)?:"
        r"|expected-(error|warning|remark|note)")

    def execute(self, test, lit_config):
        with open(test.getSourcePath(), encoding="utf-8",
                  errors="replace") as f:
            lines = [l for l in f if "RUN:" not in l]
        if not any(self.EXPECTATION.search(l) for l in lines):
            return lit.Test.FAIL, "the file expects nothing"
        return super().execute(test, lit_config)
