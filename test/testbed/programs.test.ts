import { mkdtemp, readdir, rm, writeFile, mkdir } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { execFileSync } from "node:child_process";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { cachedProgramPath } from "../../testbed/programs/cache.ts";
import { findProgram } from "../../testbed/programs/find.ts";
import { acquireLock, tryLock } from "../../testbed/programs/lock.ts";
import { isCompatibleVersion } from "../../testbed/programs/recipes.ts";

let folder: string;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "rehome-programs-"));
  vi.stubEnv("REHOME_CACHE", join(folder, "cache"));
  vi.stubEnv("REHOME_BIN_ETCD", "");
  await mkdir(join(folder, "cache"));
  await mkdir(join(folder, "path"));
});

afterEach(async () => {
  vi.unstubAllEnvs();
  await rm(folder, { recursive: true });
});

async function script(file: string, output: string): Promise<string> {
  await writeFile(file, `#!/bin/sh\necho "${output}"\n`, { mode: 0o755 });
  return file;
}

describe("findProgram", () => {
  it("takes the file that the environment variable names before any other", async () => {
    const chosen = await script(join(folder, "mine"), "anything");
    await script(join(folder, "path", "etcd"), "etcd Version: 3.6.8");
    vi.stubEnv("PATH", join(folder, "path"));
    vi.stubEnv("REHOME_BIN_ETCD", chosen);
    expect(await findProgram("etcd")).toBe(chosen);
  });

  it("refuses an environment variable that names no executable", async () => {
    vi.stubEnv("REHOME_BIN_ETCD", join(folder, "absent"));
    await expect(findProgram("etcd")).rejects.toThrow(/REHOME_BIN_ETCD=.*absent is not an executable/);
  });

  it("takes a program of a compatible version from PATH before the cache", async () => {
    const inPath = await script(join(folder, "path", "etcd"), "etcd Version: 3.6.9");
    await script(cachedProgramPath("etcd"), "etcd Version: 3.6.8");
    vi.stubEnv("PATH", `${join(folder, "path")}:/bin`);
    expect(await findProgram("etcd")).toBe(inPath);
  });

  it("passes over a program in PATH that is too old or tells no version", async () => {
    await script(join(folder, "path", "etcd"), "etcd Version: 3.4.30");
    await mkdir(join(folder, "second"));
    await script(join(folder, "second", "etcd"), "no version");
    const cached = await script(cachedProgramPath("etcd"), "etcd Version: 3.6.8");
    vi.stubEnv("PATH", `${join(folder, "path")}:${join(folder, "second")}:/bin`);
    expect(await findProgram("etcd")).toBe(cached);
  });

  it("names the alternatives when it must build and there is no Go", async () => {
    vi.stubEnv("PATH", join(folder, "path"));
    await expect(findProgram("etcdctl")).rejects.toThrow(/no Go toolchain.*PATH.*REHOME_BIN_ETCDCTL/s);
  });

  it("names the log when the build fails", async () => {
    await writeFile(join(folder, "path", "go"), "#!/bin/sh\n[ $1 = version ] || { echo broken; exit 3; }\n", {
      mode: 0o755,
    });
    vi.stubEnv("PATH", `${join(folder, "path")}:/bin`);
    await expect(findProgram("etcd")).rejects.toThrow(/exit code 3.*build-etcd-3.6.8.log.*broken/s);
  });

  it("builds with Go once for all who ask, and leaves only programs and the log in the cache", async () => {
    vi.stubEnv("PATH", `${join(folder, "path")}:${process.env["PATH"]}`);
    const [etcd, etcdctl] = await Promise.all([findProgram("etcd"), findProgram("etcdctl")]);
    expect(execFileSync(etcd, ["--version"]).toString()).toContain("etcd Version: 3.6.8");
    expect(execFileSync(etcdctl, ["version"]).toString()).toContain("etcdctl version: 3.6.8");
    const platform = `3.6.8-${process.platform}-${process.arch}`;
    expect((await readdir(join(folder, "cache"))).sort()).toEqual([
      "build-etcd-3.6.8.log",
      `etcd-${platform}`,
      `etcd-benchmark-${platform}`,
      `etcdctl-${platform}`,
    ]);
  }, 600_000);
});

describe("a file lock", () => {
  it("has one holder at a time", async () => {
    const file = join(folder, "lock");
    const order: string[] = [];
    const first = await acquireLock(file, () => order.push("never"));
    const second = acquireLock(file, (holder) => order.push(`waits for ${holder.pid}`)).then((lock) => {
      order.push("second");
      return lock;
    });
    await vi.waitFor(() => expect(order).toEqual([`waits for ${process.pid}`]));
    order.push("released");
    await first.release();
    await (await second).release();
    expect(order).toEqual([`waits for ${process.pid}`, "released", "second"]);
  });

  it("is taken over from a dead holder, and from one whose process id was reused", async () => {
    const file = join(folder, "lock");
    for (const stale of [
      { pid: 2 ** 22 + 1, start: "1" },
      { pid: process.pid, start: "not this process" },
    ]) {
      await writeFile(file, JSON.stringify(stale));
      const lock = await tryLock(file);
      expect(lock).toHaveProperty("release");
      if ("release" in lock) await lock.release();
    }
    expect(await readdir(folder)).toEqual(["cache", "path"]);
  });
});

describe("isCompatibleVersion", () => {
  it.each([
    ["3.6.8", "3.6.8", true],
    ["3.6.10", "3.6.8", true],
    ["3.6.7", "3.6.8", false],
    ["3.7.9", "3.6.8", false],
    ["4.6.8", "3.6.8", false],
  ])("%s in place of %s: %s", (found, pinned, expected) => {
    expect(isCompatibleVersion(found, pinned)).toBe(expected);
  });
});
