# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The attn authors
"""Performance tracking of attn: measure, compare two revisions, keep a history, draw it."""


class Refused(Exception):
    """Bad input or a failed build: one clear line, nothing recorded, exit status 2."""
