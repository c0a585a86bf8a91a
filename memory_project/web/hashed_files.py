"""Static files that have the hash of their content in their names."""

from __future__ import annotations

from whitenoise.storage import CompressedManifestStaticFilesStorage

# An import in one of our scripts: `import { kept } from "./storage.js";`. Scripts of others are bundles.
IMPORT = r"""(?P<matched>from "(?P<url>\./[\w.]+)")"""


class HashedStaticFiles(CompressedManifestStaticFilesStorage):  # type: ignore[misc]  # whitenoise has no types
    """Files whose names contain a hash of their content, also where a script imports another one.

    Otherwise a browser could run a new script with an imported one that it has kept from the earlier version.
    """

    patterns = (*CompressedManifestStaticFilesStorage.patterns, ("js/*.js", ((IMPORT, 'from "%(url)s"'),)))
