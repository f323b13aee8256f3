#!/bin/sh
# The steps of the official postgres image: as root it makes its folders its own and becomes postgres; that makes the
# database once, without TCP, and then serves.
set -eu
if [ "$(id -u)" = 0 ]; then
  mkdir -p "$PGDATA"
  chmod 0700 "$PGDATA"
  find "$PGDATA" \! -user postgres -exec chown postgres {} +
  find /var/run/postgresql \! -user postgres -exec chown postgres {} +
  exec setpriv --reuid=postgres --regid=postgres --init-groups "$0" "$@"
fi
if [ ! -s "$PGDATA/PG_VERSION" ]; then
  printf %s "${POSTGRES_PASSWORD:?}" >/tmp/password
  initdb --username="$POSTGRES_USER" --pwfile=/tmp/password --auth-local=trust --auth-host=scram-sha-256 >/dev/null
  rm /tmp/password
  echo "host all all all scram-sha-256" >>"$PGDATA/pg_hba.conf"
  pg_ctl -w start -o "-c listen_addresses=''" >/dev/null
  [ "$POSTGRES_DB" = postgres ] || createdb --username="$POSTGRES_USER" "$POSTGRES_DB"
  pg_ctl -w -m fast stop >/dev/null
fi
exec "$@" -c listen_addresses='*'
