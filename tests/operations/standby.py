"""A streaming copy of an embedded server, made with the packaged programs."""

from __future__ import annotations

from memory_project.operating.postgres.server import SUPERUSER, EmbeddedPostgres


class Standby(EmbeddedPostgres):
    """A streaming copy of another embedded server."""

    def follow(self, primary: EmbeddedPostgres) -> None:
        for folder in (self.socket_dir, self.data):
            self._owned_dir(folder)
        copied = self._run(
            str(self.binaries / "pg_basebackup"), f"--pgdata={self.data}", "--write-recovery-conf", "--checkpoint=fast",
            f"--host={primary.socket_dir}", f"--username={SUPERUSER}",
        )  # fmt: skip
        assert copied.returncode == 0, copied.stdout
        self._start()
