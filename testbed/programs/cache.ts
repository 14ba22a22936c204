import { constants } from "node:fs";
import { access } from "node:fs/promises";
import { homedir } from "node:os";
import { join } from "node:path";
import { recipeOf } from "./recipes.ts";
import type { ProgramName } from "./recipes.ts";

/** Folder of everything that outlives a run: REHOME_CACHE, else `$XDG_CACHE_HOME/rehome`, else `~/.cache/rehome`. */
export function cacheRoot(environment: NodeJS.ProcessEnv = process.env): string {
  if (environment["REHOME_CACHE"]) return environment["REHOME_CACHE"];
  return join(environment["XDG_CACHE_HOME"] || join(homedir(), ".cache"), "rehome");
}

/** Where the built program is kept: `<cache>/<name>-<version>-<os>-<arch>`, one executable file. */
export function cachedProgramPath(name: ProgramName, environment: NodeJS.ProcessEnv = process.env): string {
  const { version } = recipeOf(name).recipe;
  return join(cacheRoot(environment), `${name}-${version}-${process.platform}-${process.arch}`);
}

/** Whether `file` exists and may be executed by this user. */
export async function isExecutable(file: string): Promise<boolean> {
  return await access(file, constants.X_OK).then(
    () => true,
    () => false,
  );
}
