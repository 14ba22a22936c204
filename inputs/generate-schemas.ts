import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { z } from "zod";
import { controlPlaneMigrationInput } from "./control-plane-migration.ts";
import { logicalClusterMigrationInput } from "./logical-cluster-migration.ts";
import { abortInput, approveInput, pauseInput, resumeInput } from "./messages.ts";

/** Where the schemas are kept, for editors, forms and other programs. */
export const SCHEMA_FOLDER = fileURLToPath(new URL("../deploy/schemas", import.meta.url));

/** What a person types, by the name of the workflow type or of the update that takes it. */
const SCHEMAS: Readonly<Record<string, z.ZodType>> = {
  logicalClusterMigration: logicalClusterMigrationInput,
  controlPlaneMigration: controlPlaneMigrationInput,
  approve: approveInput,
  pause: pauseInput,
  resume: resumeInput,
  abort: abortInput,
};

/**
 * JSON Schemas (draft 2020-12) of all inputs as they are typed: fields with a default are optional.
 * @returns content by file name.
 */
export function schemaFiles(): Record<string, string> {
  const files = Object.entries(SCHEMAS).map(([name, schema]) => {
    const { $schema, ...rest } = z.toJSONSchema(schema, { io: "input", target: "draft-2020-12" });
    return [`${name}.json`, `${JSON.stringify({ $schema, title: name, ...rest }, null, 2)}\n`];
  });
  return Object.fromEntries(files);
}

/** Names of the files in `folder` that are missing or not what {@link schemaFiles} makes. */
export async function outdatedSchemas(folder: string = SCHEMA_FOLDER): Promise<string[]> {
  const checked = Object.entries(schemaFiles()).map(async ([name, content]) => {
    const kept = await readFile(join(folder, name), "utf8").catch(() => undefined);
    return kept === content ? [] : [name];
  });
  return (await Promise.all(checked)).flat();
}

async function main(words: readonly string[]): Promise<void> {
  if (words.includes("--check")) {
    const outdated = await outdatedSchemas();
    if (outdated.length === 0) return;
    process.stderr.write(`out of date in deploy/schemas: ${outdated.join(", ")}; run: npm run schemas\n`);
    process.exitCode = 1;
    return;
  }
  await mkdir(SCHEMA_FOLDER, { recursive: true });
  for (const [name, content] of Object.entries(schemaFiles())) {
    await writeFile(join(SCHEMA_FOLDER, name), content);
  }
}

if (import.meta.main) await main(process.argv.slice(2));
