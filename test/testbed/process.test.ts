import { mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { startEtcd } from "../../testbed/etcd.ts";
import { Server } from "../../testbed/process.ts";
import { identityOf, isAlive } from "../../testbed/process-identity.ts";
import type { ProcessIdentity } from "../../testbed/process-identity.ts";
import { cacheRoot } from "../../testbed/programs/cache.ts";
import { clearLeftovers } from "../../testbed/run-registry.ts";
import { lineOf, startNode, waitUntilGone } from "./wait.ts";

const holdEtcd = join(import.meta.dirname, "fixtures", "hold-etcd.ts");
let dir: string;

beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), "rehome-process-"));
});

afterEach(async () => {
  await rm(dir, { recursive: true });
});

/** A process of its own that has started an etcd. */
async function startHolder() {
  const holder = startNode(holdEtcd, [dir]);
  const server = identityOf(Number(await lineOf(holder, /^\d+$/)));
  return { holder: identityOf(holder.pid as number), server };
}

async function runFileOf(parent: ProcessIdentity) {
  const file = join(cacheRoot(), "run", `${parent.pid}-${parent.start}.json`);
  return JSON.parse(await readFile(file, "utf8")) as { guardian: ProcessIdentity };
}

const shell = (script: string, probe: () => Promise<void> = async () => undefined) =>
  new Server({
    name: "sample",
    command: "/bin/sh",
    arguments: ["-c", script],
    logFile: join(dir, "sample.log"),
    probe,
    readyWithinMs: 500,
  });
const refuse = () => Promise.reject(new Error("refused"));

describe("servers end with the process that started them", () => {
  it.each(["SIGKILL", "SIGTERM", "SIGINT"] as const)("after %s", async (signal) => {
    const { holder, server } = await startHolder();
    process.kill(holder.pid, signal);
    expect(await waitUntilGone([holder, server], 5_000)).toBeLessThan(5_000);
  });

  it("at the next start, when the guardian was killed too", async () => {
    const { holder, server } = await startHolder();
    const { guardian } = await runFileOf(holder);
    process.kill(guardian.pid, "SIGKILL");
    process.kill(holder.pid, "SIGKILL");
    await waitUntilGone([guardian, holder], 5_000);
    expect(isAlive(server)).toBe(true);
    expect(await clearLeftovers()).toContain("etcd held");
    expect(isAlive(server)).toBe(false);
  });

  it("but nobody else does, whose process id a dead server had before", async () => {
    const bystander = await startEtcd({ dir, name: "bystander" });
    const dead = { pid: 2 ** 22 + 1, start: "1" };
    const stale = {
      parent: dead,
      guardian: dead,
      servers: [{ pid: bystander.server.pid, start: "1", name: "x" }],
    };
    const file = join(cacheRoot(), "run", "stale-test.json");
    await writeFile(file, JSON.stringify(stale));
    expect(await clearLeftovers()).toEqual([]);
    expect(bystander.server.isRunning).toBe(true);
    expect(await readdir(join(cacheRoot(), "run"))).not.toContain("stale-test.json");
    await bystander.server.stop();
  });
});

describe("a server", () => {
  it("that ends before it is ready is reported with its log", async () => {
    const start = shell("echo no disk; exit 7", refuse).start();
    await expect(start).rejects.toThrow(/sample ended \(exit code 7\).*sample\.log.*no disk/s);
  });

  it("that never gets ready is stopped and reported with the last answer of its probe", async () => {
    const server = shell("sleep 60", refuse);
    await expect(server.start()).rejects.toThrow(/sample was not ready after 1 s \(refused\)/);
    expect(server.isRunning).toBe(false);
  });

  it("that cannot be executed is reported", async () => {
    const server = new Server({ ...shell("").spec, command: join(dir, "absent"), probe: refuse });
    await expect(server.start()).rejects.toThrow(/sample ended \(exit code 127\).*absent/s);
  });

  it("is killed with its children when it does not end in time", async () => {
    const server = await shell("trap '' TERM; sleep 60 & echo $!; wait; wait").start();
    const child = await vi.waitFor(async () =>
      identityOf(Number(await readFile(join(dir, "sample.log"), "utf8"))),
    );
    await server.stop(200);
    expect(server.isRunning).toBe(false);
    await waitUntilGone([child], 1_000);
  });

  it("tells of a crash, but not of a stop", async () => {
    const server = await shell("sleep 60").start();
    process.kill(server.pid, "SIGKILL");
    expect((await server.crashed()).message).toMatch(/sample ended by itself \(signal SIGKILL\)/);
    await server.start();
    const crash = vi.fn<(error: Error) => void>();
    void server.crashed().then(crash);
    await server.stop();
    expect(crash).not.toHaveBeenCalled();
  });

  it("keeps its address and data over kill and start", async () => {
    const { endpoint, server } = await startEtcd({ dir, name: "kept" });
    const put = { key: btoa("k"), value: btoa("v") };
    await fetch(`${endpoint}/v3/kv/put`, { method: "POST", body: JSON.stringify(put) });
    await server.kill();
    await server.start();
    const range = await fetch(`${endpoint}/v3/kv/range`, {
      method: "POST",
      body: JSON.stringify({ key: put.key }),
    });
    expect(await range.json()).toMatchObject({ kvs: [{ value: put.value }] });
    await server.stop();
  });
});
