import { findProgram } from "./find.ts";
import { programNames } from "./recipes.ts";
import type { ProgramName } from "./recipes.ts";

/** Finds or builds programs (all when none is named) and prints `<name> <path>` for each. */
export async function buildPrograms(names: readonly string[]): Promise<void> {
  const wanted = names.length === 0 ? programNames : names;
  const unknown = wanted.filter((name) => !(programNames as string[]).includes(name));
  if (unknown.length > 0) {
    throw new RangeError(`unknown program ${unknown.join(", ")}; known are ${programNames.join(", ")}`);
  }
  for (const name of wanted) console.log(`${name} ${await findProgram(name as ProgramName)}`);
}

if (import.meta.main) {
  try {
    await buildPrograms(process.argv.slice(2));
  } catch (error) {
    console.error((error as Error).message);
    process.exitCode = error instanceof RangeError ? 2 : 1;
  }
}
