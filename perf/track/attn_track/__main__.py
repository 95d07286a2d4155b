# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The attn authors

import sys

from .cli import main

sys.exit(main())
