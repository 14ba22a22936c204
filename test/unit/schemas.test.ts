import { mkdtemp, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { outdatedSchemas, SCHEMA_FOLDER, schemaFiles } from "../../inputs/generate-schemas.ts";

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
