"""Backup and restore.

A backup is one tar file that only its owner can read. It contains a dump of the database, the signing key and a
manifest. Next to the backup FILE, the file FILE.erased lists the ids of memories erased after the backup, so that a
restore can erase them again. The database lists all backups, on whichever machine they were written.

`archive` writes and reads the files, `restoring` loads one, `verification` loads one for a trial, `rotation` writes one
each day, and `erased` keeps the lists beside the files.
"""
