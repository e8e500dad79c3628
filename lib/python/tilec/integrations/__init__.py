# SPDX-License-Identifier: Apache-2.0
"""tilec inside of other libraries, a module for each."""
