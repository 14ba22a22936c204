import { debianProgramNames } from "./debian.ts";
import type { DebianProgramName } from "./debian.ts";
import { findProgram } from "./find.ts";
import { defaultProgramNames, programNames } from "./recipes.ts";
import type { ProgramName } from "./recipes.ts";

/** Every name that {@link buildPrograms} takes. */
export const knownNames: readonly string[] = [...programNames, ...debianProgramNames];

/**
 * Finds, builds or unpacks programs and prints `<name> <path>` for each. Without
 * names: what is built from source, which every system can have, and most tests need.
 */
export async function buildPrograms(names: readonly string[]): Promise<void> {
  const wanted = names.length === 0 ? defaultProgramNames : names;
  const unknown = wanted.filter((name) => !knownNames.includes(name));
  if (unknown.length > 0) {
    throw new RangeError(`unknown program ${unknown.join(", ")}; known are ${knownNames.join(", ")}`);
  }
  for (const name of wanted) {
    console.log(`${name} ${await findProgram(name as ProgramName | DebianProgramName)}`);
  }
}

if (import.meta.main) {
  try {
    await buildPrograms(process.argv.slice(2));
  } catch (error) {
    console.error((error as Error).message);
    process.exitCode = error instanceof RangeError ? 2 : 1;
  }
}
