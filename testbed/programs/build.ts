import { execFile, spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { constants } from "node:fs";
import { chmod, copyFile, cp, mkdir, open, readdir, readFile, rename, rm } from "node:fs/promises";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { cachedProgramPath, cacheRoot, isExecutable } from "./cache.ts";
import { acquireLock } from "./lock.ts";
import { environmentVariableOf } from "./recipes.ts";
import type { CompletedModule, ProgramName, Recipe } from "./recipes.ts";

const run = promisify(execFile);

/**
 * Builds every program of a recipe with Go into the cache, unless another
 * process has done so meanwhile. Builds are serialised over all processes of
 * this machine, since one build already uses every core. Each program appears
 * by a rename, so a cached file is always whole. Tells progress on stderr.
 */
export async function buildRecipe(recipe: Recipe): Promise<void> {
  const lock = await acquireLock(join(cacheRoot(), "build.lock"), (holder) =>
    tell(`waiting for the build of process ${holder.pid}`),
  );
  try {
    if (await isBuilt(recipe)) return;
    await requireGo(recipe);
    const folder = join(cacheRoot(), `build-${recipe.name}-${randomUUID()}`);
    try {
      await buildIn(folder, recipe);
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
  } finally {
    await lock.release();
  }
}

/** Names of the programs that a recipe builds. */
export function programsOf(recipe: Recipe): ProgramName[] {
  return Object.keys(recipe.programs) as ProgramName[];
}

async function isBuilt(recipe: Recipe): Promise<boolean> {
  const built = await Promise.all(programsOf(recipe).map((name) => isExecutable(cachedProgramPath(name))));
  return built.every(Boolean);
}

async function requireGo(recipe: Recipe): Promise<void> {
  try {
    await run("go", ["version"]);
  } catch {
    const names = programsOf(recipe);
    const variables = names.map(environmentVariableOf).join(", ");
    throw new Error(
      `${names.join(", ")} ${recipe.version} must be built, but there is no Go toolchain ("go") in PATH. ` +
        `Install Go 1.26 or later, or put ${names.join(", ")} ${recipe.version} into PATH, ` +
        `or name the files in ${variables}.`,
    );
  }
}

async function buildIn(folder: string, recipe: Recipe): Promise<void> {
  const recipeFolder = join(import.meta.dirname, recipe.name);
  const outputs = join(folder, "out");
  const logFile = join(cacheRoot(), `build-${recipe.name}-${recipe.version}.log`);
  const started = performance.now();
  tell(
    `building ${programsOf(recipe).join(", ")} ${recipe.version} with Go: about ${recipe.minutes} min once, log ${logFile}`,
  );
  await mkdir(outputs, { recursive: true });
  for (const file of ["go.mod", "go.sum", ...(recipe.sources ?? [])]) {
    await copyFile(join(recipeFolder, file), join(folder, file));
  }
  for (const module of recipe.completedModules) await completeModule(module, recipeFolder, folder);
  const packages = Object.values(recipe.programs).map((program) => program.package);
  const flags = ["-mod=readonly", "-trimpath", "-ldflags", recipe.linkerFlags.join(" ")];
  await runLogged(["build", ...flags, "-o", `${outputs}/`, ...packages], folder, logFile);
  for (const name of programsOf(recipe)) {
    const output = recipe.programs[name]?.output ?? name;
    await rename(join(outputs, output), cachedProgramPath(name));
  }
  tell(`built ${recipe.name} ${recipe.version} in ${Math.round((performance.now() - started) / 1000)} s`);
}

/** Go itself, free of a workspace or C compiler that happens to be around. */
function goEnvironment(): NodeJS.ProcessEnv {
  return { ...process.env, GOWORK: "off", CGO_ENABLED: "0" };
}

async function completeModule(module: CompletedModule, recipeFolder: string, folder: string): Promise<void> {
  const { stdout } = await run("go", ["mod", "download", "-json", `${module.path}@${module.version}`], {
    // Outside the recipe's module, whose go.mod replaces this one by the folder that is to be made.
    cwd: dirname(folder),
    // Checked against the pinned checksum below, so the public checksum database need not be reachable.
    env: { ...goEnvironment(), GONOSUMDB: module.path },
  });
  const downloaded = JSON.parse(stdout) as { Dir: string; Sum: string };
  if (downloaded.Sum !== module.sum) {
    throw new Error(
      `${module.path}@${module.version} has checksum ${downloaded.Sum}, expected ${module.sum}`,
    );
  }
  const destination = join(folder, module.folder);
  await cp(downloaded.Dir, destination, { recursive: true, mode: constants.COPYFILE_FICLONE });
  await makeWritable(destination);
  for (const [from, to] of Object.entries(module.additions)) {
    await copyFile(join(recipeFolder, from), join(destination, to));
  }
}

/** The module cache is read-only, and so is a copy of it: neither added to nor removed without this. */
async function makeWritable(folder: string): Promise<void> {
  await chmod(folder, 0o755);
  for (const entry of await readdir(folder, { withFileTypes: true })) {
    if (entry.isDirectory()) await makeWritable(join(folder, entry.name));
  }
}

async function runLogged(goArguments: string[], folder: string, logFile: string): Promise<void> {
  const log = await open(logFile, "w");
  try {
    const child = spawn("go", goArguments, {
      cwd: folder,
      env: goEnvironment(),
      stdio: ["ignore", log.fd, log.fd],
    });
    const code = await new Promise<number | null>((resolve, reject) => {
      child.once("error", reject);
      child.once("exit", resolve);
    });
    if (code !== 0)
      throw new Error(`go build failed (exit code ${code}), log ${logFile}:\n${await tail(logFile)}`);
  } finally {
    await log.close();
  }
}

async function tail(file: string): Promise<string> {
  return (await readFile(file, "utf8")).trimEnd().split("\n").slice(-10).join("\n");
}

function tell(line: string): void {
  console.error(`rehome: ${line}`);
}
