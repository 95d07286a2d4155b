# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The attn authors
"""What is asked of git: revisions, a clean tree, work trees."""

import contextlib
import shutil
import subprocess
from pathlib import Path

from . import Refused

# What decides how fast the engine is. Where none of it differs there is nothing to measure.
ENGINE_PATHS = ["engine", "simd", "include", "cmake", "CMakeLists.txt"]


class Repo:
    def __init__(self, directory):
        found = _git(directory, "rev-parse", "--show-toplevel")
        if found is None:
            raise Refused(f"{directory} is not in a git repository")
        self.root = Path(found)

    def git(self, *arguments):
        """Output of a git command, or None where it fails."""
        return _git(self.root, *arguments)

    def resolve(self, revision):
        commit = None
        if not revision.startswith("-"):
            commit = self.git("rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}")
        if commit is None:
            raise Refused(f"unknown revision: {revision}")
        return commit

    def require_clean(self):
        """Commits are measured, not the files at hand: who changed those would be misled."""
        records = ":(exclude)perf/history"  # a run adds to it
        changed = self.git("status", "--porcelain", "--untracked-files=no", "--", ":/", records)
        if changed:
            files = [line[2:].strip() for line in changed.splitlines()]
            more = f" and {len(files) - 3} more" if len(files) > 3 else ""
            raise Refused(f"the tree is dirty: commit {', '.join(files[:3])}{more} first")

    def commit_info(self, commit):
        date, subject = self.git("show", "-s", "--format=%cI%n%s", commit).split("\n", 1)
        return {"commit": commit, "commit_date": date, "subject": subject}

    def gate_base(self):
        """The commit that HEAD is judged against: where it left origin/main, else its parent.
        None for a first commit, or in a clone that does not reach back."""
        head = self.resolve("HEAD")
        base = self.git("merge-base", "HEAD", "origin/main")
        if base is None or base == head:
            base = self.git("rev-parse", "--verify", "--quiet", "HEAD~1^{commit}")
        return base

    def engine_differs(self, base, head):
        same = subprocess.run(
            ["git", "-C", self.root, "diff", "--quiet", base, head, "--", *ENGINE_PATHS],
            check=False,
        ).returncode
        return same != 0

    def has_file(self, commit, path):
        return self.git("cat-file", "-e", f"{commit}:{path}") is not None

    def order(self, commits):
        """The commits, oldest first; those that the repository does not hold keep their place by
        date (given as a mapping commit: ISO date)."""
        listed = self.git("rev-list", "--topo-order", "--reverse", "--all") or ""
        place = {commit: i for i, commit in enumerate(listed.split())}
        known = sorted((c for c in commits if c in place), key=place.get)
        for commit in sorted((c for c in commits if c not in place), key=commits.get):
            at = sum(commits[k] <= commits[commit] for k in known)
            known.insert(at, commit)
        return known

    @contextlib.contextmanager
    def worktree(self, commit, directory):
        self.git("worktree", "prune")
        shutil.rmtree(directory, ignore_errors=True)
        if self.git("worktree", "add", "--detach", "--force", str(directory), commit) is None:
            raise Refused(f"git could not check {commit[:12]} out into {directory}")
        try:
            yield directory
        finally:
            self.git("worktree", "remove", "--force", str(directory))


def _git(directory, *arguments):
    done = subprocess.run(
        ["git", "-C", str(directory), *arguments], capture_output=True, text=True, check=False
    )
    return done.stdout.rstrip("\n") if done.returncode == 0 else None
