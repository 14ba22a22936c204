export { logicalClusterMigration } from "./logical-cluster-migration.ts";
