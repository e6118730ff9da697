# Sourced by the scripts that install and run a part of the suite.

# find_python sets python to an interpreter that the locked packages take. They take these
# and no others.
find_python() {
	local usable='import sys, venv, ensurepip; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' candidate
	for candidate in python3 python3.13 python3.12 python3.11; do
		if "$candidate" -c "$usable" >/dev/null 2>&1; then
			python=$candidate
			return
		fi
	done
	{
		echo 'interop: no Python 3.11 to 3.13 with venv and pip was found'
		echo 'hint: install one; without it aicr is not tested against other software'
	} >&2
	exit 77 # not run
}

# install_locked LOCK VENV makes a venv of what the lock file has, unless it is there, and
# calls finish_venv for it. A venv depends on its path and its Python; the stamp is written
# last, so that an installation that was broken off is made again.
install_locked() {
	local lock=$1 venv=$2 stamp
	stamp="$("$python" -c 'import sys; print(sys.version)') $venv $("$python" -c '
import hashlib, sys; print(hashlib.sha256(open(sys.argv[1], "rb").read()).hexdigest())' "$lock")"
	[ ! -f "$venv/stamp" ] || [ "$(cat "$venv/stamp")" != "$stamp" ] || return 0
	echo "installing $(grep -c == "$lock") packages into ${venv#"$PWD"/}, once" >&2
	rm -rf "$venv"
	"$python" -m venv "$venv"
	"$venv/bin/python" -m pip install --quiet --disable-pip-version-check \
		--require-hashes --no-deps --only-binary :all: -r "$lock"
	finish_venv "$venv"
	printf '%s' "$stamp" >"$venv/stamp"
}

finish_venv() { check_packages "$1"; } # VENV; a script may have its own

# check_packages VENV [EXCUSED] fails if packages do not fit together. What the package EXCUSED
# asks for in vain is known.
check_packages() {
	local said conflicts
	said=$("$1/bin/python" -m pip check --disable-pip-version-check) && return
	conflicts=$(grep -v "^${2:-nothing} " <<<"$said" || true)
	if [ -z "$said" ] || [ -n "$conflicts" ]; then
		echo "${conflicts:-pip check failed}" >&2
		return 1
	fi
}

# install_nginx sets nginx to the program: that of the machine, or Debian's package, whose
# signature apt checks. It is unpacked and not installed, because installing it would start it.
install_nginx() { # FOLDER
	local folder=$1
	nginx=$(command -v nginx || true)
	[ -z "$nginx" ] || return 0
	nginx=$folder/usr/sbin/nginx
	[ ! -x "$nginx" ] || return 0
	if command -v apt-get >/dev/null && command -v dpkg >/dev/null; then
		echo "unpacking Debian's nginx into ${folder#"$PWD"/}, once" >&2
		rm -rf "$folder"
		mkdir -p "$folder"
		(
			cd "$folder"
			apt-get download -qq nginx >/dev/null 2>&1 || { apt-get update -qq && apt-get download -qq nginx >/dev/null; }
			dpkg -x nginx_*.deb .
		)
	fi
	"$nginx" -v 2>/dev/null || {
		echo 'interop: nginx was not found and could not be unpacked from its Debian package' >&2
		echo 'hint: apt-get install nginx-light' >&2
		exit 1
	}
}
