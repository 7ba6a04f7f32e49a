#!/bin/sh
# Builds pserve as the image has it, for Linux, static and small:
#
#   sh gateway/image.sh FILE
#
# The engine of JavaScript shows scripts the methods of Go values, and calls them by names that only
# the script knows. Where a program has such a call, the linker keeps every exported method of every
# type: 2.9 MB. The gateway gives its scripts no Go value that has methods. So this builds with
# a copy of that module in which the two lines are gone that look up a method and that bind it. A
# program from "go build" answers alike.
set -eu
module=github.com/dop251/goja
case $1 in
/*) out=$1 ;;
*) out=$PWD/$1 ;;
esac
cd "$(dirname "$0")"
work=$out.build
mkdir "$work"
trap 'rm -rf "$work"' EXIT
go mod download "$module"
cp -R "$(go list -m -f '{{.Dir}}' "$module")" "$work/module"
chmod -R u+w "$work/module"
file=$work/module/object_goreflect.go
sed -e 's/^\(\t*\)method := t\.Method(i)$/\1var method reflect.Method/' \
	-e 's/^\(\t*\)return o\.methodsValue\.Method(idx)$/\1_ = idx/' "$file" >"$work/changed"
if [ "$(diff "$file" "$work/changed" | grep -c '^>')" != 2 ]; then
	echo "$0: $module looks up methods in another way now" >&2
	exit 1
fi
mv "$work/changed" "$file"
cp go.mod go.sum "$work"
go mod edit -replace="$module=$work/module" "$work/go.mod"
# The server speaks HTTP/1.1 only, so the image has no HTTP/2.
CGO_ENABLED=0 GOOS=linux go build -modfile="$work/go.mod" -trimpath -tags=nethttpomithttp2 \
	-ldflags="-s -w -funcalign=16" -o "$out" ./cmd/pserve
