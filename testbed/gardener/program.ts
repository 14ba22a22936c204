import { execFile } from "node:child_process";
import { randomUUID } from "node:crypto";
import { copyFile, mkdir, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { cacheRoot, isExecutable } from "../programs/cache.ts";
import { acquireLock } from "../programs/lock.ts";
import { GARDENER } from "./modules.ts";

const run = promisify(execFile);

const variable = "REHOME_BIN_GARDENER_APISERVER";
const command = "github.com/gardener/gardener/cmd/gardener-apiserver";
const limits = { timeout: 30 * 60_000, maxBuffer: 64 << 20 };

/**
 * Gardener's own API server, which no CRD can stand in for (`shoots/binding`): the file that
 * REHOME_BIN_GARDENER_APISERVER names, else the cache, else built with Go from the pinned modules of
 * `apiserver/go.mod` (about 8 min with 2 cores, once).
 */
export async function findGardenerApiServer(): Promise<string> {
  const chosen = process.env[variable];
  if (chosen) {
    if (await isExecutable(chosen)) return chosen;
    throw new Error(`${variable}=${chosen} is not an executable file`);
  }
  const name = `gardener-apiserver-${GARDENER.version.slice(1)}-${process.platform}-${process.arch}`;
  const cached = join(cacheRoot(), name);
  if (await isExecutable(cached)) return cached;
  const lock = await acquireLock(join(cacheRoot(), "build.lock"), ({ pid }) =>
    console.error(`rehome: waiting for the build of process ${pid}`),
  );
  try {
    if (!(await isExecutable(cached))) await build(cached);
  } finally {
    await lock.release();
  }
  return cached;
}

async function build(file: string): Promise<void> {
  console.error(`rehome: building gardener-apiserver ${GARDENER.version} with Go: about 8 min once`);
  const folder = join(cacheRoot(), `build-gardener-${randomUUID()}`);
  await mkdir(folder, { recursive: true });
  try {
    for (const pin of ["go.mod", "go.sum"])
      await copyFile(join(import.meta.dirname, "apiserver", pin), join(folder, pin));
    const flags = ["-mod=readonly", "-trimpath", "-ldflags", "-s -w", "-o", "gardener-apiserver"];
    const env = { ...process.env, GOWORK: "off", CGO_ENABLED: "0" };
    await run("go", ["build", ...flags, command], { cwd: folder, env, ...limits });
    await rename(join(folder, "gardener-apiserver"), file);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}
