import { mkdtemp, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, expectTypeOf, test } from "vitest";
import type { ControlPlaneActivities } from "../../activities/control-plane/types.ts";
import type { LogicalClusterActivities } from "../../activities/logical-cluster/types.ts";
import type { CONTROL_PLANE_ACTIVITIES } from "../../inputs/control-plane-migration.ts";
import { outdatedSchemas, SCHEMA_FOLDER, schemaFiles } from "../../inputs/generate-schemas.ts";
import type { LOGICAL_CLUSTER_ACTIVITIES } from "../../inputs/logical-cluster-migration.ts";

let folder: string;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "rehome-schemas-"));
});

afterEach(async () => {
  await rm(folder, { recursive: true });
});

test("the schemas in deploy/schemas are those of the inputs, and no others", async () => {
  expect(await outdatedSchemas()).toEqual([]);
  expect((await readdir(SCHEMA_FOLDER)).toSorted()).toEqual(Object.keys(schemaFiles()).toSorted());
});

test("a schema that was changed by hand or is missing is named", async () => {
  for (const [name, content] of Object.entries(schemaFiles())) {
    if (name !== "abort.json") await writeFile(join(folder, name), content);
  }
  await writeFile(join(folder, "pause.json"), "{}\n");
  expect(await outdatedSchemas(folder)).toEqual(["pause.json", "abort.json"]);
});

test("a field with a default need not be typed, and a field that is not known is refused", () => {
  const schema = JSON.parse(schemaFiles()["logicalClusterMigration.json"]!) as {
    required: string[];
    additionalProperties: boolean;
    properties: Record<string, { description?: string }>;
  };
  expect(schema.required).toEqual(["logicalCluster", "to"]);
  expect(schema.additionalProperties).toBe(false);
  const unexplained = Object.entries(schema.properties).filter(([, { description }]) => !description);
  expect(unexplained).toEqual([]);
});

test("time limits can be set for each activity, and for nothing else", () => {
  type Names<T extends readonly string[]> = T[number];
  expectTypeOf<Names<typeof LOGICAL_CLUSTER_ACTIVITIES>>().toEqualTypeOf<
    Exclude<keyof LogicalClusterActivities, "preflight">
  >();
  expectTypeOf<Names<typeof CONTROL_PLANE_ACTIVITIES>>().toEqualTypeOf<
    Exclude<keyof ControlPlaneActivities, "preflightControlPlane">
  >();
});
