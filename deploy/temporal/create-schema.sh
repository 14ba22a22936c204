#!/bin/sh
# Makes Temporal's two databases and brings their schemas up to date. Safe to run again. Where the database is, and with
# which password, comes from the SQL_* variables.
set -eu

for database in temporal temporal_visibility; do
  folder=${database#temporal_}
  export SQL_DATABASE="$database"
  temporal-sql-tool create-database
  temporal-sql-tool setup-schema --version 0.0
  temporal-sql-tool update-schema --schema-dir "/etc/temporal/schema/postgresql/v12/$folder/versioned"
done
