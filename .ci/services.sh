# Sourced by .ci/run: the programs and the database that the tests want. Installs what is missing when that is possible.
# shellcheck shell=bash

apt_updated=
install_packages() { # PACKAGE...
  if [[ $(id -u) != 0 ]] || ! command -v apt-get >/dev/null; then
    echo "missing: $* (install it; this run is not root on a Debian system)" >&2
    return 1
  fi
  if [[ -z $apt_updated ]]; then apt-get update -qq && apt_updated=yes; fi
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >/dev/null
}

need() { # COMMAND PACKAGE
  command -v "$1" >/dev/null || install_packages "$2"
}

postgres_answers() { (exec 3<>/dev/tcp/127.0.0.1/5432) 2>/dev/null; }

start_postgres() {
  postgres_answers && return 0
  command -v pg_ctlcluster >/dev/null || install_packages postgresql
  postgres_answers && return 0
  local version name
  read -r version name _ < <(pg_lsclusters --no-header)
  pg_ctlcluster "$version" "$name" start
  for _ in $(seq 60); do
    postgres_answers && return 0
    sleep 0.5
  done
  echo "PostgreSQL $version/$name was started but does not answer on 127.0.0.1:5432" >&2
  return 1
}

# A freshly installed server lets nobody in over TCP without a password: make a role for the tests and name it.
open_postgres() {
  [[ -n ${BIASGATE_TEST_POSTGRES:-} ]] && return 0
  export BIASGATE_TEST_POSTGRES=postgresql://postgres@127.0.0.1:5432/postgres
  if psql -qw "$BIASGATE_TEST_POSTGRES" -c 'select 1' >/dev/null 2>&1; then return 0; fi
  local role="create role biasgate_ci login superuser password 'biasgate_ci'"
  su postgres -c "psql -qc \"$role\"" || true # it may be there from an earlier run
  export BIASGATE_TEST_POSTGRES=postgresql://biasgate_ci:biasgate_ci@127.0.0.1:5432/postgres
  psql -qw "$BIASGATE_TEST_POSTGRES" -c 'select 1' >/dev/null
}

prepare_services() {
  need psql postgresql-client
  need promtool prometheus
  need prometheus prometheus
  need amtool prometheus-alertmanager
  need chromium chromium
  need nginx nginx
  [[ -e /usr/lib/nginx/modules/ngx_http_js_module.so ]] || install_packages libnginx-mod-http-js
  need systemd-analyze systemd
  PATH=$(.ci/helm):$PATH
  start_postgres
  open_postgres
}
