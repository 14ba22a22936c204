export { controlPlaneMigration } from "./control-plane-migration.ts";
export { logicalClusterMigration } from "./logical-cluster-migration.ts";
