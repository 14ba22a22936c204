import { mkdir, readFile, rename, writeFile } from "node:fs/promises";
import { dirname } from "node:path";
import { fileURLToPath } from "node:url";
import { bundleWorkflowCode, DefaultLogger } from "@temporalio/worker";
import type { WorkflowBundle } from "@temporalio/worker";

/** Where `npm run build` writes the workflows, and where workers read them from. */
export const BUNDLE_FILE = fileURLToPath(new URL("../dist/workflows.js", import.meta.url));
const WORKFLOWS = fileURLToPath(new URL("../workflows/index.ts", import.meta.url));

/**
 * Bundles workflow code. Refuses code that imports anything a workflow must not use.
 *
 * @param workflowsPath module that exports the workflow types and nothing else.
 */
export async function buildBundle(workflowsPath: string): Promise<WorkflowBundle> {
  const { code } = await bundleWorkflowCode({ workflowsPath, logger: new DefaultLogger("WARN") });
  return { code };
}

/**
 * The bundle made by `npm run build`. A worker never bundles by itself: what it runs is what was built and replayed.
 *
 * @throws Error that says how to make it, when it is absent.
 */
export async function readBundle(file: string = BUNDLE_FILE): Promise<WorkflowBundle> {
  try {
    return { code: await readFile(file, "utf8") };
  } catch (error) {
    throw new Error(`no workflow bundle at ${file}; make it with: npm run build`, { cause: error });
  }
}

async function main(): Promise<void> {
  const { code } = await buildBundle(WORKFLOWS);
  await mkdir(dirname(BUNDLE_FILE), { recursive: true });
  // A worker that starts meanwhile finds the old bundle or the new one, never half of one.
  const draft = `${BUNDLE_FILE}.${process.pid}`;
  await writeFile(draft, code);
  await rename(draft, BUNDLE_FILE);
  console.log(`${BUNDLE_FILE}: ${code.length} characters`);
}

if (import.meta.main) await main();
