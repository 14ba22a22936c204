import { execFile } from "node:child_process";
import { delimiter, join } from "node:path";
import { promisify } from "node:util";
import { buildRecipe } from "./build.ts";
import { cachedProgramPath, isExecutable } from "./cache.ts";
import { findDebianProgram, isDebianProgram } from "./debian.ts";
import type { DebianProgramName } from "./debian.ts";
import { environmentVariableOf, isCompatibleVersion, recipeOf } from "./recipes.ts";
import type { Program, ProgramName } from "./recipes.ts";

const run = promisify(execFile);

/**
 * Absolute path of an executable: REHOME_BIN_<NAME> (taken as it is), else PATH
 * (if it tells a compatible version), else the cache, else built or unpacked into
 * the cache. Throws an Error that names the alternatives when the variable names no
 * executable, Go or the package is missing or the build fails.
 */
export async function findProgram(name: ProgramName | DebianProgramName): Promise<string> {
  const variable = environmentVariableOf(name);
  const chosen = process.env[variable];
  if (chosen) {
    if (await isExecutable(chosen)) return chosen;
    throw new Error(`${variable}=${chosen} is not an executable file`);
  }
  if (isDebianProgram(name)) return await findDebianProgram(name);
  const { recipe, program } = recipeOf(name);
  const inPath = await findInPath(program, recipe.version, name);
  if (inPath !== undefined) return inPath;
  const cached = cachedProgramPath(name);
  if (!(await isExecutable(cached))) await buildRecipe(recipe);
  return cached;
}

async function findInPath(program: Program, pinned: string, name: ProgramName): Promise<string | undefined> {
  if (program.version === undefined) return undefined;
  for (const folder of (process.env["PATH"] ?? "").split(delimiter)) {
    const file = join(folder, name);
    if (folder === "" || !(await isExecutable(file))) continue;
    const found = await versionOf(file, program.version);
    if (found !== undefined && isCompatibleVersion(found, pinned)) return file;
  }
  return undefined;
}

async function versionOf(
  file: string,
  version: NonNullable<Program["version"]>,
): Promise<string | undefined> {
  try {
    const { stdout, stderr } = await run(file, [...version.arguments], { timeout: 10_000 });
    return version.pattern.exec(stdout + stderr)?.[1];
  } catch {
    // A program that cannot tell its version is as good as absent: the next place is asked.
    return undefined;
  }
}
